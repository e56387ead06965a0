"""`make bench-fleet`: one instance against several on one Firestore, as processes and in virtual time.

The work is in `fleet_run.py`. A complete run writes the measured part of docs/scaling.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # The modules are imported as `benchmarks.…`; the emulator is started by the same code as in the tests.
    root = Path(__file__).resolve().parents[1]
    sys.path[:1] = [str(root), str(root / "tests")]
    from benchmarks.fleet_run import main

    sys.exit(main())
