"""`python -m millpond.alerts prometheus | table`: what is made from the alerts, on standard output."""

from __future__ import annotations

import argparse
import sys

from millpond.alerts import prometheus, table
from millpond.alerts.definitions import load

_MADE = {"prometheus": prometheus.render, "table": table.render}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m millpond.alerts", description=__doc__)
    parser.add_argument("what", choices=sorted(_MADE))
    what = parser.parse_args().what
    # Bytes, because the output becomes a file of the repository and must not depend on the terminal's encoding.
    sys.stdout.buffer.write(_MADE[what](load()).encode())


if __name__ == "__main__":
    main()
