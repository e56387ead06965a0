"""Queries of Firestore: documents by filter, order and range of ids, counts, sums, and names of collections.

Only what automatic indexes allow. Ids are always in ascending order: Firestore has no descending index of them.
For `catalog` and `event_log`; the outcome of an event never depends on a query.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from google.cloud.firestore_v1.types import (
    RunAggregationQueryRequest,
    RunAggregationQueryResponse,
    RunQueryRequest,
    RunQueryResponse,
)

from millpond.core.model import Ref, Snapshot
from millpond.stores.firestore.connection import Connection
from millpond.stores.firestore.errors import CLIENT_ERRORS, translate
from millpond.stores.firestore.names import Names
from millpond.stores.firestore.values import NO_FIELDS, decode_fields, encode_value, field_path, get_time

# Deadline of queries; people can wait longer than a commit.
_QUERY_S = 30.0
_QUERY = RunQueryRequest.pb()
_AGGREGATION = RunAggregationQueryRequest.pb()
_COUNT = "n"
_SUM = "total"
# Sorts after every character that an id may have.
_LAST = "\U0010ffff"
Filter = tuple[str, str, Any]


class Start(NamedTuple):
    """Where an ordered query begins: at a value, or after the document with that value and this id."""

    value: Any
    after_id: str | None = None


class Queries:
    def __init__(self, names: Names, connection: Connection) -> None:
        self._names = names
        self._connection = connection

    async def by_id(
        self,
        collection: str,
        limit: int | None = None,
        *,
        after: str | None = None,
        ids: tuple[str, str] = ("", ""),
    ) -> list[Snapshot]:
        """Documents in the order of their ids, beginning after `after`, or at the first of `ids`.

        The second of `ids` ends them, and is not among them; empty is no bound.
        """
        parent, query = self._structured(collection, ())
        query.order_by.add().field.field_path = "__name__"
        first, end = ids
        if after is not None or first:
            begin = first if after is None else after
            query.start_at.values.add(reference_value=self._names.document(Ref(collection, begin)))
            query.start_at.before = after is None
        if end:
            query.end_at.values.add(reference_value=self._names.document(Ref(collection, end)))
            query.end_at.before = True
        return await self._run(parent, query, limit)

    async def where(
        self,
        collection: str,
        *filters: Filter,
        order_by: str | None = None,
        start: Start | None = None,
        limit: int | None = None,
    ) -> list[Snapshot]:
        parent, query = self._structured(collection, filters)
        if order_by is not None:
            query.order_by.add().field.field_path = order_by
        if start is not None:
            encode_value(query.start_at.values.add(), start.value)
            query.start_at.before = start.after_id is None
            if start.after_id is not None:
                query.order_by.add().field.field_path = "__name__"
                query.start_at.values.add(reference_value=self._names.document(Ref(collection, start.after_id)))
        return await self._run(parent, query, limit)

    async def count(self, collection: str, *filters: Filter, up_to: int | None = None) -> int:
        """The number of documents; not more than `up_to`, which bounds the cost."""
        request, aggregations = self._aggregation(collection, filters)
        count = aggregations.add(alias=_COUNT).count
        count.SetInParent()
        if up_to is not None:
            count.up_to.value = up_to
        return await self._aggregate(request, _COUNT)

    async def sums(self, collection: str, paths: Sequence[tuple[str, ...]]) -> list[int]:
        """The sum of each of these fields over all documents that have it. The fields must be indexed."""
        # A query for each: the sums of one query are over the documents that have all of its fields.
        requests = []
        for path in paths:
            request, aggregations = self._aggregation(collection, ())
            aggregations.add(alias=_SUM).sum.field.field_path = field_path(path)
            # Only the number of documents tells what the sum costs: `operations` counts by it.
            aggregations.add(alias=_COUNT).count.SetInParent()
            requests.append(request)
        return list(await asyncio.gather(*(self._aggregate(request, _SUM) for request in requests)))

    async def collection_ids(self, document: Ref | None) -> list[str]:
        """The ids of the collections below a document; of the top-level ones if it is None."""
        parent = self._names.root if document is None else self._names.document(document)
        try:
            pager = await self._connection.client().list_collection_ids(
                parent=parent, retry=None, timeout=_QUERY_S, metadata=self._connection.metadata
            )
            return [collection_id async for collection_id in pager]
        except CLIENT_ERRORS as error:
            raise translate(error, "listing collections") from error

    async def document_ids(self, collection: str, limit: int) -> list[str]:
        """Ids of the first documents, including those that exist only as parents."""
        parent, collection_id = self._names.parent(collection)
        request = {
            "parent": parent,
            "collection_id": collection_id,
            "page_size": limit,
            "show_missing": True,
            "mask": {"field_paths": list(NO_FIELDS)},
        }
        try:
            pager = await self._connection.client().list_documents(
                request=request, retry=None, timeout=_QUERY_S, metadata=self._connection.metadata
            )
            page = await anext(pager.pages)
        except CLIENT_ERRORS as error:
            raise translate(error, "listing documents") from error
        return [document.name.rpartition("/")[2] for document in page.documents]

    async def _run(self, parent: str, query: Any, limit: int | None) -> list[Snapshot]:
        if limit is not None:
            query.limit.value = limit
        request = _QUERY(parent=parent)
        request.structured_query.CopyFrom(query)
        found: list[Snapshot] = []
        sent_ns = time.time_ns()
        try:
            answers = await self._connection.client().run_query(
                request=RunQueryRequest.wrap(request),
                retry=None,
                timeout=_QUERY_S,
                metadata=self._connection.metadata,
            )
            async for answer in answers:
                raw = RunQueryResponse.pb(answer)
                if not found:
                    self._connection.clock.learn(raw.read_time, sent_ns)
                if raw.HasField("document"):
                    document = raw.document
                    ref = self._names.ref(document.name)
                    found.append(Snapshot(ref, get_time(document.update_time), decode_fields(document.fields)))
        except CLIENT_ERRORS as error:
            raise translate(error, "listing") from error
        return found

    def _aggregation(self, collection: str, filters: Sequence[Filter]) -> tuple[Any, Any]:
        parent, query = self._structured(collection, filters)
        request = _AGGREGATION(parent=parent)
        request.structured_aggregation_query.structured_query.CopyFrom(query)
        return request, request.structured_aggregation_query.aggregations

    async def _aggregate(self, request: Any, alias: str) -> int:
        """The value of one of its aggregations."""
        try:
            answers = await self._connection.client().run_aggregation_query(
                request=RunAggregationQueryRequest.wrap(request),
                retry=None,
                timeout=_QUERY_S,
                metadata=self._connection.metadata,
            )
            async for answer in answers:
                fields = RunAggregationQueryResponse.pb(answer).result.aggregate_fields
                return int(fields[alias].integer_value)
        except CLIENT_ERRORS as error:
            raise translate(error, "counting") from error
        return 0

    def _structured(self, collection: str, filters: Sequence[Filter]) -> tuple[str, Any]:
        """A query of a collection. `*` in its path stands for the id of any document."""
        query = _QUERY().structured_query
        root, *below = collection.split("/")
        if "*" in below:
            parent = self._names.root
            query.from_.add(collection_id=below[-1], all_descendants=True)
            self._add_bounds(query, root, below[-1])
        else:
            parent, collection_id = self._names.parent(collection)
            query.from_.add(collection_id=collection_id)
        if filters:
            query.where.composite_filter.op = 1
        for name, operation, value in filters:
            one = query.where.composite_filter.filters.add().field_filter
            one.field.field_path = name
            one.op = one.Operator.Value(operation)
            encode_value(one.value, value)
        return parent, query

    def _add_bounds(self, query: Any, root: str, last: str) -> None:
        """Firestore looks through all collections of that name: leave those below this root."""
        query.where.composite_filter.op = 1
        for operation, key in (("GREATER_THAN", "!"), ("LESS_THAN", _LAST)):
            one = query.where.composite_filter.filters.add().field_filter
            one.field.field_path = "__name__"
            one.op = one.Operator.Value(operation)
            one.value.reference_value = self._names.document(Ref(f"{root}/{key}/{last}", key))
