"""Documents as rows. Receipts have a table of their own (`schema` explains why), which only this module knows.

Every function that writes returns how many rows met their precondition; the store rolls back if one did not.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import apsw

from millpond.core.collections import RECEIPTS
from millpond.core.model import Ref, Version

# Ref, version that it must have now, time of expiry, encoded document.
PutRow = tuple[Ref, Version | None, int | None, bytes]

COLLECTIONS = f"""
    SELECT collection, count(*) FROM documents GROUP BY collection
    UNION ALL SELECT '{RECEIPTS}', count(*) FROM receipts WHERE EXISTS (SELECT 1 FROM receipts)
    GROUP BY 1 ORDER BY 1
"""  # noqa: S608 - a constant of ours
_FETCH = "SELECT version, body FROM documents WHERE collection = ? AND id = ?"
_FETCH_RECEIPT = "SELECT version, body FROM receipts WHERE hash = ? AND id = ?"
_PAGE = "SELECT id, version, body FROM documents WHERE collection = ? AND id > ? ORDER BY id LIMIT ?"
_PAGE_RECEIPTS = "SELECT id, version, body FROM receipts WHERE id > ? ORDER BY id LIMIT ?"
_CREATE = "INSERT INTO documents VALUES {values} ON CONFLICT DO NOTHING"
_CREATE_RECEIPT = """
    WITH new(hash, id, version, expire_at, body) AS (VALUES {values})
    INSERT INTO receipts SELECT * FROM new
    WHERE NOT EXISTS (SELECT 1 FROM receipts AS old WHERE old.hash = new.hash AND old.id = new.id)
"""
_UPDATE = """
    WITH new(version, expire_at, body, collection, id, base) AS (VALUES {values})
    UPDATE documents AS old SET version = new.version, expire_at = new.expire_at, body = new.body FROM new
    WHERE old.collection = new.collection AND old.id = new.id AND old.version = new.base
"""
_UPDATE_RECEIPT = """
    WITH new(version, expire_at, body, hash, id, base) AS (VALUES {values})
    UPDATE receipts AS old SET version = new.version, expire_at = new.expire_at, body = new.body FROM new
    WHERE old.hash = new.hash AND old.id = new.id AND old.version = new.base
"""
_DELETE = "DELETE FROM documents WHERE collection = ? AND id = ? AND version = ?"
_DELETE_RECEIPT = "DELETE FROM receipts WHERE hash = ? AND id = ? AND version = ?"


def fetch(connection: apsw.Connection, ref: Ref) -> tuple[Version | None, bytes | None]:
    collection, key = ref
    if collection == RECEIPTS:
        rows = connection.execute(_FETCH_RECEIPT, (_hash(key), key))
    else:
        rows = connection.execute(_FETCH, ref)
    return rows.fetchone() or (None, None)


def page(collection: str, limit: int, after: str | None) -> tuple[str, tuple[Any, ...]]:
    if collection == RECEIPTS:
        return _PAGE_RECEIPTS, (after or "", limit)
    return _PAGE, (collection, after or "", limit)


def count(collection: str) -> tuple[str, tuple[Any, ...]]:
    if collection == RECEIPTS:
        return "SELECT count(*) FROM receipts", ()
    return "SELECT count(*) FROM documents WHERE collection = ?", (collection,)


def put_all(connection: apsw.Connection, puts: Sequence[PutRow], version: int) -> int:
    """Create and replace documents and receipts, each kind in as few statements as possible."""
    creates: list[tuple[Any, ...]] = []
    updates: list[tuple[Any, ...]] = []
    receipt_creates: list[tuple[Any, ...]] = []
    receipt_updates: list[tuple[Any, ...]] = []
    for (collection, key), base, expire_at, body in puts:
        if collection == RECEIPTS:
            if base is None:
                receipt_creates.append((_hash(key), key, version, expire_at, body))
            else:
                receipt_updates.append((version, expire_at, body, _hash(key), key, base))
        elif base is None:
            creates.append((collection, key, version, expire_at, body))
        else:
            updates.append((version, expire_at, body, collection, key, base))
    before = connection.total_changes()
    for sql, rows in (
        (_CREATE, creates),
        (_UPDATE, updates),
        (_CREATE_RECEIPT, receipt_creates),
        (_UPDATE_RECEIPT, receipt_updates),
    ):
        if rows:
            execute_many(connection, sql, rows)
    return connection.total_changes() - before


def delete(connection: apsw.Connection, ref: Ref, base: Version) -> int:
    collection, key = ref
    if collection == RECEIPTS:
        return _changes(connection, _DELETE_RECEIPT, (_hash(key), key, base))
    return _changes(connection, _DELETE, (collection, key, base))


def sweep(connection: apsw.Connection, now: int, limit: int) -> int:
    """Delete up to `limit` expired rows of each table."""
    return sum(
        _changes(
            connection,
            f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE expire_at <= ? LIMIT ?)",  # noqa: S608
            (now, limit),
        )
        for table in ("documents", "receipts")
    )


def _changes(connection: apsw.Connection, sql: str, bindings: tuple[Any, ...]) -> int:
    before = connection.total_changes()
    connection.execute(sql, bindings)
    return connection.total_changes() - before


def _hash(key: str) -> int:
    return zlib.crc32(key.encode())


# Rows per statement: few sizes, so that all statements stay in SQLite's statement cache.
_SIZES = (64, 16, 4, 1)


def execute_many(connection: apsw.Connection, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Execute `sql` for all rows; `{values}` in it is replaced by placeholders for them.

    `executemany` releases and takes the GIL for every row. While the event loop is busy, the writer thread waits
    each time, so a flood of requests would delay the commits that make room for them.
    """
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            chunk = rows[start : start + size]
            connection.execute(_text(sql, size, len(chunk[0])), tuple(chain.from_iterable(chunk)))
            start += size


@lru_cache(maxsize=256)
def _text(sql: str, rows: int, columns: int) -> str:
    row = "(" + ", ".join("?" * columns) + ")"
    return sql.format(values=", ".join([row] * rows))
