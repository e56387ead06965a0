"""The ASGI application: the push path in front, everything people use behind it, in Starlette.

Every route declares who may use it; `/api/*` needs ADMIN_TOKEN where one is set, and a browser's POST must come
from a page of ours.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from millpond.ingress.push import PushEndpoint, Receive, Scope, Send
from millpond.service import Service
from millpond.web.api import Api, failure, json_response
from millpond.web.direct import PUSH_PATH

App = Callable[[Scope, Receive, Send], Awaitable[None]]
_HEALTH = ("/health", "/healthz", "/ready", "/readyz", "/live", "/livez")


def build_app(service: Service, push: PushEndpoint) -> App:
    rest = _build_rest(service)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == PUSH_PATH:
            await push(scope, receive, send)
        elif scope["type"] == "http":
            await rest(scope, receive, send)

    return app


def _build_rest(service: Service) -> Starlette:
    api = Api(service)

    async def health(request: Request) -> Response:
        alive = request.url.path.startswith("/live")
        fine = alive or (service.engine.accepting and await service.store_answers())
        state = {"status": "ok" if fine else "unavailable", "waiting": service.engine.waiting}
        return json_response(state, 200 if fine else 503)

    async def metrics(_: Request) -> Response:
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def index(request: Request) -> Response:
        base = str(request.base_url).rstrip("/")
        paths = [PUSH_PATH, *_HEALTH[::2], "/metrics", *api.paths]
        return json_response({"service": "millpond", "endpoints": [base + path for path in paths]})

    def guarded(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def guard(request: Request) -> Response:
            return _refusal(request, service.settings.admin_token) or await endpoint(request)

        return guard

    async def api_entry(request: Request) -> Response:
        return await api.dispatch(request)

    routes = [
        Route("/", index),
        *(Route(path, health) for path in _HEALTH),
        Route("/metrics", metrics),
        Route("/api/{rest:path}", guarded(api_entry), methods=["GET", "POST", "DELETE"]),
    ]
    return Starlette(routes=routes, exception_handlers={404: _not_found, 405: _not_allowed, Exception: _failed})


def _refusal(request: Request, token: str | None) -> Response | None:
    if token is not None:
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            return failure(401, "unauthorized", "send Authorization: Bearer with the ADMIN_TOKEN")
    origin = request.headers.get("origin")
    if request.method != "GET" and origin and urlsplit(origin).netloc != request.headers.get("host"):
        return failure(403, "foreign_origin", "this request comes from a page of another site")
    return None


async def _not_found(request: Request, _: Exception) -> Response:
    return failure(404, "not_found", f"there is nothing at {request.url.path}; GET / lists what there is")


async def _not_allowed(request: Request, error: Exception) -> Response:
    response = failure(405, "method_not_allowed", f"{request.method} is not for {request.url.path}")
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _failed(_: Request, error: Exception) -> Response:
    return failure(500, "internal_error", type(error).__name__)
