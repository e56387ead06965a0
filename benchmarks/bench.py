"""`make bench`: every measurement in one run. The work is in `run.py`; README.md says what is measured."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # Python puts the script's own folder first in sys.path; `benchmarks.…` is imported from the folder above.
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from benchmarks.run import main

    sys.exit(main())
