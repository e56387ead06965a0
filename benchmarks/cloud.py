"""`make bench-cloud`: Millpond on Firestore against the textbook consumer, on one emulator, in one run.

The work is in `cloud_run.py`. docs/benchmarks.md explains what is measured and what an emulator can show; a
complete run writes its part of that page.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # The script's own folder leads sys.path; the modules are imported as `benchmarks.…`, from the folder above, and
    # the emulators are started by the same code as in the tests.
    root = Path(__file__).resolve().parents[1]
    sys.path[:1] = [str(root), str(root / "tests")]
    from benchmarks.cloud_run import main

    sys.exit(main())
