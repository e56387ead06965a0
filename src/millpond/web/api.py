"""The read API and the letters: what people and dashboards look at, and the two things they may do.

Paths are taken apart before percent-decoding, so that a collection path or an id may contain anything.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from millpond.errors import Overloaded, StoreError
from millpond.ingress.push import RETRY_AFTER_S
from millpond.letters import in_store
from millpond.model import Ref, Result, Snapshot
from millpond.service import Service
from millpond.why import explain

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
_encode = msgspec.json.Encoder().encode


def json_response(content: Any, status: int = 200) -> Response:
    return Response(_encode(content), status, media_type="application/json")


def failure(status: int, reason: str, error: str) -> Response:
    return json_response({"reason": reason, "error": error}, status)


def document_json(snapshot: Snapshot) -> dict[str, Any]:
    ref = snapshot.ref
    return {"collection": ref.collection, "id": ref.id, "version": str(snapshot.version), "data": snapshot.data}


class _BadQueryError(Exception):
    pass


class Api:
    paths = ("/api/docs/{collection}/{id}", "/api/docs/{collection}", "/api/collections", "/api/why/{id}",
             "/api/stats", "/api/letters", "/api/letters/{id}", "/api/letters/{id}/replay")  # fmt: skip

    def __init__(self, service: Service) -> None:
        self._service = service

    async def dispatch(self, request: Request) -> Response:
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        parts = [unquote(part) for part in raw.decode("ascii").split("/")[2:]]
        try:
            return await self._route(request, request.method, parts)
        except _BadQueryError as error:
            return failure(400, "invalid_query", str(error))
        except Overloaded as error:
            response = failure(429, error.reason, str(error))
            response.headers["retry-after"] = str(RETRY_AFTER_S)
            return response
        except StoreError as error:
            return failure(503, "store_unavailable", str(error))

    async def _route(self, request: Request, method: str, parts: list[str]) -> Response:  # noqa: C901 - a flat table
        match (method, parts):
            case ("GET", ["docs", collection, key]):
                return await self._document(Ref(collection, key))
            case ("GET", ["docs", collection]):
                return await self._documents(request, collection)
            case ("GET", ["collections"]):
                found = await self._service.store.collections()
                return json_response({"collections": [{"collection": name, "docs": n} for name, n in found]})
            case ("GET", ["why", any_id]):
                found_why = await explain(self._service.store, any_id)
                return (
                    json_response(found_why)
                    if found_why
                    else failure(404, "not_found", f"nothing is known of {any_id}")
                )
            case ("GET", ["stats"]):
                return await self._stats()
            case ("GET", ["letters"]):
                return await self._letters(request)
            case ("GET", ["letters", key]):
                return await self._letter(key)
            case ("DELETE", ["letters", key]):
                gone = await self._service.letters.purge(Ref(in_store.COLLECTION, key))
                return json_response({"id": key, "purged": True}) if gone else _no_letter(key)
            case ("POST", ["letters", key, "replay"]):
                result = await self._service.replay_letter(key)
                return _no_letter(key) if result is None else _replayed(key, result)
        if _known(parts):
            return failure(405, "method_not_allowed", f"{method} is not for {request.url.path}")
        return failure(404, "not_found", f"there is nothing at {request.url.path}; GET / lists what there is")

    async def _document(self, ref: Ref) -> Response:
        (snapshot,) = await self._service.store.read([ref])
        if snapshot.data is None:
            return failure(404, "not_found", f"there is no document {ref.path}")
        return json_response(document_json(snapshot))

    async def _documents(self, request: Request, collection: str) -> Response:
        snapshots, following = await self._page(request, collection)
        return json_response({"docs": [document_json(snapshot) for snapshot in snapshots], "next": following})

    async def _letters(self, request: Request) -> Response:
        snapshots, following = await self._page(request, in_store.COLLECTION)
        return json_response({"letters": [in_store.summary(found) for found in snapshots], "next": following})

    async def _page(self, request: Request, collection: str) -> tuple[list[Snapshot], str | None]:
        text = request.query_params.get("limit", str(LIMIT_DEFAULT))
        if not (text.isascii() and text.isdigit() and len(text) <= 4) or not 1 <= int(text) <= LIMIT_MAX:
            raise _BadQueryError(f"limit must be a whole number from 1 to {LIMIT_MAX}")
        limit = int(text)
        found = await self._service.store.list_documents(collection, limit + 1, request.query_params.get("after"))
        return found[:limit], found[limit - 1].ref.id if len(found) > limit else None

    async def _stats(self) -> Response:
        counts = await self._service.store.count_events()
        total = sum(n for outcomes in counts.values() for n in outcomes.values())
        waiting = self._service.engine.waiting
        return json_response({"total": total, "topics": counts, "waiting": waiting})

    async def _letter(self, key: str) -> Response:
        opened = await self._service.letters.open_letter(Ref(in_store.COLLECTION, key))
        if opened is None:
            return _no_letter(key)
        snapshot, delivery = opened
        data = (delivery.data or b"").decode("utf-8", "replace")
        return json_response({**in_store.summary(snapshot), "data": data})


def _known(parts: list[str]) -> bool:
    heads = {"docs": (2, 3), "collections": (1,), "why": (2,), "stats": (1,), "letters": (1, 2, 3)}
    return bool(parts) and len(parts) in heads.get(parts[0], ())


def _no_letter(key: str) -> Response:
    return failure(404, "not_found", f"there is no letter {key}")


def _replayed(key: str, result: Result) -> Response:
    views = [{"view": v.view, "doc": v.doc, "outcome": v.outcome, "reason": v.reason} for v in result.views]
    answer = {"id": key, "outcome": result.outcome, "reason": result.reason, "topic": result.topic, "views": views}
    if result.error is not None:
        answer["error"] = in_store.bounded_error(result.error)
    return json_response(answer, 503 if result.outcome == "retry" else 200)
