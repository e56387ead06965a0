"""The connection on which a store of this process writes, for settings of SQLite that hold for one connection."""

from __future__ import annotations

from pathlib import Path

import apsw


def writer_of(path: Path) -> apsw.Connection:
    """The one connection to this file that was not opened for reading only."""
    (found,) = [one for one in apsw.connections() if Path(one.filename) == path and not one.readonly("main")]
    return found
