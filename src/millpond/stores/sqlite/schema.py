"""The embedded store's tables and their migrations. Never change a released migration."""

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


def last_version(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT n FROM last_version").get)


def set_last_version(connection: apsw.Connection, version: int) -> None:
    connection.execute("UPDATE last_version SET n = ?", (version,))


def upgrade(connection: apsw.Connection, migrations: Sequence[str], path: Path | str) -> None:
    found = refuse_newer(connection, len(migrations), path)
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


def refuse_newer(connection: apsw.Connection, known: int, path: Path | str) -> int:
    found = int(connection.execute("PRAGMA user_version").get)
    if found > known:
        raise Unavailable(
            f"{path} has schema {found}, but this version of Millpond knows only {known}: "
            "use the newer Millpond that made it"
        )
    return found
