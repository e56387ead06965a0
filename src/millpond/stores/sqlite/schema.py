"""The embedded store's tables, their migrations, and how the file is opened. Never change a released migration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw

from millpond.core.errors import Unavailable

# MIGRATIONS[n] takes a file from schema n to n + 1. Never change one that was released: append.
MIGRATIONS: Sequence[str] = (
    """
    CREATE TABLE documents(
      collection TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, expire_at INTEGER, body BLOB NOT NULL);
    CREATE UNIQUE INDEX documents_by_path ON documents(collection, id);
    CREATE INDEX documents_by_expiry ON documents(expire_at) WHERE expire_at IS NOT NULL;

    -- Receipts have long random ids, and every message leaves one: an index on a four-byte hash instead of on the
    -- id halves what each of them costs. The id is compared as well, so a collision is harmless.
    CREATE TABLE receipts(
      hash INTEGER NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, expire_at INTEGER, body BLOB NOT NULL);
    CREATE INDEX receipts_by_hash ON receipts(hash);
    CREATE INDEX receipts_by_expiry ON receipts(expire_at) WHERE expire_at IS NOT NULL;

    CREATE TABLE events(
      seq INTEGER PRIMARY KEY, message_id TEXT NOT NULL, topic TEXT NOT NULL, event_id TEXT,
      arrived_at INTEGER NOT NULL, outcome TEXT NOT NULL, body BLOB NOT NULL);
    CREATE UNIQUE INDEX events_by_message ON events(message_id, topic);
    CREATE INDEX events_by_event ON events(event_id) WHERE event_id IS NOT NULL;
    CREATE TABLE event_counts(
      topic TEXT NOT NULL, outcome TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (topic, outcome)) WITHOUT ROWID;

    -- One counter for the whole store: a version is never used twice, also when a document is made anew.
    CREATE TABLE last_version(n INTEGER NOT NULL);
    INSERT INTO last_version VALUES (0);
    """,
)
_BUSY_TIMEOUT_MS = 5_000


def open_writer(
    path: Path | str, migrations: Sequence[str] = MIGRATIONS, *, durable: bool = True
) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    # NORMAL could lose acknowledged commits in a power failure.
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
    connection.execute("PRAGMA wal_autocheckpoint = 4000").fetchall()
    # Small: a commit that splits a page scans SQLite's whole cache. The kernel caches the file anyway.
    connection.execute("PRAGMA cache_size = -8192")
    # A statement of many rows keeps a journal to undo it. In memory, or each one would create a temporary file.
    connection.execute("PRAGMA temp_store = MEMORY")
    _upgrade(connection, migrations, path)
    return connection


def open_reader(path: Path | str) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    _refuse_newer(connection, len(MIGRATIONS), path)
    return connection


def last_version(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT n FROM last_version").get)


def set_last_version(connection: apsw.Connection, version: int) -> None:
    connection.execute("UPDATE last_version SET n = ?", (version,))


def _upgrade(connection: apsw.Connection, migrations: Sequence[str], path: Path | str) -> None:
    found = _refuse_newer(connection, len(migrations), path)
    for number, script in enumerate(migrations[found:], start=found + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute(script)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _refuse_newer(connection: apsw.Connection, known: int, path: Path | str) -> int:
    found = int(connection.execute("PRAGMA user_version").get)
    if found > known:
        raise Unavailable(
            f"{path} has schema {found}, but this version of Millpond knows only {known}: "
            "use the newer Millpond that made it"
        )
    return found
