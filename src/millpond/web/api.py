"""The read API and the letters: what people and dashboards look at, and the two things they may do."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from millpond.decode import decode_push
from millpond.errors import MalformedEnvelope
from millpond.letters import in_store
from millpond.letters.describe import replay_answer
from millpond.model import Outcome, Ref, Result, Snapshot
from millpond.service import Service
from millpond.web.routing import Access, RequestFault, Route, failure, json_response
from millpond.why import explain

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000


def document_json(snapshot: Snapshot) -> dict[str, Any]:
    ref = snapshot.ref
    return {"collection": ref.collection, "id": ref.id, "version": str(snapshot.version), "data": snapshot.data}


def split_page(found: list[Snapshot], limit: int) -> tuple[list[Snapshot], str | None]:
    """A page of `limit`, and the id to go on after, of what was found when asking for one more than that."""
    return found[:limit], found[limit - 1].ref.id if len(found) > limit else None


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
            Route("/api/letters", {"GET": self._letters}, Access.ADMIN),
            Route("/api/letters/{id}", {"GET": self._letter, "DELETE": self._purge}, Access.ADMIN),
            Route("/api/letters/{id}/replay", {"POST": self._replay}, Access.ADMIN),
            Route("/api/replay", {"POST": self._replay_delivery}, Access.ADMIN),
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
        snapshots, following = await self._page(request, collection)
        return json_response({"docs": [document_json(snapshot) for snapshot in snapshots], "next": following})

    async def _why(self, _: Request, any_id: str) -> Response:
        found = await explain(self._service.store, any_id)
        return json_response(found) if found else failure(404, "not_found", f"nothing is known of {any_id}")

    async def _stats(self, _: Request) -> Response:
        counts = await self._service.store.count_events()
        total = sum(n for outcomes in counts.values() for n in outcomes.values())
        return json_response({"total": total, "topics": counts, "waiting": self._service.engine.waiting})

    async def _letters(self, request: Request) -> Response:
        snapshots, following = await self._page(request, in_store.COLLECTION)
        return json_response({"letters": [in_store.summary(found) for found in snapshots], "next": following})

    async def _letter(self, _: Request, key: str) -> Response:
        opened = await self._service.letters.open_letter(Ref(in_store.COLLECTION, key))
        if opened is None:
            return _no_letter(key)
        snapshot, delivery = opened
        whole = {
            "attributes": in_store.attributes_text(delivery),
            "data": (delivery.data or b"").decode("utf-8", "replace"),
        }
        return json_response({**in_store.summary(snapshot), **whole})

    async def _purge(self, _: Request, key: str) -> Response:
        gone = await self._service.letters.purge(Ref(in_store.COLLECTION, key))
        return json_response({"id": key, "purged": True}) if gone else _no_letter(key)

    async def _replay(self, _: Request, key: str) -> Response:
        result = await self._service.replay_letter(key)
        return _no_letter(key) if result is None else _replayed(key, result)

    async def _replay_delivery(self, request: Request) -> Response:
        """A message of a dead-letter subscription, as a push body. It stays there unless it succeeds."""
        try:
            delivery = decode_push(await request.body())
        except MalformedEnvelope as error:
            raise RequestFault(400, error.reason, str(error)) from None
        return _replayed(delivery.message_id, await self._service.replay_delivery(delivery))

    async def _page(self, request: Request, collection: str) -> tuple[list[Snapshot], str | None]:
        text = request.query_params.get("limit", str(LIMIT_DEFAULT))
        if not (text.isascii() and text.isdigit() and len(text) <= 4) or not 1 <= int(text) <= LIMIT_MAX:
            raise RequestFault(400, "invalid_query", f"limit must be a whole number from 1 to {LIMIT_MAX}")
        limit = int(text)
        found = await self._service.store.list_documents(collection, limit + 1, request.query_params.get("after"))
        return split_page(found, limit)


def _no_letter(key: str) -> Response:
    return failure(404, "not_found", f"there is no letter {key}")


def _replayed(key: str, result: Result) -> Response:
    status = 503 if result.outcome is Outcome.RETRY else 200 if result.settled else 422
    return json_response(replay_answer(key, result), status)
