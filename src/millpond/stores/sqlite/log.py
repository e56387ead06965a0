"""The event log as rows: each message once, with its outcome; its counts are updated in the same commit.

An entry that a later delivery completes is written again under a new number, so that readers see it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import apsw

from millpond.core.model import LogEntry, Outcome
from millpond.stores.log_entry import OPEN, completed, decode_entry, encode_body, is_same_message
from millpond.stores.sqlite.rows import execute_many

COLUMNS = "message_id, topic, event_id, arrived_at, outcome, body"
FIND = f"SELECT {COLUMNS} FROM events WHERE message_id = ? OR event_id = ? ORDER BY arrived_at, seq"  # noqa: S608
COUNT = "SELECT topic, outcome, n FROM event_counts WHERE n > 0 ORDER BY topic, outcome"
PAGE = f"SELECT seq, {COLUMNS} FROM events WHERE seq > ? ORDER BY seq LIMIT ?"  # noqa: S608
_OPEN = f"SELECT seq, {COLUMNS} FROM events WHERE message_id = ? AND outcome IN (?, ?)"  # noqa: S608
_HELD = "SELECT count(*) FROM events WHERE message_id = ? AND topic = ?"
_OPEN_COUNT = "SELECT count(*) FROM event_counts WHERE topic = ? AND outcome IN (?, ?) AND n > 0"
_INSERT = f"INSERT INTO events(seq, {COLUMNS}) VALUES {{values}} ON CONFLICT DO NOTHING"  # noqa: S608
# Sequence numbers reserved for each commit; more than a batch can have messages.
_PER_COMMIT = 4_096


def append(connection: apsw.Connection, log: Sequence[LogEntry], version: int) -> None:
    """Append the entries that the log does not hold yet. Must run inside the commit's transaction.

    Sequence numbers derive from the commit's version, which is never reused: a reader that continues from a number
    misses no entry, even if entries were deleted.
    """
    groups: dict[tuple[str, Outcome], list[LogEntry]] = {}
    seen: set[tuple[str, str]] = set()
    copies: list[LogEntry] = []
    numbers = count(version * _PER_COMMIT)
    for entry in log:
        message = (entry.delivery.message_id, entry.topic)
        if message in seen:
            # Rows are grouped by outcome, and the entry of a later copy must not be inserted first.
            copies.append(entry)
            continue
        seen.add(message)
        if not (entry.replay and _complete(connection, entry, numbers)):
            groups.setdefault((entry.topic, entry.result.outcome), []).append(entry)
    for (topic, outcome), entries in groups.items():
        before = connection.total_changes()
        execute_many(connection, _INSERT, [_row(next(numbers), entry) for entry in entries])
        added = connection.total_changes() - before
        _count(connection, topic, outcome, added)
        if added < len(entries) and connection.execute(_OPEN_COUNT, (topic, *OPEN)).get:
            for entry in entries:
                _complete(connection, entry, numbers)
    for entry in copies:
        _complete(connection, entry, numbers)


def _row(number: int, entry: LogEntry) -> tuple[Any, ...]:
    message = (entry.delivery.message_id, entry.topic, entry.event_id, entry.arrived_at)
    return (number, *message, str(entry.result.outcome), encode_body(entry))


def _complete(connection: apsw.Connection, entry: LogEntry, numbers: Iterator[int]) -> bool:
    """Complete the open entry of this message, if there is one; False if there is none."""
    # A replayed message may have been buried before its topic was known.
    by_topic = not entry.replay or connection.execute(_HELD, (entry.delivery.message_id, entry.topic)).get
    for seq, *row in connection.execute(_OPEN, (entry.delivery.message_id, *OPEN)).fetchall():
        earlier = decode_row(row)
        if not (earlier.topic == entry.topic if by_topic else is_same_message(earlier, entry)):
            continue
        newer = completed(earlier, entry)
        if newer is not None:
            _remove(connection, [(seq, earlier.topic, earlier.result.outcome)])
            before = connection.total_changes()
            execute_many(connection, _INSERT, [_row(next(numbers), newer)])
            _count(connection, newer.topic, newer.result.outcome, connection.total_changes() - before)
        return True
    return False


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


def _remove(connection: apsw.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    connection.executemany("DELETE FROM events WHERE seq = ?", [(seq,) for seq, _, _ in rows])
    for _, topic, outcome in rows:
        _count(connection, topic, Outcome(outcome), -1)


def _count(connection: apsw.Connection, topic: str, outcome: Outcome, n: int) -> None:
    connection.execute(
        "INSERT INTO event_counts VALUES (?, ?, ?) ON CONFLICT (topic, outcome) DO UPDATE SET n = n + excluded.n",
        (topic, str(outcome), n),
    )
