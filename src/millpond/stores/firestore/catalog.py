"""The `Catalog` port on Firestore: listings and counts for people, and the event log. It decides no outcome."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from millpond.core import timestamps
from millpond.core.collections import EVENT_LOG, EVENT_SEGMENTS
from millpond.core.log_filter import LogFilter
from millpond.core.model import Committed, Conflict, Delete, LogEntry, LogPage, Ref, Snapshot, Write
from millpond.stores.firestore.connection import Connection
from millpond.stores.firestore.event_log import EventLog
from millpond.stores.firestore.log_counts import LogCounts
from millpond.stores.firestore.names import Names
from millpond.stores.firestore.queries import Queries
from millpond.stores.firestore.segments import SHARDS, first_id
from millpond.stores.operations import Measured

_SWEPT_AT_ONCE = 300
# Subcollections are searched under this many documents of each collection, and in total.
_LOOKED_UNDER = 20
_LOOKED_UNDER_IN_ALL = 200
# A count is billed as one read for a thousand documents.
_MEASURED_MAX = 10_000_000
_SAMPLED = 20


class FirestoreCatalog(ABC):
    """The `Catalog` port; `FirestoreStore` adds the `Store` port."""

    def __init__(self, names: Names, connection: Connection, *, late_us: int) -> None:
        self.names = names
        self.connection = connection
        self._queries = Queries(names, connection)
        self._event_log = EventLog(self._queries, connection.clock, late_us)
        self._counts = LogCounts(self._queries)

    @abstractmethod
    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        """As the store port says; `sweep` uses it."""

    async def collections(self) -> list[tuple[str, int]]:
        """Top-level collections, and those below the first documents of each, with their counts.

        Firestore lists the subcollections of one document per call, so the search is bounded.
        """
        found = await self._collection_paths(None)
        looked = 0
        for collection in found:
            ids = await self._queries.document_ids(collection, _LOOKED_UNDER)
            parents = ids[: _LOOKED_UNDER_IN_ALL - looked]
            looked += len(parents)
            below = await asyncio.gather(*(self._collection_paths(Ref(collection, parent)) for parent in parents))
            # Appended to the list that this loop iterates over: they are searched too.
            found += [name for names in below for name in names]
            if looked >= _LOOKED_UNDER_IN_ALL:
                break
        counts = [await self._queries.count(collection) for collection in found]
        return sorted((name, count) for name, count in zip(found, counts, strict=True) if count)

    async def count_documents(self, collection: str) -> int:
        return await self._queries.count(collection)

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        return await self._queries.by_id(collection, limit, after=after)

    async def measure(self, collection: str) -> Measured:
        """Count the documents, up to a limit, and read a few, to estimate what storing them costs."""
        n = await self._queries.count(collection, up_to=_MEASURED_MAX)
        return Measured(n, n >= _MEASURED_MAX, await self._queries.by_id(collection, _SAMPLED))

    async def find_events(self, any_id: str) -> list[LogEntry]:
        return await self._event_log.find(any_id)

    async def list_events(self, wanted: LogFilter, limit: int, before: str | None) -> LogPage:
        return await self._event_log.list_entries(wanted, limit, before)

    async def count_events(self) -> dict[str, dict[str, int]]:
        """Exact while the log is short, then sums (`log_counts`)."""
        return await self._counts.count()

    async def read_log(self, after: str | None, limit: int) -> LogPage:
        return await self._event_log.read(after, limit)

    async def sweep(self, now: int, events_before: int | None) -> int:
        """Delete expired documents. For emulators only: Firestore itself has TTL policies."""
        expired = ("expireAt", "LESS_THAN_OR_EQUAL", timestamps.to_datetime(now))
        swept = 0
        for collection, _ in await self.collections():
            swept += await self._delete(await self._queries.where(collection, expired, limit=_SWEPT_AT_ONCE))
        if events_before is not None:
            swept += await self._sweep_log(events_before)
        return swept

    async def _sweep_log(self, before: int) -> int:
        """Segments whose last message arrived before; counted by their entries."""
        swept = 0
        for shard in SHARDS:
            ids = (first_id(shard, 0), first_id(shard, before))
            old = await self._queries.by_id(EVENT_SEGMENTS, _SWEPT_AT_ONCE, ids=ids)
            if await self._delete(old):
                swept += sum((segment.data or {})["n"] for segment in old)
        is_old = ("arrivedAt", "LESS_THAN", timestamps.to_datetime(before))
        return swept + await self._delete(await self._queries.where(EVENT_LOG, is_old, limit=_SWEPT_AT_ONCE))

    async def _delete(self, snapshots: Sequence[Snapshot]) -> int:
        deletes = [Delete(found.ref, found.version) for found in snapshots if found.version is not None]
        # After a conflict with another writer, the rest is swept the next time.
        return len(deletes) if isinstance(await self.commit(deletes), Committed) else 0

    async def _collection_paths(self, document: Ref | None) -> list[str]:
        """The paths of the collections below a document; of the top-level ones if it is None."""
        ids = await self._queries.collection_ids(document)
        if document is not None:
            return [f"{document.path}/{collection_id}" for collection_id in ids]
        return [name for name in map(self.names.collection, ids) if name is not None]
