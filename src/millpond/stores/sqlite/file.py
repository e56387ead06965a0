"""The files of the embedded store: whether their names still refer to the open files, and whether there is room.

SQLite goes on writing to a file that was deleted or moved, and reports success. Such writes are lost when the
process ends. So the store calls `check` before and after each commit, and reports none as durable without it.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from millpond.core.errors import StoreFileGone, Unavailable

# More than the largest commit (`EngineRules.batch_bytes_max`): a probe of one page would succeed while larger
# commits still fail.
ROOM_BYTES = 4 * 1024 * 1024
_SUFFIXES = ("", "-wal", "-shm")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_GONE = (FileNotFoundError, NotADirectoryError)
_RUNBOOK = "docs/runbook.md#store-failing"


class StoreFile:
    """The database, its write-ahead log and its shared memory, by their identity when the store was opened."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        # Device and inode by name.
        self._held = {name: held for suffix in _SUFFIXES if (held := _identity(name := f"{path}{suffix}"))}
        self._lost: str | None = None

    def check(self) -> None:
        """Raise StoreFileGone if a name no longer refers to the open file. From then on it always raises.

        A file that is moved back is refused too: another process may have opened it under the other name, without
        the write-ahead log that this process holds. Costs three calls of stat, about a microsecond each: the kernel
        keeps the names of open files in memory, so this does not wait for the disk.
        """
        if self._lost is None:
            self._lost = self._find_lost()
        if self._lost is not None:
            raise StoreFileGone(self._lost, code="FILE_GONE")

    def check_room(self) -> None:
        """Raise Unavailable if the disk has no room for a large commit. Tried with an unnamed temporary file."""
        try:
            with tempfile.TemporaryFile(dir=self._path.parent) as scratch:
                scratch.write(bytes(ROOM_BYTES))
        except OSError as error:
            if error.errno not in _NO_ROOM:
                # If no file can be created in the folder, the open files may still be writable.
                return
            text = f"no room for {ROOM_BYTES >> 20} MiB beside {self._path}: {error.strerror}"
            raise Unavailable(text, code="NO_ROOM") from error

    def _find_lost(self) -> str | None:
        for name, held in self._held.items():
            try:
                found = _identity(name)
            except OSError as error:
                # This does not prove that the file is gone: the next check may succeed.
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
    """Bytes as text, in decimal units (kB, MB, GB)."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size / 1e3:,.1f} kB"
