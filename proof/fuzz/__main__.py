"""`python -m proof.fuzz`: mutated requests against a real server. The work is in `command.py`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Events are made, and servers started, as the tests do it.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    from proof.fuzz.command import main

    sys.exit(main(sys.argv[1:]))
