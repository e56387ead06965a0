"""A copy of the embedded store, of one moment, while another process writes to it.

SQLite's online backup, from a connection that holds a read transaction. Without one each commit of the server
would make the copy begin again: under 300 messages a second it never ends. With it the copy is of the moment it
began, the server goes on committing, and only its write-ahead log grows meanwhile. `VACUUM INTO` gives the same
moment, but in one statement, without progress and at twice the time.

Nothing here writes to the store, and nothing is left beside the target unless the copy is whole and checked.
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
from millpond.stores.sqlite.errors import translate
from millpond.stores.sqlite.file import amount

# Between two steps a Ctrl-C is heard and the progress is told: 1 MiB at a time.
_STEP_PAGES = 256
# Synced on the way: one sync of everything at the end would hold up the server's own for as long.
_SYNC_BYTES = 32 * 1024 * 1024
# Often enough for a Ctrl-C to be heard while SQLite checks the copy.
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
    """There is no copy, and nothing is left of the attempt. The text says why and what to do."""


def copy_store(store: Path, target: Path, progress: Progress = lambda _done, _total: None) -> Copied:
    """Copy `store` to `target`, which must not exist. `progress` hears how many pages of how many are copied.

    Raises StoreError where the store cannot be read, CopyFailed where the copy cannot be made.
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
    # A write-ahead log or journal left of another file would be taken for the copy's own, and applied to it.
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
    """A connection that sees one moment of the store until it is closed."""
    try:
        connection = sqlite_schema.open_reader(store)
    except apsw.Error as error:
        raise translate(error) from error
    try:
        connection.execute("BEGIN")
        # The first read fixes the moment.
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
    """An empty file beside the target; whatever happens, it and what SQLite puts beside it are gone afterwards."""
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        # Whoever may read the store may read the copy, and nobody else.
        partial.chmod(stat.S_IMODE(store.stat().st_mode))
        yield partial
    except OSError as error:
        raise CopyFailed(f"{target} could not be written: {error.strerror}; nothing is left of it") from None
    finally:
        for left in (partial, *(_beside(partial, suffix) for suffix in _COMPANIONS)):
            with contextlib.suppress(OSError):
                left.unlink()


def _copy(source: apsw.Connection, partial: Path, progress: Progress) -> int:
    """Every page; the schema's number. What a crash leaves is thrown away, so SQLite need not guard against one."""
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
    """Check the copy by itself, and count what is in it."""
    copy = apsw.Connection(str(partial), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        copy.set_progress_handler(lambda: False, _HEARD_EVERY_INSTRUCTIONS)
        # A file in WAL mode can only be read where a second one can be made beside it. A server turns it on again.
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
    """Make the copy durable, then give it its name, unless somebody took it meanwhile."""
    _sync(partial)
    try:
        os.link(partial, target)
    except FileExistsError:
        raise CopyFailed(f"{target} was made by somebody else meanwhile, and is not overwritten") from None
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
