"""What Firestore bills for each kind of call, by collection. `counted_channel` shows it every call and answer.

The rules are those of Firestore's pricing page: each document that is returned or found missing is a read; a query
without results is one; a count is one for each thousand index entries; so is each page of a list of collections;
each write of a commit that was applied is a write or a delete. Never calls Firestore.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

from google.cloud.firestore_v1.types import (
    ListDocumentsRequest,
    ListDocumentsResponse,
    RunAggregationQueryRequest,
    RunAggregationQueryResponse,
    RunQueryRequest,
    RunQueryResponse,
)

from millpond.core.collections import PROBE
from millpond.core.model import Ref
from millpond.stores.firestore.names import Names
from millpond.stores.operations import OTHER, Operations, Spent

_INDEX_ENTRIES_PER_READ = 1_000
_COLLECTIONS_CACHED = 4_096
# To weigh a document is to encode it once more. Of a collection so many are weighed, then one of so many: the
# counters begin anew every two seconds.
_WEIGHED = 16


class Bill:
    """The counters, and the collection that each resource name belongs to."""

    def __init__(self, operations: Operations, names: Names) -> None:
        self._operations = operations
        self._start = names.document(Ref("", "")).removesuffix("/")
        self._probe = names.document(PROBE)
        self._collection = functools.lru_cache(_COLLECTIONS_CACHED)(self._find_collection)

    def document(self, name: str) -> Spent:
        """The counters for a document, by its resource name."""
        # A probe is not the work of the view whose collection it looks into.
        return self._operations.of(OTHER if name == self._probe else self._collection(name.rpartition("/")[0]))

    def collection(self, parent: str, collection_id: str) -> Spent:
        return self._operations.of(self._collection(f"{parent}/{collection_id}"))

    def other(self) -> Spent:
        return self._operations.of(OTHER)

    def _find_collection(self, path: str) -> str:
        if not path.startswith(self._start):
            # A query over all collections of one name, below whatever documents, has no prefix.
            return OTHER
        return "/*/".join(path.removeprefix(self._start).split("/")[::2])


class Counting(Protocol):
    """One call."""

    @property
    def is_complete(self) -> bool:
        """Whether all that was asked for has come."""

    def take(self, answer: Any) -> None:
        """Count an answer."""

    def lose(self) -> None:
        """It ended before it was complete, and may have been billed all the same."""


class _Commit:
    """All of its writes were applied, or none."""

    def __init__(self, bill: Bill, request: Any) -> None:
        self._bill = bill
        self._writes = request.writes
        self.is_complete = False

    def take(self, _: Any) -> None:
        self.is_complete = True
        for write in self._writes:
            if write.delete:
                self._bill.document(write.delete).deletes += 1
                continue
            document = write.update
            spent = self._bill.document(document.name)
            spent.writes += 1
            if spent.writes <= _WEIGHED:
                spent.bytes += document.ByteSize()
            elif spent.writes % _WEIGHED == 0:
                spent.bytes += document.ByteSize() * _WEIGHED
            # Only a commit that creates a document has this precondition.
            if "expireAt" in document.fields and write.current_document.HasField("exists"):
                spent.expiring += 1

    def lose(self) -> None:
        for write in self._writes:
            self._bill.document(write.delete or write.update.name).unanswered_writes += 1


class _BatchGet:
    def __init__(self, bill: Bill, request: Any) -> None:
        self._bill = bill
        self._names = request.documents
        self._n = 0

    @property
    def is_complete(self) -> bool:
        return self._n == len(self._names)

    def take(self, answer: Any) -> None:
        # An answer may also carry nothing but the id of a new transaction.
        if name := answer.missing or answer.found.name:
            self._n += 1
            self._bill.document(name).reads += 1

    def lose(self) -> None:
        self._bill.document(self._names[0]).unanswered_reads += len(self._names) - self._n


class _OfCollection:
    """A call that reads from one collection."""

    def __init__(self, bill: Bill, parent: str, collection_id: str) -> None:
        self._bill = bill
        self._parent = parent
        self._collection_id = collection_id
        self.is_complete = False

    @property
    def _spent(self) -> Spent:
        return self._bill.collection(self._parent, self._collection_id)

    def lose(self) -> None:
        self._spent.unanswered_reads += 1


class _Query(_OfCollection):
    """If nothing is found, Firestore sends one answer without a document."""

    def __init__(self, bill: Bill, request: Any) -> None:
        raw = RunQueryRequest.pb(request)
        super().__init__(bill, raw.parent, raw.structured_query.from_[0].collection_id)
        self._least = 0

    def take(self, answer: Any) -> None:
        raw = RunQueryResponse.pb(answer)
        reads = raw.skipped_results + raw.HasField("document")
        if reads:
            self._spent.reads += reads - self._least
            self._least = 0
        elif not self.is_complete:
            self._least = 1
            self._spent.reads += 1
        self.is_complete = True


class _Aggregation(_OfCollection):
    """A count says how many index entries it looked at; a sum alone is taken for one read."""

    def __init__(self, bill: Bill, request: Any) -> None:
        raw = RunAggregationQueryRequest.pb(request)
        asked = raw.structured_aggregation_query
        super().__init__(bill, raw.parent, asked.structured_query.from_[0].collection_id)
        self._counts = [one.alias for one in asked.aggregations if one.HasField("count")]

    def take(self, answer: Any) -> None:
        fields = RunAggregationQueryResponse.pb(answer).result.aggregate_fields
        entries = max((fields[alias].integer_value for alias in self._counts if alias in fields), default=0)
        self.is_complete = True
        self._spent.reads += max(1, -(-entries // _INDEX_ENTRIES_PER_READ))


class _ListDocuments(_OfCollection):
    def __init__(self, bill: Bill, request: Any) -> None:
        raw = ListDocumentsRequest.pb(request)
        super().__init__(bill, raw.parent, raw.collection_id)

    def take(self, answer: Any) -> None:
        self.is_complete = True
        self._spent.reads += max(1, len(ListDocumentsResponse.pb(answer).documents))


class _ListCollections:
    def __init__(self, bill: Bill, _: Any) -> None:
        self._bill = bill
        self.is_complete = False

    def take(self, _: Any) -> None:
        self.is_complete = True
        self._bill.other().reads += 1

    def lose(self) -> None:
        self._bill.other().unanswered_reads += 1


# Every method that this package calls. One that is not here would go uncounted: a test compares.
COUNTED: dict[str, Callable[[Bill, Any], Counting]] = {
    "Commit": _Commit,
    "BatchGetDocuments": _BatchGet,
    "RunQuery": _Query,
    "RunAggregationQuery": _Aggregation,
    "ListDocuments": _ListDocuments,
    "ListCollectionIds": _ListCollections,
}
