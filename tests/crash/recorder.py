"""A disk below SQLite that works as usual and keeps a journal of everything that was done to it, in order.

What a power cut leaves behind is worked out from the journal afterwards (`crash.power`), so one run of a workload
serves any number of cuts. Shared memory does not pass here: it is gone after a cut anyway.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

_numbers = itertools.count(1)
# For these SQLite also syncs the folder, the first time it syncs the file: os_unix.c, UNIXFILE_DIRSYNC.
_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL


class Created(NamedTuple):
    name: str


class Deleted(NamedTuple):
    name: str
    # Whether the folder was synced as well.
    synced: bool


class Written(NamedTuple):
    name: str
    offset: int
    content: bytes


class Resized(NamedTuple):
    name: str
    size: int


class Synced(NamedTuple):
    name: str
    # Whether the folder was synced as well.
    folder: bool


class Acknowledged(NamedTuple):
    """Nothing that was done to the disk: a commit has returned, and this is what the store held then."""

    content: Any


Step = Created | Deleted | Written | Resized | Synced | Acknowledged


class RecordingDisk(apsw.VFS):
    def __init__(self) -> None:
        self.journal: list[Step] = []
        self.name = f"recording-{next(_numbers)}"
        super().__init__(self.name, base="")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - SQLite's name, here and below
        path = _path(name)
        is_new = path is not None and not path.exists()
        file = _RecordingFile(self, name, flags)
        if is_new and path is not None and path.exists():
            self.journal.append(Created(path.name))
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.journal.append(Deleted(Path(filename).name, bool(syncdir)))


class _RecordingFile(apsw.VFSFile):
    def __init__(self, disk: RecordingDisk, name: Any, flags: list[int]) -> None:
        self._journal = disk.journal
        path = _path(name)
        # A file without a name is SQLite's own, and is not missed after a cut.
        self._name = None if path is None else path.name
        self._folder_due = bool(flags[0] & _JOURNALS and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        if self._name is not None:
            self._journal.append(Written(self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        if self._name is not None:
            self._journal.append(Resized(self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        super().xSync(flags)
        if self._name is not None:
            self._journal.append(Synced(self._name, self._folder_due))
            self._folder_due = False


@contextmanager
def sqlite_on(disk: Any) -> Iterator[None]:
    """Every connection opened meanwhile is on this disk: stores need not know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apsw, "Connection", functools.partial(apsw.Connection, vfs=disk.name))
        yield


def _path(name: Any) -> Path | None:
    if name is None:
        return None
    return Path(name.filename() if isinstance(name, apsw.URIFilename) else name)
