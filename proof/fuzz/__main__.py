"""`python -m proof.fuzz`: mutated requests against a real server. The work is in `command.py`."""

from __future__ import annotations

import sys

from proof.fuzz.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
