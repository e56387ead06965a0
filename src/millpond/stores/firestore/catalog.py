"""The `Catalog` port on Firestore: queries and counts for people. It never decides the outcome of an event."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from google.cloud.firestore_v1.types import (
    RunAggregationQueryRequest,
    RunAggregationQueryResponse,
    RunQueryRequest,
    RunQueryResponse,
)

from millpond.concurrency import in_thread
from millpond.core import timestamps
from millpond.core.collections import EVENT_LOG
from millpond.core.decode import MESSAGE_ID_BYTES_MAX
from millpond.core.log_filter import LogFilter
from millpond.core.model import Committed, Conflict, Delete, LogEntry, LogPage, Outcome, Ref, Snapshot, Write
from millpond.stores.firestore import log as firestore_log
from millpond.stores.firestore.connection import Connection
from millpond.stores.firestore.errors import CLIENT_ERRORS, translate
from millpond.stores.firestore.names import Names
from millpond.stores.firestore.values import NO_FIELDS, decode_fields, encode_value, get_time
from millpond.stores.log_entry import without_data

# Deadline of queries; people can wait longer than a commit.
_QUERY_S = 30.0
_SWEPT_AT_ONCE = 300
# Log entries that one query lists: each may have almost a megabyte.
_LISTED_AT_ONCE = 50
# Subcollections are searched under this many documents of each collection, and in total.
_LOOKED_UNDER = 20
_LOOKED_UNDER_IN_ALL = 200
_QUERY = RunQueryRequest.pb()
_COUNT = RunAggregationQueryRequest.pb()
Filter = tuple[str, str, Any]
# The start of an ordered query: at a value, or after the document with that value and this id.
Cursor = tuple[Any, str | None]


class FirestoreCatalog(ABC):
    """The `Catalog` port; `FirestoreStore` adds the `Store` port."""

    names: Names
    connection: Connection

    @abstractmethod
    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        """As the store port says; `sweep` uses it."""

    async def collections(self) -> list[tuple[str, int]]:
        """Top-level collections, and those below the first documents of each, with their counts.

        Firestore lists the subcollections of one document per call, so the search is bounded.
        """
        found = await self._collection_ids(None)
        looked = 0
        for collection in found:
            parents = (await self._list_ids(collection))[: _LOOKED_UNDER_IN_ALL - looked]
            looked += len(parents)
            below = await asyncio.gather(*(self._collection_ids(Ref(collection, parent)) for parent in parents))
            # Appended to the list that this loop iterates over: they are searched too.
            found += [name for names in below for name in names]
            if looked >= _LOOKED_UNDER_IN_ALL:
                break
        counts = [await self._count(collection) for collection in found]
        return sorted((name, count) for name, count in zip(found, counts, strict=True) if count)

    async def count_documents(self, collection: str) -> int:
        return await self._count(collection)

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        return await self._query(collection, limit=limit, after=after)

    async def find_events(self, any_id: str) -> list[LogEntry]:
        by_message: list[Snapshot] = []
        # No message has a longer id, and Firestore refuses to search for it.
        if len(any_id.encode(errors="replace")) <= MESSAGE_ID_BYTES_MAX:
            by_message = await self._query(EVENT_LOG, ("messageId", "EQUAL", any_id))
        by_event = await self._query(EVENT_LOG, ("eventId", "EQUAL", firestore_log.event_id_key(any_id)))
        found = {snapshot.ref: firestore_log.decode_snapshot(snapshot) for snapshot in [*by_message, *by_event]}
        return sorted(found.values(), key=lambda e: (e.arrived_at, e.delivery.publish_time, e.delivery.message_id))

    async def list_events(self, wanted: LogFilter, limit: int, before: str | None) -> LogPage:
        """In order of arrival. Topic and outcome are compared here: Firestore would need an index for each pair."""
        bounds = [
            ("arrivedAt", "GREATER_THAN_OR_EQUAL", wanted.times.since),
            ("arrivedAt", "LESS_THAN", wanted.times.until),
        ]
        filters = [(name, how, timestamps.to_datetime(us)) for name, how, us in bounds if us is not None]
        cursor = firestore_log.decode_position(before)
        size = min(limit, _LISTED_AT_ONCE)
        found = await self._query(
            EVENT_LOG, *filters, order_by="arrivedAt", direction="DESCENDING", limit=size + 1, cursor=cursor
        )
        page, more = found[:size], len(found) > size
        # Decompressing a page of large entries takes seconds.
        entries = await in_thread(lambda: [without_data(firestore_log.decode_snapshot(one)) for one in page])
        position = firestore_log.encode_position(page[-1], exact=True) if more else None
        return LogPage([entry for entry in entries if wanted.matches(entry)], position, more)

    async def count_events(self) -> dict[str, dict[str, int]]:
        """Firestore counts, topic by topic: only one document per topic is read."""
        counts: dict[str, dict[str, int]] = {}
        topic = await self._next_topic(None)
        while topic is not None:
            is_topic = ("topic", "EQUAL", topic)
            numbers = await asyncio.gather(
                *(self._count(EVENT_LOG, is_topic, ("outcome", "EQUAL", str(o))) for o in Outcome)
            )
            counts[topic] = {str(o): n for o, n in zip(Outcome, numbers, strict=True) if n}
            topic = await self._next_topic(topic)
        return counts

    async def read_log(self, after: str | None, limit: int) -> LogPage:
        """In order of arrival. The next call reads the end again: clocks differ, and commits take time."""
        cursor = firestore_log.decode_position(after)
        found = await self._query(EVENT_LOG, order_by="arrivedAt", limit=limit + 1, cursor=cursor)
        page, more = found[:limit], len(found) > limit
        position = firestore_log.encode_position(page[-1], exact=more) if page else after
        return LogPage([firestore_log.decode_snapshot(snapshot) for snapshot in page], position, more)

    async def sweep(self, now: int, events_before: int | None) -> int:
        """Delete expired documents. For emulators only: Firestore itself has TTL policies."""
        expired = ("expireAt", "LESS_THAN_OR_EQUAL", timestamps.to_datetime(now))
        swept = 0
        for collection, _ in await self.collections():
            swept += await self._delete(await self._query(collection, expired, limit=_SWEPT_AT_ONCE))
        if events_before is not None:
            old = ("arrivedAt", "LESS_THAN", timestamps.to_datetime(events_before))
            swept += await self._delete(await self._query(EVENT_LOG, old, limit=_SWEPT_AT_ONCE))
        return swept

    async def earlier_entries(self, log: Sequence[LogEntry]) -> list[Snapshot]:
        """The log's entries of the messages that are being replayed."""
        found: list[Snapshot] = []
        for message_id in {entry.delivery.message_id for entry in log if entry.replay}:
            found += await self._query(EVENT_LOG, ("messageId", "EQUAL", message_id))
        return found

    async def _delete(self, snapshots: Sequence[Snapshot]) -> int:
        deletes = [Delete(found.ref, found.version) for found in snapshots if found.version is not None]
        # After a conflict with another writer, the rest is swept the next time.
        return len(deletes) if isinstance(await self.commit(deletes), Committed) else 0

    async def _next_topic(self, after: str | None) -> str | None:
        filters = () if after is None else (("topic", "GREATER_THAN", after),)
        page = await self._query(EVENT_LOG, *filters, order_by="topic", limit=1)
        return (page[0].data or {})["topic"] if page else None

    async def _collection_ids(self, document: Ref | None) -> list[str]:
        """The paths of the collections below a document; of the top-level ones if it is None."""
        parent = self.names.root if document is None else self.names.document(document)
        try:
            pager = await self.connection.client().list_collection_ids(
                parent=parent, retry=None, timeout=_QUERY_S, metadata=self.connection.metadata
            )
            ids = [collection_id async for collection_id in pager]
        except CLIENT_ERRORS as error:
            raise translate(error, "listing collections") from error
        if document is not None:
            return [f"{document.path}/{collection_id}" for collection_id in ids]
        return [name for name in map(self.names.collection, ids) if name is not None]

    async def _list_ids(self, collection: str) -> list[str]:
        """Ids of documents, including those that exist only as parents."""
        parent, collection_id = self.names.parent(collection)
        request = {
            "parent": parent,
            "collection_id": collection_id,
            "page_size": _LOOKED_UNDER,
            "show_missing": True,
            "mask": {"field_paths": list(NO_FIELDS)},
        }
        try:
            pager = await self.connection.client().list_documents(
                request=request, retry=None, timeout=_QUERY_S, metadata=self.connection.metadata
            )
            page = await anext(pager.pages)
        except CLIENT_ERRORS as error:
            raise translate(error, "listing documents") from error
        return [document.name.rpartition("/")[2] for document in page.documents]

    async def _count(self, collection: str, *filters: Filter) -> int:
        parent, query = self._structured(collection, filters)
        request = _COUNT(parent=parent)
        request.structured_aggregation_query.structured_query.CopyFrom(query)
        request.structured_aggregation_query.aggregations.add(alias="n").count.SetInParent()
        try:
            answers = await self.connection.client().run_aggregation_query(
                request=RunAggregationQueryRequest.wrap(request),
                retry=None,
                timeout=_QUERY_S,
                metadata=self.connection.metadata,
            )
            async for answer in answers:
                fields = RunAggregationQueryResponse.pb(answer).result.aggregate_fields
                return int(fields["n"].integer_value)
        except CLIENT_ERRORS as error:
            raise translate(error, "counting") from error
        return 0

    async def _query(
        self,
        collection: str,
        *filters: Filter,
        order_by: str | None = None,
        direction: str = "ASCENDING",
        limit: int | None = None,
        after: str | None = None,
        cursor: Cursor | None = None,
    ) -> list[Snapshot]:
        parent, query = self._structured(collection, filters)
        if order_by is not None or not filters:
            query.order_by.add(direction=direction).field.field_path = order_by or "__name__"
        if limit is not None:
            query.limit.value = limit
        if after is not None:
            query.start_at.values.add(reference_value=self.names.document(Ref(collection, after)))
        if cursor is not None:
            value, after_id = cursor
            encode_value(query.start_at.values.add(), value)
            if after_id is None:
                query.start_at.before = True
            else:
                query.order_by.add(direction=direction).field.field_path = "__name__"
                query.start_at.values.add(reference_value=self.names.document(Ref(collection, after_id)))
        request = _QUERY(parent=parent)
        request.structured_query.CopyFrom(query)
        found = []
        try:
            answers = await self.connection.client().run_query(
                request=RunQueryRequest.wrap(request),
                retry=None,
                timeout=_QUERY_S,
                metadata=self.connection.metadata,
            )
            async for answer in answers:
                raw = RunQueryResponse.pb(answer)
                if raw.HasField("document"):
                    document = raw.document
                    ref = self.names.ref(document.name)
                    found.append(Snapshot(ref, get_time(document.update_time), decode_fields(document.fields)))
        except CLIENT_ERRORS as error:
            raise translate(error, "listing") from error
        return found

    def _structured(self, collection: str, filters: Sequence[Filter]) -> tuple[str, Any]:
        parent, collection_id = self.names.parent(collection)
        query = _QUERY().structured_query
        query.from_.add(collection_id=collection_id)
        if filters:
            query.where.composite_filter.op = 1
        for name, operation, value in filters:
            one = query.where.composite_filter.filters.add().field_filter
            one.field.field_path = name
            one.op = one.Operator.Value(operation)
            encode_value(one.value, value)
        return parent, query
