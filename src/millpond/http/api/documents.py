"""The read API: documents, what became of a message, and counts. It changes nothing."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from millpond.core.model import Ref, Snapshot
from millpond.http.routing import Access, RequestFault, Route, failure, json_response
from millpond.reprocess.why import explain
from millpond.service.service import Service

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000


def document_json(snapshot: Snapshot) -> dict[str, Any]:
    ref = snapshot.ref
    return {"collection": ref.collection, "id": ref.id, "version": str(snapshot.version), "data": snapshot.data}


def split_page(found: list[Snapshot], limit: int) -> tuple[list[Snapshot], str | None]:
    """A page of `limit`, and the id to go on after, of what was found when asking for one more than that."""
    return found[:limit], found[limit - 1].ref.id if len(found) > limit else None


def page_limit(query: QueryParams) -> int:
    """How many a page may have, as the request says."""
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

    async def _collections(self, _: Request) -> Response:
        found = await self._service.store.collections()
        return json_response({"collections": [{"collection": name, "docs": n} for name, n in found]})

    async def _document(self, _: Request, collection: str, key: str) -> Response:
        ref = Ref(collection, key)
        (snapshot,) = await self._service.store.read([ref])
        if snapshot.data is None:
            return failure(404, "not_found", f"there is no document {ref.path}")
        return json_response(document_json(snapshot))

    async def _documents(self, request: Request, collection: str) -> Response:
        limit = page_limit(request.query_params)
        found = await self._service.store.list_documents(collection, limit + 1, request.query_params.get("after"))
        snapshots, following = split_page(found, limit)
        return json_response({"docs": [document_json(snapshot) for snapshot in snapshots], "next": following})

    async def _why(self, _: Request, any_id: str) -> Response:
        found = await explain(self._service.store, any_id)
        return json_response(found) if found else failure(404, "not_found", f"nothing is known of {any_id}")

    async def _stats(self, _: Request) -> Response:
        counts = await self._service.store.count_events()
        total = sum(n for outcomes in counts.values() for n in outcomes.values())
        return json_response(
            {
                "total": total,
                "topics": counts,
                "viewsSinceStart": self._service.metrics.events_by_view(),
                "waiting": self._service.engine.waiting,
            }
        )
