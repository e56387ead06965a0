"""Reads the event log on Firestore in order of time: forwards from a position, and backwards in windows of time.

The log is in several parts: one for each shard of segments, and the entries of earlier builds. Each part is in
order of time; here they are merged. Entries are returned as they were committed, so a message may come several
times; `event_log` makes one of them.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple, Self

from millpond.core import timestamps
from millpond.core.collections import EVENT_LOG, EVENT_SEGMENTS
from millpond.core.model import LogEntry, Snapshot
from millpond.stores.firestore.old_entries import arrival_of, decode_old_entry
from millpond.stores.firestore.queries import Queries, Start
from millpond.stores.firestore.segments import SHARDS, decode_segment, first_id, last_id, time_of

# The entries of earlier builds, as a part of the log. After every hexadecimal digit.
OLD = "~"
PARTS = (*SHARDS, OLD)
# Documents that one query asks for: few at first, then more, as long as they are small.
# A segment may have almost a megabyte, and the next ones may be larger: at worst all parts hold 240 MB.
_AT_ONCE_MAX = 16
_BYTES_AT_ONCE = 1024 * 1024
# Backwards: the first window, how much longer the next one is, and when it is too full and is halved.
_WINDOW_US = 2 * timestamps.SECOND_US
_LONGER = 4
_FEW = 4
_FULL = 8
_LONG_US = 600 * timestamps.SECOND_US
_POSITION = re.compile(r"(\d{1,16})(?: (\d{1,9}) (\d{1,16}) ([0-9a-f]-\d{16}-[0-9a-f]{8}|~[^/]+))?", re.ASCII)
# Later than any time in an id.
_NEVER = 10**16


class PlacedEntry(NamedTuple):
    """An entry and its place in the log: the time and the name of its document, and its number in that."""

    place: tuple[int, str, int]
    entry: LogEntry


class LogDocument(NamedTuple):
    """A segment, or an entry of an earlier build. Its place in the log is `(at, name)`."""

    at: int
    name: str
    snapshot: Snapshot

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        if snapshot.ref.collection == EVENT_LOG:
            return cls(arrival_of(snapshot), OLD + snapshot.ref.id, snapshot)
        return cls(time_of(snapshot.ref.id), snapshot.ref.id, snapshot)

    def decode(self) -> list[PlacedEntry]:
        is_old = self.name.startswith(OLD)
        entries = [decode_old_entry(self.snapshot)] if is_old else decode_segment(self.snapshot)
        return [PlacedEntry((self.at, self.name, number), entry) for number, entry in enumerate(entries)]


class Position(NamedTuple):
    """A place in the log: a time, or a document of that time, of which `given` entries were given.

    They are its first ones if the log is read forwards, and its last ones backwards. `began` is when the reader
    began, by Firestore's clock.
    """

    at: int
    given: int = 0
    name: str | None = None
    began: int = 0

    @classmethod
    def decode(cls, text: str) -> Position:
        """Raises ValueError if it is none: it may come from a client."""
        found = _POSITION.fullmatch(text)
        if found is None:
            raise ValueError("no position in the event log")
        at, given, began, name = found.groups()
        return cls(int(at)) if name is None else cls(int(at), int(given), name, int(began))

    def after(self, entries: int) -> Position:
        """The position this many entries of the same document further on."""
        return self._replace(given=self.given + entries)

    def end(self, late_us: int) -> Position:
        """Where to read on after the last entry: what is committed up to `late_us` late must not be missed.

        Some parts of the log were read to their ends when the reader began, and not later. By then all was
        committed that is older than `late_us`.
        """
        return self if self.name is None else Position(max(0, self.began - late_us))

    def encode(self) -> str:
        return str(self.at) if self.name is None else f"{self.at} {self.given} {self.began} {self.name}"


class _Part:
    """One part of the log, read forwards: documents that were fetched and not taken yet."""

    def __init__(self, queries: Queries, part: str, begin: Position | None) -> None:
        self.fetched: deque[LogDocument] = deque()
        self.ended = False
        self._queries = queries
        self._part = part
        self._begin = begin
        self._last: LogDocument | None = None
        self._at_once = 1

    async def fetch(self) -> None:
        """Fetch more; called when all that was fetched is taken."""
        found = await (self._fetch_old() if self._part == OLD else self._fetch_segments())
        self.ended = len(found) < self._at_once
        self.fetched.extend(LogDocument.of(snapshot) for snapshot in found)
        if found:
            self._last = self.fetched[-1]
            largest = max(len((snapshot.data or {})["body"]) for snapshot in found)
            self._at_once = min(2 * self._at_once, _AT_ONCE_MAX, max(1, _BYTES_AT_ONCE // max(1, largest)))

    async def _fetch_segments(self) -> list[Snapshot]:
        after = None if self._last is None else self._last.name
        ids = (self._first(), last_id(self._part))
        return await self._queries.by_id(EVENT_SEGMENTS, self._at_once, after=after, ids=ids)

    def _first(self) -> str:
        if self._begin is None:
            return first_id(self._part, 0)
        at, _, name, _ = self._begin
        if name is None or self._part > name[0]:
            return first_id(self._part, at)
        # Of the same time, documents of this shard are before the position, or it is one of them.
        return name if self._part == name[0] else first_id(self._part, at + 1)

    async def _fetch_old(self) -> list[Snapshot]:
        start = None
        if self._last is not None:
            start = Start(timestamps.to_datetime(self._last.at), self._last.name.removeprefix(OLD))
        elif self._begin is not None:
            at, _, name, _ = self._begin
            after = name.removeprefix(OLD) if name is not None and name.startswith(OLD) else None
            start = Start(timestamps.to_datetime(at), after)
        return await self._queries.where(EVENT_LOG, order_by="arrivedAt", start=start, limit=self._at_once)


class LogReader:
    """The log from a position on. It keeps what it fetched until it is taken, so go on with the same reader."""

    def __init__(self, queries: Queries, begin: Position | None, now: int) -> None:
        """`now`: Firestore's time."""
        self._began = now if begin is None or begin.name is None else begin.began
        self._parts = [_Part(queries, part, begin) for part in PARTS]
        self._begin = begin
        self._entries: list[PlacedEntry] = []
        # After the last entry that was taken; None if none was.
        self.position: Position | None = None

    async def take(self, limit: int) -> tuple[list[PlacedEntry], bool]:
        """Up to `limit` entries, and whether there are more."""
        taken: list[PlacedEntry] = []
        while len(taken) < limit:
            if not self._entries:
                document = await self._next()
                if document is None:
                    return taken, False
                is_first = self._begin is not None and self._begin.name == document.name
                given = self._begin.given if self._begin is not None and is_first else 0
                self._entries = document.decode()[given:]
                self.position = Position(document.at, given, document.name, self._began)
            some = self._entries[: limit - len(taken)]
            self._entries = self._entries[len(some) :]
            taken += some
            self.position = self.position and self.position.after(len(some))
        return taken, bool(self._entries) or await self._peek() is not None

    async def _peek(self) -> _Part | None:
        """The part that has the next document."""
        empty = [part for part in self._parts if not part.fetched and not part.ended]
        await asyncio.gather(*(part.fetch() for part in empty))
        waiting = [part for part in self._parts if part.fetched]
        return min(waiting, key=lambda part: part.fetched[0][:2]) if waiting else None

    async def _next(self) -> LogDocument | None:
        part = await self._peek()
        return None if part is None else part.fetched.popleft()


async def read_backwards(queries: Queries, since: int | None, until: int) -> AsyncIterator[LogDocument]:
    """Documents of the times from `since` to before `until`, the newest first."""
    window, end, floor = _WINDOW_US, until, since or 0
    knows_oldest = False
    while end > floor:
        if window > _LONG_US and not knows_oldest:
            # A long window is mostly over the time before the log.
            knows_oldest, floor = True, max(floor, await _oldest(queries))
            continue
        begin = max(floor, end - window)
        found = await _in_window(queries, begin, end)
        if found is None:
            window = (end - begin) // 2
            continue
        for document in found:
            yield document
        end = begin
        window *= _LONGER if len(found) < _FEW else 1


async def _in_window(queries: Queries, begin: int, end: int) -> list[LogDocument] | None:
    """The documents of a window, the newest first; None if it holds too many and can be shorter."""
    limit = _FULL + 1 if end - begin > 1 else None
    found = await asyncio.gather(*(_in_part(queries, part, begin, end, limit) for part in PARTS))
    if limit is not None and any(len(documents) == limit for documents in found):
        return None
    return sorted((document for documents in found for document in documents), reverse=True, key=lambda d: d[:2])


async def _in_part(queries: Queries, part: str, begin: int, end: int, limit: int | None) -> list[LogDocument]:
    if part == OLD:
        bounds = [("GREATER_THAN_OR_EQUAL", begin), ("LESS_THAN", end)]
        filters = [("arrivedAt", how, timestamps.to_datetime(us)) for how, us in bounds]
        found = await queries.where(EVENT_LOG, *filters, order_by="arrivedAt", limit=limit)
    else:
        ids = (first_id(part, begin), first_id(part, end))
        found = await queries.by_id(EVENT_SEGMENTS, limit, ids=ids)
    return [LogDocument.of(snapshot) for snapshot in found]


async def _oldest(queries: Queries) -> int:
    """The time of the first document; later than any if there is none."""
    reader = LogReader(queries, None, 0)
    await reader.take(1)
    return _NEVER if reader.position is None else reader.position.at
