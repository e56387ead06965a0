"""The ASGI application: the push path in front, everything people use behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from millpond.http.api.artifacts import Artifacts
from millpond.http.api.documents import Api
from millpond.http.api.flow import FlowApi
from millpond.http.api.letters import LettersApi
from millpond.http.api.live import LiveApi
from millpond.http.api.old_ids import OldIdsApi
from millpond.http.api.rebuild import RebuildApi
from millpond.http.events import EVENTS_PATH, EventsEndpoint
from millpond.http.fast_push import PUSH_PATH
from millpond.http.openapi.openapi import OpenApi
from millpond.http.openapi.operations import INDEX_PATH, LIVE_PATHS, METRICS_PATH, READY_PATHS
from millpond.http.pages import Pages
from millpond.http.routing import Access, Route, Table, json_response
from millpond.ingress.oidc import PushGuard
from millpond.ingress.push import PushEndpoint, Receive, Scope, Send
from millpond.service.service import Service

App = Callable[[Scope, Receive, Send], Awaitable[None]]


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
        reason = await service.not_ready()
        waiting = service.engine.waiting
        if reason is None:
            return json_response({"status": "ok", "waiting": waiting})
        return json_response({"status": "unavailable", "waiting": waiting, "reason": reason}, 503)

    async def live(_: Request) -> Response:
        status = "ok" if service.engine.accepting else "unavailable"
        return json_response({"status": status, "waiting": service.engine.waiting})

    async def metrics(_: Request) -> Response:
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def index(request: Request) -> Response:
        base = str(request.base_url).rstrip("/")
        return json_response({"service": "millpond", "endpoints": [base + route.path for route in routes]})

    settings = service.settings
    events = EventsEndpoint(service.flow, guard, settings)
    openapi = OpenApi()
    routes = [
        # Answered in front of the table; here so that the table says of every path there is who may use it.
        Route(PUSH_PATH, {}, Access.PUSH),
        *Pages().routes(),
        Route(INDEX_PATH, {"GET": index}, Access.OPEN),
        *(Route(path, {"GET": ready}, Access.OPEN) for path in READY_PATHS),
        *(Route(path, {"GET": live}, Access.OPEN) for path in LIVE_PATHS),
        Route(METRICS_PATH, {"GET": metrics}, Access.OPEN),
        openapi.route(),
        Route(EVENTS_PATH, {"POST": events}, Access.PUSH),
        *Api(service).routes(),
        *LettersApi(service).routes(),
        *LiveApi(service).routes(),
        *RebuildApi(service.rebuilds, keeps_log=settings.event_log).routes(),
        *OldIdsApi(service).routes(),
        *Artifacts(Path(settings.artifacts_dir)).routes(),
        *FlowApi(service.flow).routes(),
    ]
    asked_for = {Access.PUSH: guard is not None, Access.ADMIN: settings.admin_token is not None}
    openapi.describe(routes, frozenset(access for access, asked in asked_for.items() if asked))
    return Table(routes, admin_token=settings.admin_token, exposed=settings.is_exposed, log=service.log)
