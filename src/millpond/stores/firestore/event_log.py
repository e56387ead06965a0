"""The event log on Firestore, for people and for folds: found by id, listed, counted and read, each message once.

The log is append-only: a commit does not look up what the log holds, so a message may be in it several times
(`stores.log_merge`). An entry that may have others is looked up by its message id, and all of them are returned as
one. `store` appends and asks; the outcome of an event never depends on the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple

from millpond.concurrency import in_thread
from millpond.core.collections import EVENT_LOG, EVENT_SEGMENTS
from millpond.core.decode import MESSAGE_ID_BYTES_MAX
from millpond.core.log_filter import LogFilter
from millpond.core.model import LogEntry, LogPage, Outcome, Snapshot
from millpond.stores.firestore import old_entries
from millpond.stores.firestore.clock import ERROR_US as CLOCK_ERROR_US
from millpond.stores.firestore.clock import FirestoreClock
from millpond.stores.firestore.log_reader import LogDocument, LogReader, PlacedEntry, Position, read_backwards
from millpond.stores.firestore.queries import Queries
from millpond.stores.firestore.segments import event_id_key, hash_id
from millpond.stores.log_entry import OPEN, without_data
from millpond.stores.log_merge import merge_entries

# Firestore allows so many values in one filter.
_IDS_AT_ONCE = 30
# How much one call of `list_entries` looks at: entries that are looked up, and documents, each as much as some.
_LOOKS_MAX = 300
_DOCUMENT_LOOKS = 5
# Segments and messages that `find` looks at: producers may give one event id to any number of events.
_FOUND_MAX = 200


class LoggedMessage(NamedTuple):
    """All that the log has about a message, and which of its entries stands for it in a list."""

    entry: LogEntry
    place: tuple[int, str, int]


# By the place of each of its entries.
Messages = dict[tuple[int, str, int], LoggedMessage]


class EventLog:
    def __init__(self, queries: Queries, clock: FirestoreClock, late_us: int) -> None:
        """`late_us`: how long after the last arrival in it a segment may be committed."""
        self._queries = queries
        self._clock = clock
        self._late_us = late_us
        # The reader of the last page that was followed by more, and the position after it.
        self._paused: tuple[str, LogReader] | None = None

    async def _now_us(self) -> int:
        """Firestore's time, about. If no answer told it yet, ask."""
        if not self._clock.is_known:
            await self._queries.by_id(EVENT_SEGMENTS, 1)
        return self._clock.now_us()

    def time_of(self, log: Sequence[LogEntry]) -> int:
        """The time for the segment of these entries: the last arrival, by Firestore's clock."""
        return max(0, max(entry.arrived_at for entry in log) + self._clock.offset_us)

    # --- by id ----------------------------------------------------------------------------------------------------

    async def find(self, any_id: str) -> list[LogEntry]:
        """Entries with this message id or event id, the oldest first."""
        if not _is_unicode(any_id):
            return []
        segments = await self._queries.where(
            EVENT_SEGMENTS, ("ids", "ARRAY_CONTAINS", hash_id(any_id)), limit=_FOUND_MAX
        )
        found = await _placed_in_thread([*segments, *await self._find_old(any_id)])
        keys = {event_id_key(any_id), old_entries.event_id_key(any_id)}
        by_event = {p.entry.delivery.message_id for p in found if p.entry.event_id in keys} - {any_id}
        found = [placed for placed in found if placed.entry.delivery.message_id == any_id]
        # Not all entries of a message have its event id: it may have been unreadable once. And a message that was
        # logged very often may have been settled in a segment beyond the limit.
        incomplete = [any_id] if found and len(segments) == _FOUND_MAX else []
        if by_event or incomplete:
            found = [] if incomplete else found
            found += await self._entries_of([*incomplete, *sorted(by_event)[:_FOUND_MAX]])
        messages = {message.place: message.entry for message in _messages(found).values()}
        return sorted(messages.values(), key=lambda entry: entry.arrived_at)

    async def _find_old(self, any_id: str) -> list[Snapshot]:
        by_message: list[Snapshot] = []
        # No message has a longer id, and Firestore refuses to search for it.
        if len(any_id.encode()) <= MESSAGE_ID_BYTES_MAX:
            by_message = await self._queries.where(EVENT_LOG, ("messageId", "EQUAL", any_id))
        event_id = old_entries.event_id_key(any_id)
        by_event = await self._queries.where(EVENT_LOG, ("eventId", "EQUAL", event_id))
        return list({snapshot.ref: snapshot for snapshot in [*by_message, *by_event]}.values())

    async def _entries_of(self, message_ids: Sequence[str]) -> list[PlacedEntry]:
        """Every entry of these messages."""
        found: list[PlacedEntry] = []
        for at in range(0, len(message_ids), _IDS_AT_ONCE):
            some = list(message_ids[at : at + _IDS_AT_ONCE])
            hashes = sorted({hash_id(message_id) for message_id in some})
            segments = await self._queries.where(EVENT_SEGMENTS, ("ids", "ARRAY_CONTAINS_ANY", hashes))
            old = await self._queries.where(EVENT_LOG, ("messageId", "IN", some))
            placed = await _placed_in_thread([*segments, *old])
            found += [p for p in placed if p.entry.delivery.message_id in some]
        return found

    async def _look_up(self, entries: Iterable[PlacedEntry]) -> Messages:
        """The messages of these entries, each with all of its entries."""
        ids = sorted({placed.entry.delivery.message_id for placed in entries})
        return _messages(await self._entries_of(ids)) if ids else {}

    # --- in order -------------------------------------------------------------------------------------------------

    async def read(self, after: str | None, limit: int) -> LogPage:
        """In order of time. What follows the last page begins earlier: other instances may commit late."""
        begin = None if after is None else Position.decode(after)
        paused, self._paused = self._paused, None
        reader = (
            paused[1]
            if paused is not None and paused[0] == after
            else LogReader(self._queries, begin, await self._now_us())
        )
        taken, more = await reader.take(limit)
        last = reader.position or begin
        position = None if last is None else (last if more else last.end(self._late_us)).encode()
        if position is not None and more:
            self._paused = (position, reader)
        # An entry of a replay has only the views that were asked again, and an open one may be settled by now.
        messages = await self._look_up(p for p in taken if p.entry.result.outcome in OPEN or p.entry.replay)
        entries = [messages[p.place].entry if p.place in messages else p.entry for p in taken]
        return LogPage(entries, position, more)

    async def list_entries(self, wanted: LogFilter, limit: int, before: str | None) -> LogPage:
        """The newest first. A message stands where it first arrived, or where every view took it.

        Topic and outcome are compared here.
        """
        since, until = wanted.times
        place = None if before is None else Position.decode(before)
        # Arrivals are by the clock of their instance, and documents by Firestore's. A commit may be late, too.
        begin = None if since is None else since - self._late_us
        end = await self._now_us() + CLOCK_ERROR_US if until is None else until + self._late_us
        end = end if place is None else min(end, place.at + 1)
        listed: list[PlacedEntry] = []
        looked = 0
        async for document in read_backwards(self._queries, begin, end):
            if place is not None and document[:2] > (place.at, place.name or ""):
                continue
            given = place.given if place is not None and document.name == place.name else 0
            looked += _DOCUMENT_LOOKS
            async for entry in self._messages_of(document, given):
                given += 1
                if entry is not None and wanted.matches(entry.entry):
                    listed.append(entry)
                looked += entry is None or not _says_all(entry.entry)
                if len(listed) == limit or looked >= _LOOKS_MAX:
                    position = Position(document.at, given, document.name).encode()
                    return LogPage(await self._once_each(listed), position, more=True)
        return LogPage(await self._once_each(listed), None, more=False)

    async def _once_each(self, listed: Sequence[PlacedEntry]) -> list[LogEntry]:
        """The entries without their data, and without those of messages that every view took again later.

        A view takes a message again if its document was deleted, and no receipt tells.
        """
        messages = await self._look_up(placed for placed in listed if _says_all(placed.entry))
        return [without_data(e) for place, e in listed if place not in messages or messages[place].place == place]

    async def _messages_of(self, document: LogDocument, given: int) -> AsyncIterator[PlacedEntry | None]:
        """The messages of a document, the last first; None for one that another entry stands for."""
        # Decompressing a large document takes long.
        placed = (await in_thread(document.decode))[::-1]
        for at in range(given, len(placed), _IDS_AT_ONCE):
            some = placed[at : at + _IDS_AT_ONCE]
            messages = await self._look_up(one for one in some if not _says_all(one.entry))
            for place, entry in some:
                message = messages.get(place) or LoggedMessage(entry, place)
                yield PlacedEntry(place, message.entry) if message.place == place else None


def all_entries(snapshots: Iterable[Snapshot]) -> list[LogEntry]:
    """Each message of these documents of the log once."""
    return [message.entry for place, message in _messages(_placed(snapshots)).items() if place == message.place]


def _placed(snapshots: Iterable[Snapshot]) -> list[PlacedEntry]:
    return [placed for snapshot in snapshots for placed in LogDocument.of(snapshot).decode()]


async def _placed_in_thread(snapshots: Sequence[Snapshot]) -> list[PlacedEntry]:
    """Decompressing large segments takes long."""
    return await in_thread(lambda: _placed(snapshots))


def _messages(placed: Iterable[PlacedEntry]) -> Messages:
    in_order = sorted(placed, key=_log_order)
    # By identity: entries may be equal. `in_order` keeps them alive.
    places = {id(one.entry): one.place for one in in_order}
    found: Messages = {}
    for merged in merge_entries(one.entry for one in in_order):
        mine = [places[id(source)] for source in merged.sources]
        # An entry that says all is not looked up, so it must stand for the message.
        whole = [places[id(source)] for source in merged.sources if _says_all(source)]
        found.update(dict.fromkeys(mine, LoggedMessage(merged.entry, min(whole or mine))))
    return found


def _log_order(placed: PlacedEntry) -> tuple[object, ...]:
    """By time. Of one time, a replay comes after the burial, and an open entry after one that is settled."""
    entry = placed.entry
    return placed.place[0], entry.arrived_at, entry.replay, entry.result.outcome in OPEN, placed.place


def _is_unicode(text: str) -> bool:
    """False for lone surrogates, such as bytes of a shell that are no UTF-8: no id has them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _says_all(entry: LogEntry) -> bool:
    """Whether no other entry of the message can say more: every view took the event for the first time."""
    views = entry.result.views
    return not entry.replay and bool(views) and all(view.outcome is Outcome.APPLIED for view in views)
