"""The files behind the embedded store: whether their names still lead to them, and whether their disk has room.

SQLite goes on writing into a file that was deleted or moved, and says that all is well. What it stores then has no
name, and is gone with the process. So the store asks here before it calls anything durable.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from millpond.core.errors import StoreFileGone, Unavailable

# More than the greatest commit takes (`EngineRules.batch_bytes_max`): a probe that needs one page of the disk would
# call it healthy while commits go on failing.
ROOM_BYTES = 4 * 1024 * 1024
_SUFFIXES = ("", "-wal", "-shm")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_GONE = (FileNotFoundError, NotADirectoryError)
_RUNBOOK = "docs/runbook.md#store-failing"


class StoreFile:
    """The database, its write-ahead log and its shared memory, as they were when the store was opened."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        # By name: device and inode.
        self._held = {name: held for suffix in _SUFFIXES if (held := _identity(name := f"{path}{suffix}"))}
        self._lost: str | None = None

    def check(self) -> None:
        """Raise StoreFileGone if a name no longer leads to the file that is open. Once found, that stays so.

        A file that comes back is refused as well: another process may have opened it under its other name, without
        the log of writes that we hold. Three calls of stat, about a microsecond each: the system keeps the names of
        open files in memory, so this does not wait for the disk.
        """
        if self._lost is None:
            self._lost = self._find_lost()
        if self._lost is not None:
            raise StoreFileGone(self._lost, code="FILE_GONE")

    def check_room(self) -> None:
        """Raise Unavailable if the disk has no room for a large commit. The file it tries this with has no name."""
        try:
            with tempfile.TemporaryFile(dir=self._path.parent) as scratch:
                scratch.write(bytes(ROOM_BYTES))
        except OSError as error:
            if error.errno not in _NO_ROOM:
                # A folder in which no file can be made says nothing about those that are open.
                return
            text = f"no room for {ROOM_BYTES >> 20} MiB beside {self._path}: {error.strerror}"
            raise Unavailable(text, code="NO_ROOM") from error

    def _find_lost(self) -> str | None:
        for name, held in self._held.items():
            try:
                found = _identity(name)
            except OSError as error:
                # Not proof that it is gone: the next look may succeed.
                raise Unavailable(f"{name} cannot be looked at: {error.strerror}", code="STAT_FAILED") from error
            if found != held:
                what = "was deleted or moved" if found is None else "was replaced by another file"
                return (
                    f"{name} {what} while this process had it open: nothing is stored any more until a restart. "
                    f"Before that, put the file back, or save what this process still holds: {_RUNBOOK}"
                )
        return None


def _identity(name: str) -> tuple[int, int] | None:
    """Device and inode, or None if there is no such file."""
    try:
        found = os.stat(name)  # noqa: PTH116 - half the cost of a Path's
    except _GONE:
        return None
    return found.st_dev, found.st_ino


def amount(size: int) -> str:
    """Bytes as a person reads them, in thousands, as disks are sold."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size / 1e3:,.1f} kB"
