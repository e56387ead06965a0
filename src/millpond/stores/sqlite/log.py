"""The event log as rows: each message once, with its outcome; its counts are updated in the same commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from millpond.core.model import LogEntry, Outcome
from millpond.stores.log_entry import decode_entry, encode_body, gives_way
from millpond.stores.sqlite.rows import execute_many

_COLUMNS = "message_id, topic, event_id, arrived_at, outcome, body"
FIND = f"SELECT {_COLUMNS} FROM events WHERE message_id = ? OR event_id = ? ORDER BY arrived_at, seq"  # noqa: S608
COUNT = "SELECT topic, outcome, n FROM event_counts WHERE n > 0 ORDER BY topic, outcome"
PAGE = f"SELECT seq, {_COLUMNS} FROM events WHERE seq > ? ORDER BY seq LIMIT ?"  # noqa: S608
_POISON = f"SELECT seq, {_COLUMNS} FROM events WHERE message_id = ? AND outcome = ?"  # noqa: S608
_INSERT = f"INSERT INTO events(seq, {_COLUMNS}) VALUES {{values}} ON CONFLICT DO NOTHING"  # noqa: S608
# Sequence numbers reserved for each commit; more than a batch can have messages.
_PER_COMMIT = 4_096


def append(connection: apsw.Connection, log: Sequence[LogEntry], version: int) -> None:
    """Append the entries that the log does not hold yet. Must run inside the commit's transaction.

    Sequence numbers derive from the commit's version, which is never reused: a reader that continues from a number
    misses no entry, even if entries were deleted.
    """
    groups: dict[tuple[str, Outcome], list[tuple[Any, ...]]] = {}
    seen: set[tuple[str, str]] = set()
    following = version * _PER_COMMIT
    for entry in log:
        message = (entry.delivery.message_id, entry.topic)
        if message in seen:
            # Rows are grouped by outcome, and the entry of a later copy must not be inserted first.
            continue
        seen.add(message)
        if entry.replay:
            _remove_poison(connection, entry)
        outcome = entry.result.outcome
        row = (following, *message, entry.event_id, entry.arrived_at, str(outcome), encode_body(entry))
        groups.setdefault((entry.topic, outcome), []).append(row)
        following += 1
    for (topic, outcome), rows in groups.items():
        before = connection.total_changes()
        execute_many(connection, _INSERT, rows)
        _count(connection, topic, outcome, connection.total_changes() - before)


def sweep(connection: apsw.Connection, before: int, limit: int) -> int:
    """Remove the oldest entries that arrived before `before`."""
    rows = connection.execute(
        "SELECT seq, topic, outcome FROM (SELECT seq, topic, outcome, arrived_at FROM events ORDER BY seq LIMIT ?)"
        " WHERE arrived_at < ?",
        (limit, before),
    ).fetchall()
    _remove(connection, rows)
    return len(rows)


def decode_row(row: Sequence[Any]) -> LogEntry:
    return decode_entry(*row)


def _remove_poison(connection: apsw.Connection, replayed: LogEntry) -> None:
    found = connection.execute(_POISON, (replayed.delivery.message_id, Outcome.POISON)).fetchall()
    rows = [(seq, row[1], row[4]) for seq, *row in found if gives_way(decode_row(row), replayed)]
    _remove(connection, rows)


def _remove(connection: apsw.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    connection.executemany("DELETE FROM events WHERE seq = ?", [(seq,) for seq, _, _ in rows])
    for _, topic, outcome in rows:
        _count(connection, topic, Outcome(outcome), -1)


def _count(connection: apsw.Connection, topic: str, outcome: Outcome, n: int) -> None:
    connection.execute(
        "INSERT INTO event_counts VALUES (?, ?, ?) ON CONFLICT (topic, outcome) DO UPDATE SET n = n + excluded.n",
        (topic, str(outcome), n),
    )
