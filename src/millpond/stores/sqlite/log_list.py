"""Finds past events in the log's table: newest first, in a range of time, without an index on the time.

An index would cost every message. Numbers grow with each commit, so arrival times are almost sorted by number. A
binary search finds the end of the range, and the log is then read backwards. Exceptions to that order:

- messages of one commit, or that waited for it: `_MARGIN_US` covers them;
- completed entries, which have a new number and their first arrival. They are found at the place of their
  completion. If that is after the range's end plus the margin, they are not found.
- a clock that was set back by more than the margin: entries from then may be missing from a range that has an end.

A call looks at a bounded number of rows and of bytes. Called by the store, in the thread of people's queries.
"""

from __future__ import annotations

from typing import Any

import apsw

from millpond.core import timestamps
from millpond.core.log_filter import LogFilter
from millpond.core.model import LogEntry, LogPage
from millpond.stores.log_entry import without_data
from millpond.stores.sqlite.log import COLUMNS, decode_row

# Messages are tried for less than this before they are committed, or answered `retry`.
_MARGIN_US = 120 * timestamps.SECOND_US
# Rows looked at in one call, in growing stretches: mostly the first one holds a whole page. The last one is longer
# than replays of old letters are without a new message among them: if all of it is old, the range is passed.
STRETCHES = (1_000, 10_000, 100_000)
# Data that is read and thrown away for one page; one entry is always read.
_BYTES_MAX = 32 * 1024 * 1024
# Rows that a step of the binary search looks at; the oldest counts. A completed entry then makes the search end too
# late in the log, and more rows are read; one odd clock reading does not make it end too early.
_PROBED = 16

_PROBE = (
    "SELECT min(seq), min(arrived_at) FROM (SELECT seq, arrived_at FROM events WHERE seq >= ? ORDER BY seq LIMIT ?)"
)
_ENDS = "SELECT (SELECT min(seq) FROM events), (SELECT max(seq) FROM events)"
_FLOOR = "SELECT seq FROM events WHERE seq < ? ORDER BY seq DESC LIMIT 1 OFFSET ?"
_NEWEST = "SELECT max(arrived_at) FROM events WHERE seq >= ? AND seq < ?"
_MATCHING = (
    "SELECT seq, length(body) FROM events WHERE seq >= ?1 AND seq < ?2"
    " AND (?3 IS NULL OR arrived_at >= ?3) AND (?4 IS NULL OR arrived_at < ?4)"
    " AND (?5 IS NULL OR topic = ?5) AND (?6 IS NULL OR outcome = ?6) ORDER BY seq DESC LIMIT ?7"
)
_ONE = f"SELECT {COLUMNS} FROM events WHERE seq = ?"  # noqa: S608


def list_entries(connection: apsw.Connection, wanted: LogFilter, limit: int, before: int | None) -> LogPage:
    """As the port says; `before` is a row's number. Opens a read transaction if there is none."""
    if connection.in_transaction:
        return _list(connection, wanted, limit, before)
    # One snapshot: an entry that is completed meanwhile must not vanish between two statements.
    connection.execute("BEGIN")
    try:
        return _list(connection, wanted, limit, before)
    finally:
        connection.execute("COMMIT")


def _list(connection: apsw.Connection, wanted: LogFilter, limit: int, before: int | None) -> LogPage:
    first, last = _row(connection, _ENDS)
    if first is None:
        return LogPage([], None, more=False)
    since, until = wanted.times
    top = before if before is not None else last + 1 if until is None else _end(connection, until, first, last)
    entries: list[LogEntry] = []
    position, left, newest = top, _BYTES_MAX, 0
    for rows in STRETCHES:
        floor: Any = connection.execute(_FLOOR, (top, rows - 1)).get
        bottom = first if floor is None else floor
        conditions = (bottom, top, since, until, wanted.topic, wanted.outcome, limit - len(entries) + 1)
        matching: list[Any] = connection.execute(_MATCHING, conditions).fetchall()
        for seq, size in matching:
            if entries and (len(entries) == limit or size > left):
                return LogPage(entries, str(position), more=True)
            entries.append(without_data(decode_row(_row(connection, _ONE, (seq,)))))
            position, left = seq, left - size
        if floor is None:
            return LogPage(entries, None, more=False)
        (newest,) = _row(connection, _NEWEST, (bottom, top))
        top = bottom
    # Completed entries are old among newer ones, so a few of them do not mean that the range is passed.
    is_passed = since is not None and newest < since - _MARGIN_US
    return LogPage(entries, None, more=False) if is_passed else LogPage(entries, str(top), more=True)


def _end(connection: apsw.Connection, until: int, first: int, last: int) -> int:
    """The number before which the entries of the range are: by binary search, in at most 64 steps."""
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        seq, oldest = _row(connection, _PROBE, (middle, _PROBED))
        if oldest >= until + _MARGIN_US:
            high = middle
        else:
            low = seq + 1
    return low


def _row(connection: apsw.Connection, sql: str, bindings: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    (found,) = connection.execute(sql, bindings).fetchall()
    return found
