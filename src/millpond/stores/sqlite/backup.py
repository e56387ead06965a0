"""A consistent copy of the embedded store while another process writes to it. Called by `millpond backup`.

It uses SQLite's online backup, on a connection that holds a read transaction. Without the transaction each commit
of the server would restart the copy: at 300 messages a second it never ends. With it the copy is a snapshot of its
beginning; the server goes on committing, and only its write-ahead log grows meanwhile. `VACUUM INTO` makes the same
snapshot, but in one statement, without progress, and takes twice as long.

It never writes to the store, and leaves no file beside the target unless the copy is complete and checked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from millpond.core.errors import MillpondError, StoreError
from millpond.stores.sqlite import schema as sqlite_schema
from millpond.stores.sqlite.connection import open_reader
from millpond.stores.sqlite.errors import translate
from millpond.stores.sqlite.file import amount

# Pages per step, 1 MiB. Between two steps Ctrl-C takes effect and progress is reported.
_STEP_PAGES = 256
# Synced in pieces: one sync of the whole file at the end would block the server's own syncs meanwhile.
_SYNC_BYTES = 32 * 1024 * 1024
# Instructions of SQLite after which Ctrl-C takes effect while it checks the copy.
_HEARD_EVERY_INSTRUCTIONS = 100_000
_COMPANIONS = ("-journal", "-wal", "-shm")
Progress = Callable[[int, int], None]


class Copied(NamedTuple):
    """What the copy holds."""

    bytes: int
    documents: int
    receipts: int
    events: int
    schema: int
    seconds: float


class CopyFailed(MillpondError):
    """No copy was made, and no file is left. The text says why and what to do."""


def copy_store(store: Path, target: Path, progress: Progress = lambda _done, _total: None) -> Copied:
    """Copy `store` to `target`, which must not exist. `progress` is called with the pages copied and their total.

    Raises StoreError if the store cannot be read, CopyFailed if the copy cannot be made.
    """
    began = time.perf_counter()
    _refuse_taken(target)
    with _reading(store) as source, _temporary(store, target) as partial:
        _refuse_too_big(source, target)
        try:
            schema = _copy(source, partial, progress)
            copied = _examine(partial, schema)
        except (apsw.FullError, apsw.IOError) as error:
            raise CopyFailed(f"{target} could not be written: {translate(error)}; nothing is left of it") from None
        except apsw.Error as error:
            raise CopyFailed(f"{store} could not be copied: {translate(error)}") from None
        _publish(partial, target)
    return copied._replace(seconds=time.perf_counter() - began)


def _refuse_taken(target: Path) -> None:
    if not target.parent.is_dir():
        raise CopyFailed(f"there is no folder {target.parent}: make it, or name another file")
    # SQLite would apply a write-ahead log or journal that is left of another file to the copy.
    for taken in (target, *(_beside(target, suffix) for suffix in _COMPANIONS)):
        if taken.exists() or taken.is_symlink():
            raise CopyFailed(f"{taken} exists and is not overwritten: move it away, or name another file")


def _refuse_too_big(source: apsw.Connection, target: Path) -> None:
    need = int(source.execute("PRAGMA page_count").get) * int(source.execute("PRAGMA page_size").get)
    free = shutil.disk_usage(target.parent).free
    if need > free:
        raise CopyFailed(
            f"the disk of {target.parent} has {amount(free)} free, and the copy needs {amount(need)}: "
            "make room, or name a file elsewhere"
        )


@contextlib.contextmanager
def _reading(store: Path) -> Iterator[apsw.Connection]:
    """A connection with a read transaction: it sees one snapshot of the store until it is closed."""
    try:
        connection = open_reader(store)
    except apsw.Error as error:
        raise translate(error) from error
    try:
        connection.execute("BEGIN")
        # The snapshot is taken at the first read.
        sqlite_schema.last_version(connection)
        yield connection
    except apsw.SQLError:
        raise StoreError(f"{store} is no Millpond store") from None
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        connection.close()


@contextlib.contextmanager
def _temporary(store: Path, target: Path) -> Iterator[Path]:
    """An empty file beside the target. It, and what SQLite puts beside it, is always deleted afterwards."""
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        # The copy has the permissions of the store.
        partial.chmod(stat.S_IMODE(store.stat().st_mode))
        yield partial
    except OSError as error:
        raise CopyFailed(f"{target} could not be written: {error.strerror}; nothing is left of it") from None
    finally:
        for left in (partial, *(_beside(partial, suffix) for suffix in _COMPANIONS)):
            with contextlib.suppress(OSError):
                left.unlink()


def _copy(source: apsw.Connection, partial: Path, progress: Progress) -> int:
    """Copy every page. Returns the schema's number. No journal: after a crash the file is thrown away."""
    target = apsw.Connection(str(partial))
    file = os.open(partial, os.O_RDWR)
    try:
        target.execute("PRAGMA journal_mode = OFF").fetchall()
        target.execute("PRAGMA synchronous = OFF")
        page_bytes = int(source.execute("PRAGMA page_size").get)
        unsynced = 0
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(_STEP_PAGES)
                progress(backup.page_count - backup.remaining, backup.page_count)
                unsynced += _STEP_PAGES * page_bytes
                if unsynced >= _SYNC_BYTES:
                    os.fsync(file)
                    unsynced = 0
        return int(source.execute("PRAGMA user_version").get)
    finally:
        target.close()
        os.close(file)


def _examine(partial: Path, schema: int) -> Copied:
    """Check the copy with SQLite, and count its rows."""
    copy = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        copy.set_progress_handler(lambda: False, _HEARD_EVERY_INSTRUCTIONS)
        # Reading a file in WAL mode needs a second file beside it, so WAL is off in the copy. A server turns it on.
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
        verdict = copy.execute("PRAGMA quick_check(1)").get
        found = int(copy.execute("PRAGMA user_version").get)
        if verdict != "ok" or found != schema:
            what = verdict if verdict != "ok" else f"it has schema {found} instead of {schema}"
            raise CopyFailed(
                f"the copy is damaged, and was thrown away: {what}. `millpond doctor` says whether the store is"
            )
        documents, receipts, events = (
            int(copy.execute(sql).get)
            for sql in (
                "SELECT count(*) FROM documents",
                "SELECT count(*) FROM receipts",
                "SELECT coalesce(sum(n), 0) FROM event_counts",
            )
        )
    finally:
        copy.close()
    return Copied(partial.stat().st_size, documents, receipts, events, schema, 0.0)


def _publish(partial: Path, target: Path) -> None:
    """Make the copy durable, then give it its name, unless another process has made that file meanwhile."""
    _sync(partial)
    try:
        os.link(partial, target)
    except FileExistsError:
        raise CopyFailed(f"{target} was made by another program meanwhile, and is not overwritten") from None
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        # A file system without hard links.
        _refuse_taken(target)
        partial.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
