"""The store port on a dict: the shortest implementation of the contract. For STORE=memory, tests and simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count, islice, takewhile
from typing import Self

from millpond.core.document import check_ref, decode_document, encode_document, is_expired, patched
from millpond.core.log_filter import LogFilter
from millpond.core.model import Committed, Conflict, LogEntry, LogPage, Patch, Put, Ref, Snapshot, Write
from millpond.stores.log_entry import OPEN, completed, is_same_message, without_data


class MemoryStore:
    commits_in_flight_max = 8
    expires_by_itself = False

    def __init__(self, *, keeps_log: bool = True) -> None:
        self.keeps_log = keeps_log
        self._documents: dict[Ref, tuple[int, bytes]] = {}
        # By message and topic, each with its number; numbers only grow.
        self._log: dict[tuple[str, str], tuple[int, LogEntry]] = {}
        self._numbers = count(1)
        self._version = 0

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        return [self._snapshot(ref) for ref in refs]

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        for write in writes:
            check_ref(write.ref)
        # Impossible writes are refused before conflicts are found, as in every store.
        bodies = [self._body(write) for write in writes]
        wrong = frozenset(write.ref for write in writes if self._snapshot(write.ref).version != write.base)
        if wrong:
            return Conflict(wrong)
        self._version += 1
        for write, body in zip(writes, bodies, strict=True):
            if body is None:
                del self._documents[write.ref]
            else:
                self._documents[write.ref] = (self._version, body)
        for entry in log:
            self._append(entry)
        return Committed([None if body is None else self._version for body in bodies])

    async def collections(self) -> list[tuple[str, int]]:
        return sorted(Counter(ref.collection for ref in self._documents).items())

    async def count_documents(self, collection: str) -> int:
        return sum(ref.collection == collection for ref in self._documents)

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        refs = sorted(ref for ref in self._documents if ref.collection == collection and ref.id > (after or ""))
        return [self._snapshot(ref) for ref in refs[:limit]]

    async def find_events(self, any_id: str) -> list[LogEntry]:
        found = [e for _, e in self._log.values() if any_id in {e.delivery.message_id, e.event_id}]
        return sorted(found, key=lambda entry: entry.arrived_at)

    async def list_events(self, wanted: LogFilter, limit: int, before: str | None) -> LogPage:
        newest_first = (one for one in reversed(self._log.values()) if before is None or one[0] < int(before))
        found = list(islice((one for one in newest_first if wanted.matches(one[1])), limit + 1))
        page, more = found[:limit], len(found) > limit
        return LogPage([without_data(entry) for _, entry in page], str(page[-1][0]) if more else None, more)

    async def count_events(self) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for (topic, outcome), n in Counter((e.topic, str(e.result.outcome)) for _, e in self._log.values()).items():
            counts.setdefault(topic, {})[outcome] = n
        return counts

    async def read_log(self, after: str | None, limit: int) -> LogPage:
        # From the end, because a reader that continues is usually close to it.
        rest = list(takewhile(lambda numbered: numbered[0] > int(after or 0), reversed(self._log.values())))[::-1]
        page = rest[:limit]
        return LogPage([entry for _, entry in page], str(page[-1][0]) if page else after, len(rest) > limit)

    async def sweep(self, now: int, events_before: int | None) -> int:
        dead = [ref for ref in self._documents if is_expired(self._snapshot(ref).data, now)]
        for ref in dead:
            del self._documents[ref]
        old = [
            key for key, (_, e) in self._log.items() if events_before is not None and e.arrived_at < events_before
        ]
        for key in old:
            del self._log[key]
        return len(dead) + len(old)

    async def snapshot(self) -> Self:
        copy = type(self)(keeps_log=self.keeps_log)
        copy._documents, copy._log = dict(self._documents), dict(self._log)  # noqa: SLF001 - of our own kind
        return copy

    async def try_write(self) -> bool:
        return True

    async def close(self) -> None:
        pass

    def _snapshot(self, ref: Ref) -> Snapshot:
        version, body = self._documents.get(ref, (None, None))
        return Snapshot(ref, version, None if body is None else decode_document(body))

    def _body(self, write: Write) -> bytes | None:
        if isinstance(write, Put):
            return encode_document(write.ref, write.data, checked=write.checked)
        if isinstance(write, Patch):
            return encode_document(write.ref, patched(self._snapshot(write.ref).data or {}, write.fields))
        return None

    def _append(self, entry: LogEntry) -> None:
        message_id = entry.delivery.message_id
        key = (message_id, entry.topic)
        if entry.replay and key not in self._log:
            open_ones = (
                k for k, (_, e) in self._log.items() if e.result.outcome in OPEN and is_same_message(e, entry)
            )
            key = next(open_ones, key)
        _, earlier = self._log.get(key, (0, None))
        newer = entry if earlier is None else completed(earlier, entry)
        if newer is not None:
            # At the end, so that a reader which continues from its position sees it again.
            self._log.pop(key, None)
            self._log[message_id, newer.topic] = (next(self._numbers), newer)
