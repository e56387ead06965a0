"""`python -m proof.memory`: the work is in `run.py`."""

from __future__ import annotations

import sys

from proof.memory.run import main

if __name__ == "__main__":
    sys.exit(main())
