"""Builds the ASGI application: push requests go straight to their endpoint, all others to the table of routes.

Called by `server` and `embedded`, with a service. Every path is listed here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from millpond.core.answers import Count, Reason
from millpond.core.errors import KeysUnavailable, PushForbidden, PushRefused, StoreFileGone
from millpond.http import operation as op
from millpond.http.access import Access, Exposed
from millpond.http.api.artifacts import Artifacts
from millpond.http.api.cost import CostApi
from millpond.http.api.documents import Api
from millpond.http.api.export import ExportApi
from millpond.http.api.flow import FlowApi
from millpond.http.api.letter_edits import LetterEditsApi
from millpond.http.api.letters import LettersApi
from millpond.http.api.live import LiveApi
from millpond.http.api.move_ids import OldIdsApi
from millpond.http.api.past_events import PastEventsApi
from millpond.http.api.rebuild import RebuildApi
from millpond.http.api.search import SearchApi
from millpond.http.events import EVENTS_PATH, EventsEndpoint
from millpond.http.openapi import OpenApiEndpoint
from millpond.http.pages import Pages
from millpond.http.request_schemas import PUSH_EXAMPLE
from millpond.http.routing import Route, Table, json_response
from millpond.ingress.oidc import PushGuard
from millpond.ingress.push import (
    PUSH_PATH,
    RETRY_AFTER_S,
    Answer,
    Buried,
    PushEndpoint,
    Receive,
    Refusal,
    Scope,
    Send,
)
from millpond.service.service import Service

App = Callable[[Scope, Receive, Send], Awaitable[None]]
# Cloud Run reserves some paths that end in z, so each exists with and without it.
_READY_PATHS = ("/health", "/healthz", "/ready", "/readyz")
_LIVE_PATHS = ("/live", "/livez")
_PUSH_ANSWERS: op.Answers = {
    200: [op.Shape(Answer, op.DONE), op.Shape(Buried, op.BURIED, own_words=True)],
    400: [op.Shape(Refusal, (*op.ENVELOPE, "missing_metadata", *op.CONTENT), own_words=True)],
    401: [op.Shape(Refusal, (PushRefused.reason,))],
    403: [op.Shape(Refusal, (PushForbidden.reason, "foreign_origin"))],
    405: [op.Shape(Refusal, ("method_not_allowed",))],
    415: [op.Shape(Refusal, ("unsupported_media_type",))],
    429: [op.Shape(Refusal, op.FULL)],
    503: [op.Shape(Refusal, (*op.UNSETTLED, KeysUnavailable.reason))],
}
_METADATA = {
    "message-id": "the message's id. Needs a publish time.",
    "publish-time": "RFC 3339 with an offset. Needs an id.",
    "subscription-name": "the subscription's path.",
    "ordering-key": "the ordering key.",
}
_PUSH = op.Operation(
    "push",
    "Take one message",
    "200 means done: the store holds the effect, a greater one, or a letter. Pub/Sub sends everything else again. "
    "One `x-goog-pubsub-*` header makes a request an unwrapped one, whatever its content type: the body is then "
    "the data, and every header that HTTP or a proxy does not add is an attribute. With `millpond pull` there is "
    f"no push: 404. `Retry-After` is {RETRY_AFTER_S} s.",
    # A server that pulls its messages answers 404.
    op.merged(_PUSH_ANSWERS, op.NOT_FOUND),
    [op.parameter("header", f"x-goog-pubsub-{name}", f"Unwrapped: {text}") for name, text in _METADATA.items()],
    [op.Body("PushRequest", PUSH_EXAMPLE)],
    leads_to={"why": {"id": "$response.body#/messageId"}},
)


class Index(msgspec.Struct):
    """Every path there is, and whether bulk work keeps to a pace, because the store is Firestore."""

    service: Literal["millpond"]
    paced: bool
    endpoints: list[str]


class Health(msgspec.Struct):
    """`waiting` messages wait for a commit."""

    status: Literal["ok", "unavailable"]
    waiting: Count


class Unready(msgspec.Struct):
    """Why no message should be sent here now; `waiting` messages wait for a commit."""

    status: Literal["unavailable"]
    waiting: Count
    reason: Reason


def build_app(service: Service, push: PushEndpoint, exposed: Exposed | None = None) -> App:
    """`exposed` decides which requests may come from other machines; by default HOST decides for all of them."""
    table = build_table(service, push.guard, exposed)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == PUSH_PATH:
            await push(scope, receive, send)
            return
        response = await table.answer(Request(scope, receive))
        await response(scope, receive, send)

    return app


def build_table(service: Service, guard: PushGuard | None = None, exposed: Exposed | None = None) -> Table:
    @op.operation("", {503: [op.Shape(Unready, (op.ENDING, "store_failing", StoreFileGone.reason))]})
    async def ready(_: Request) -> Health | Response:
        """Whether messages are taken.

        Whether messages are taken, and the store accepted the last writes. 503 if not.
        """
        reason = await service.not_ready()
        waiting = service.engine.waiting
        if reason is None:
            return Health("ok", waiting)
        return json_response(Unready("unavailable", waiting, reason), 503)

    @op.operation()
    async def live(_: Request) -> Health:
        """Whether the process answers.

        `status` is `unavailable` while it shuts down.
        """
        return Health("ok" if service.engine.accepting else "unavailable", service.engine.waiting)

    @op.operation(media_types=["text/plain"])
    async def metrics(_: Request) -> Response:
        """Counters, for Prometheus."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @op.operation("index")
    async def index(request: Request) -> Index:
        """Every path."""
        base = str(request.base_url).rstrip("/")
        return Index("millpond", service.pace is not None, [base + route.path for route in routes])

    settings = service.settings
    if exposed is None:
        is_exposed = settings.is_exposed
        exposed = lambda _: is_exposed  # noqa: E731 - a constant as a rule
    events = EventsEndpoint(service.flow, guard, settings, exposed)
    openapi = OpenApiEndpoint()
    routes = [
        # Answered before the table; listed so that the table has the access rule of every path.
        Route(PUSH_PATH, {}, Access.PUSH, {"POST": _PUSH}),
        *Pages().routes(),
        Route("/api", {"GET": index}, Access.OPEN),
        *(Route(path, {"GET": ready}, Access.OPEN) for path in _READY_PATHS),
        *(Route(path, {"GET": live}, Access.OPEN) for path in _LIVE_PATHS),
        Route("/metrics", {"GET": metrics}, Access.OPEN),
        openapi.route(),
        Route(EVENTS_PATH, {"POST": events.take}, Access.PUSH),
        *Api(service).routes(),
        *ExportApi(service).routes(),
        *PastEventsApi(service).routes(),
        *SearchApi(service).routes(),
        *LettersApi(service).routes(),
        *LetterEditsApi(service).routes(),
        *LiveApi(service).routes(),
        *CostApi(service).routes(),
        *RebuildApi(service.rebuilds, keeps_log=settings.event_log).routes(),
        *OldIdsApi(service).routes(),
        *Artifacts(Path(settings.artifacts_dir)).routes(),
        *FlowApi(service.flow).routes(),
    ]
    asked_for = {Access.PUSH: guard is not None, Access.ADMIN: settings.admin_token is not None}
    openapi.describe(routes, frozenset(access for access, asked in asked_for.items() if asked))
    return Table(routes, admin_token=settings.admin_token, exposed=exposed, log=service.log)
