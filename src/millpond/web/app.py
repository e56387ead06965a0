"""The ASGI application: the push path in front, everything people use behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from millpond.ingress.events import EVENTS_PATH, EventsEndpoint
from millpond.ingress.oidc import PushGuard
from millpond.ingress.push import PushEndpoint, Receive, Scope, Send
from millpond.service import Service
from millpond.web.api import Api
from millpond.web.direct import PUSH_PATH
from millpond.web.flow_api import FlowApi
from millpond.web.routing import Access, Route, Table, json_response

App = Callable[[Scope, Receive, Send], Awaitable[None]]
# Cloud Run reserves some paths that end in z, so each exists with and without.
_READY = ("/health", "/healthz", "/ready", "/readyz")
_LIVE = ("/live", "/livez")


def build_app(service: Service, push: PushEndpoint) -> App:
    table = build_table(service, push.guard)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == PUSH_PATH:
            await push(scope, receive, send)
            return
        response = await table.answer(Request(scope, receive))
        await response(scope, receive, send)

    return app


def build_table(service: Service, guard: PushGuard | None = None) -> Table:
    async def ready(_: Request) -> Response:
        fine = service.engine.accepting and await service.store_answers()
        state = {"status": "ok" if fine else "unavailable", "waiting": service.engine.waiting}
        return json_response(state, 200 if fine else 503)

    async def live(_: Request) -> Response:
        return json_response({"status": "ok", "waiting": service.engine.waiting})

    async def metrics(_: Request) -> Response:
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def index(request: Request) -> Response:
        base = str(request.base_url).rstrip("/")
        return json_response({"service": "millpond", "endpoints": [base + route.path for route in routes]})

    settings = service.settings
    events = EventsEndpoint(service.flow, guard, settings)
    routes = [
        # Answered in front of the table; here so that the table says of every path there is who may use it.
        Route(PUSH_PATH, {}, Access.PUSH),
        Route("/", {"GET": index}, Access.OPEN),
        *(Route(path, {"GET": ready}, Access.OPEN) for path in _READY),
        *(Route(path, {"GET": live}, Access.OPEN) for path in _LIVE),
        Route("/metrics", {"GET": metrics}, Access.OPEN),
        Route(EVENTS_PATH, {"POST": events}, Access.PUSH),
        *Api(service).routes(),
        *FlowApi(service.flow).routes(),
    ]
    return Table(routes, admin_token=settings.admin_token, exposed=settings.is_exposed, log=service.log)
