"""Connections to the embedded store: one that writes, durably, and others that only read.

Opened by the store, by backups and by the doctor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw

from millpond.stores.sqlite.schema import MIGRATIONS, refuse_newer, upgrade

_BUSY_TIMEOUT_MS = 5_000


def open_writer(
    path: Path | str, migrations: Sequence[str] = MIGRATIONS, *, durable: bool = True
) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    with _closed_on_failure(connection):
        connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        # NORMAL could lose acknowledged commits in a power failure.
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        connection.execute("PRAGMA wal_autocheckpoint = 4000").fetchall()
        # Small: a commit that splits a page scans SQLite's whole cache. The kernel caches the file anyway.
        connection.execute("PRAGMA cache_size = -8192")
        # A statement of many rows keeps a journal to undo it. In memory, or each one would create a temporary file.
        connection.execute("PRAGMA temp_store = MEMORY")
        upgrade(connection, migrations, path)
    return connection


def open_reader(path: Path | str) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    with _closed_on_failure(connection):
        connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
        refuse_newer(connection, len(MIGRATIONS), path)
    return connection


@contextlib.contextmanager
def _closed_on_failure(connection: apsw.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        close_quietly(connection)
        raise


def close_quietly(connection: apsw.Connection) -> None:
    """Close after a failure, which is what is reported: on a broken disk, closing fails as well."""
    with contextlib.suppress(apsw.Error):
        connection.close()
