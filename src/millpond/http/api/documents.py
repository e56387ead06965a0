"""The read API: documents, what became of a message, and counts. Never writes."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from millpond.core.answers import Count
from millpond.core.model import Ref, Snapshot
from millpond.http.access import Access, RequestFault
from millpond.http.api.document_filter import PARAMETERS, document_filter, matching_page
from millpond.http.operation import INVALID_QUERY, NOT_FOUND, in_path, operation, parameter
from millpond.http.routing import Route, failure
from millpond.reprocess.why import Why, explain
from millpond.service.service import Service

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
PAGE = (
    parameter(
        "query",
        "limit",
        "How many.",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
        example=2,
    ),
    parameter("query", "after", "`next` of the page before."),
)
COLLECTION = in_path("collection", "A collection's path; a slash is `%2F`.", "ops_services")
_ID = in_path("id", "The document's id; a slash is `%2F`, a percent sign `%25`.", "dev__api")
Next = Annotated[str | None, Meta(description="What to give as `after` for the next page; null at the end.")]


class Collection(msgspec.Struct):
    """How many documents it has."""

    collection: str
    docs: Count


class Collections(msgspec.Struct):
    """Every collection, by name."""

    collections: list[Collection]


class Document(msgspec.Struct):
    """A document. Times are RFC 3339 in UTC, bytes are base64."""

    collection: str
    id: str
    version: Annotated[str, Meta(description="Opaque; the same version means the same content.")]
    data: dict[str, Any]


class DocumentPage(msgspec.Struct):
    """By id."""

    docs: list[Document]
    next: Next


class Stats(msgspec.Struct, rename="camel"):
    """What became of messages.

    `total` and `topics` count the event log: each message once, with the outcome it had first. `viewsSinceStart`
    is what this process counted since it started: every event a view was asked about, by view and outcome,
    redeliveries included.
    """

    total: Count
    topics: dict[str, dict[str, Count]]
    views_since_start: dict[str, dict[str, Count]]
    waiting: Count


def as_document(snapshot: Snapshot) -> Document:
    ref = snapshot.ref
    return Document(ref.collection, ref.id, str(snapshot.version), snapshot.data or {})


def split_page(found: list[Snapshot], limit: int) -> tuple[list[Snapshot], str | None]:
    """The first `limit` documents, and the last id if there are more. `found` was read with `limit + 1`."""
    return found[:limit], found[limit - 1].ref.id if len(found) > limit else None


def page_limit(query: QueryParams) -> int:
    """The page size that the request asks for."""
    text = query.get("limit", str(LIMIT_DEFAULT))
    if not (text.isascii() and text.isdigit() and len(text) <= 4) or not 1 <= int(text) <= LIMIT_MAX:
        raise RequestFault(400, "invalid_query", f"limit must be a whole number from 1 to {LIMIT_MAX}")
    return int(text)


class Api:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        return [
            Route("/api/collections", {"GET": self._collections}, Access.ADMIN),
            Route("/api/docs/{collection}", {"GET": self._documents}, Access.ADMIN),
            Route("/api/docs/{collection}/{id}", {"GET": self._document}, Access.ADMIN),
            Route("/api/why/{id}", {"GET": self._why}, Access.ADMIN),
            Route("/api/stats", {"GET": self._stats}, Access.ADMIN),
        ]

    @operation("collections")
    async def _collections(self, _: Request) -> Collections:
        """Every collection."""
        found = await self._service.store.collections()
        return Collections([Collection(name, n) for name, n in found])

    @operation("document", NOT_FOUND, parameters=[COLLECTION, _ID])
    async def _document(self, _: Request, collection: str, key: str) -> Document | Response:
        """One document."""
        ref = Ref(collection, key)
        (snapshot,) = await self._service.store.read([ref])
        if snapshot.data is None:
            return failure(404, "not_found", f"there is no document {ref.path}")
        return as_document(snapshot)

    @operation(
        "documents",
        INVALID_QUERY,
        parameters=[COLLECTION, *PAGE, *PARAMETERS],
        leads_to={"document": {name: f"$response.body#/docs/0/{name}" for name in ("collection", "id")}},
    )
    async def _documents(self, request: Request, collection: str) -> DocumentPage:
        """The documents of a collection.

        By id, in pages. A collection that does not exist is an empty page. With a filter, a page may be short or
        empty although there are more: go on as long as there is a `next`.
        """
        query = request.query_params
        limit, after, wanted = page_limit(query), query.get("after"), document_filter(query)
        store = self._service.store
        if wanted.takes_all:
            snapshots, following = split_page(await store.list_documents(collection, limit + 1, after), limit)
        else:
            snapshots, following = await matching_page(store, collection, wanted, limit, after)
        return DocumentPage([as_document(snapshot) for snapshot in snapshots], following)

    @operation("why", NOT_FOUND, parameters=[in_path("id", "A message id or an event id.", "1001")])
    async def _why(self, _: Request, any_id: str) -> Why | Response:
        """What became of a message or event, and which message won."""
        found = await explain(self._service.store, any_id)
        return found or failure(404, "not_found", f"nothing is known of {any_id}")

    @operation("stats")
    async def _stats(self, _: Request) -> Stats:
        """Messages by topic and outcome, events by view and outcome."""
        counts = await self._service.store.count_events()
        total = sum(n for outcomes in counts.values() for n in outcomes.values())
        return Stats(total, counts, self._service.metrics.events_by_view(), self._service.engine.waiting)
