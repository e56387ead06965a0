"""`python -m millpond.alerts prometheus | table | runbook`: what is made from the alerts, on standard output."""

from __future__ import annotations

import argparse
import sys

from millpond.alerts import prometheus, table
from millpond.alerts.definitions import load


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m millpond.alerts", description=__doc__)
    kinds = parser.add_subparsers(dest="what", required=True)
    rules = kinds.add_parser("prometheus", help="alerting rules")
    rules.add_argument("--url", default="", help="the service's address: rules link to its runbook")
    kinds.add_parser("table", help="the runbook's table of thresholds")
    kinds.add_parser("runbook", help="the page of the runbook, from its Markdown on standard input")
    given = parser.parse_args()
    if given.what == "prometheus":
        made = prometheus.render(load(), given.url)
    elif given.what == "table":
        made = table.render(load())
    else:
        # Imported here: it needs a Markdown parser, which no server needs.
        from millpond.alerts import runbook_page  # noqa: PLC0415

        made = runbook_page.render(sys.stdin.buffer.read().decode())
    # Bytes, because the output becomes a file of the repository and must not depend on the terminal's encoding.
    sys.stdout.buffer.write(made.encode())


if __name__ == "__main__":
    main()
