"""A disk below SQLite whose N-th call of one kind fails: once, or from then on until the fault is lifted.

SQLite hears the error as any file system's. One thing is different: apsw also raises what SQLite would shrug off,
as in the checkpoint behind a commit that has already succeeded.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import apsw

_numbers = itertools.count(1)


class Fault(NamedTuple):
    """Which calls fail (write, sync, truncate, read, open, delete), and with what."""

    call: str
    error: type[apsw.Error]
    # Until lifted; else once.
    lasting: bool = False


class FaultyDisk(apsw.VFS):
    def __init__(self) -> None:
        self.name = f"faulty-{next(_numbers)}"
        # How many calls have failed since it was armed.
        self.struck = 0
        self._fault: Fault | None = None
        self._left = 0
        super().__init__(self.name, base="")

    def arm(self, fault: Fault, nth: int) -> None:
        self._fault, self._left, self.struck = fault, nth, 0

    def lift(self) -> None:
        self._fault = None

    def meet(self, call: str) -> None:
        """Count a call, and fail it where it is the one, or one after it."""
        fault = self._fault
        if fault is None or fault.call != call:
            return
        self._left -= 1
        if self._left == 0 or (self._left < 0 and fault.lasting):
            self.struck += 1
            raise fault.error(f"{call} fails")

    def xOpen(self, name: Any, flags: list[int]) -> Any:  # noqa: N802 - SQLite's name, here and below
        self.meet("open")
        return _FaultyFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.meet("delete")
        super().xDelete(filename, syncdir)


class _FaultyFile(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> Any:  # noqa: N802
        self._disk.meet("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._disk.meet("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.meet("sync")
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.meet("truncate")
        super().xTruncate(newsize)
