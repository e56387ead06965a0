"""The lock file of an embedded store: one writer at a time. It also holds the URL of that writer.

The server and commands that write take the lock. Other commands read it to find the server.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import msgspec

from millpond.core.errors import MillpondError


class StoreInUse(MillpondError):
    """Another process writes to this store."""

    def __init__(
        self, path: Path, holder: Holder, advice: str = "stop it, or name another store with STORE=sqlite:PATH"
    ) -> None:
        where = f" ({holder.url})" if holder.url else ""
        super().__init__(f"{path} is in use by process {holder.pid}{where}: {advice}")
        self.path = path
        self.holder = holder


class Holder(msgspec.Struct):
    pid: int = 0
    url: str | None = None


class StoreLock:
    """Held from construction to `release`, or to the end of the process however it ends."""

    def __init__(self, store_path: Path) -> None:
        self._path = _lock_path(store_path)
        self._file = self._path.open("a+b")
        for patience_s in (0.01, 0.02, 0.05, None):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                # Another command may hold a shared lock for a moment (`find_holder`).
                if patience_s is None:
                    self._file.close()
                    raise StoreInUse(store_path, _read(self._path)) from None
                time.sleep(patience_s)
        self.announce(None)

    def announce(self, url: str | None) -> None:
        self._file.truncate(0)
        self._file.write(msgspec.json.encode(Holder(os.getpid(), url)))
        self._file.flush()

    def release(self) -> None:
        self._file.truncate(0)
        self._file.close()


def find_holder(store_path: Path) -> Holder | None:
    """The process that writes to the store now, or None."""
    path = _lock_path(store_path)
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return None
    except OSError:
        return _read(path)
    return None


def _lock_path(store_path: Path) -> Path:
    return store_path.with_name(store_path.name + ".lock")


def _read(path: Path) -> Holder:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return Holder()
