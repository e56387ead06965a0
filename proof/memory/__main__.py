"""`python -m proof.memory`: the work is in `run.py`."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # The server is started as the acceptance tests start theirs.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    from proof.memory.run import main

    sys.exit(main())
