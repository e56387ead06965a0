"""`POST /events`: takes a CloudEvent, runs the flow-run worker, and answers when its step is finalised.

Never reads a request before its token is verified, if the server asks for tokens. Called by the table of routes.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from millpond.core.collections import FLOW_RUNS
from millpond.core.errors import (
    InternalError,
    KeysUnavailable,
    MalformedEnvelope,
    PushForbidden,
    PushRefused,
    WriteRefused,
)
from millpond.flow.results import FlowAgain, FlowAnswer
from millpond.flow.service import Flow
from millpond.http.access import Exposed, RequestFault
from millpond.http.operation import ENDING, FULL, STORE_FAILS, Answers, Body, Shape, fails, operation, parameter
from millpond.http.routing import json_response
from millpond.ingress.cloudevent import UNSUPPORTED, decode_http
from millpond.ingress.oidc import PushGuard
from millpond.ingress.push import RETRY_AFTER_S
from millpond.settings import Settings

EVENTS_PATH = "/events"
_DONE = (
    *("step_succeeded", "step_failed", "attempts_exhausted", "lost_race", "claim_lost", "event_filtered"),
    *("invalid_steps", "no_ready_step", "step_blocked", "run_not_found", WriteRefused.reason),
)
_ANSWERS: Answers = {
    200: [Shape(FlowAnswer, _DONE)],
    429: [Shape(FlowAgain, FULL)],
    503: [Shape(FlowAgain, (*STORE_FAILS, ENDING, InternalError.reason))],
}
_REFUSALS = (
    fails(400, "malformed_event"),
    fails(401, PushRefused.reason),
    fails(403, PushForbidden.reason, "foreign_origin"),
    fails(415, "unsupported_media_type"),
    fails(503, KeysUnavailable.reason),
)
_ATTRIBUTES = ("specversion", "id", "source", "type", "subject")
_EXAMPLE = {
    "specversion": "1.0",
    "id": "1",
    "source": "//firestore.googleapis.com/projects/demo/databases/(default)",
    "type": "google.cloud.firestore.document.v1.updated",
    "subject": f"documents/{FLOW_RUNS}/invoice-7",
}


class EventsEndpoint:
    def __init__(self, flow: Flow, guard: PushGuard | None, settings: Settings, exposed: Exposed) -> None:
        self._flow = flow
        self._guard = guard
        # The same rule as for pushes; checked here because a server that pulls its messages starts without it.
        self._needs_token = guard is None and settings.push_unauthenticated == "refuse"
        self._exposed = exposed

    @operation(
        "takeEvent",
        _ANSWERS,
        *_REFUSALS,
        parameters=[parameter("header", f"ce-{it}", f"Binary mode: the attribute `{it}`.") for it in _ATTRIBUTES],
        bodies=[
            Body("CloudEvent", _EXAMPLE, "application/cloudevents+json"),
            Body("DocumentEventData"),
            Body(None, content_type="application/protobuf"),
        ],
        body_required=False,
    )
    async def take(self, request: Request) -> Response:
        """Take a CloudEvent about a flow run.

        CloudEvents 1.0 as Eventarc sends them. Structured: `application/cloudevents+json`. Binary: the attributes
        are `ce-*` headers, of which `ce-specversion`, `ce-id`, `ce-source` and `ce-type` are then required, and the
        body is the data: `application/protobuf` (`google.events.cloud.firestore.v1.DocumentEventData`) or JSON.
        Answered when the step is finalised.
        """
        try:
            await self._check_sender(request)
            attributes, load = decode_http(request.scope["headers"], await request.body())
            event = self._flow.filter.read(attributes, load)
        except MalformedEnvelope as error:
            raise RequestFault(415 if error.reason == UNSUPPORTED else 400, error.reason, str(error)) from None
        except PushRefused as error:
            headers = {"www-authenticate": "Bearer"} if error.status == 401 else None
            raise RequestFault(error.status, error.reason, str(error), headers) from None
        result = await self._flow.handle(event)
        status = result.http_status
        headers = {"retry-after": str(RETRY_AFTER_S)} if status == 429 else None
        return json_response(result.answer(), status, headers)

    async def _check_sender(self, request: Request) -> None:
        """Verify the token before anything else of the request is read, if the server asks for tokens."""
        if self._needs_token and self._exposed(request.scope):
            raise PushForbidden("others can reach this server: set PUSH_AUDIENCE and PUSH_SERVICE_ACCOUNT")
        if self._guard is None:
            return
        given = request.headers.getlist("authorization")
        authorization = given[0].encode("latin-1") if len(given) == 1 else b""
        if not self._guard.knows(authorization):
            await self._guard.verify(authorization)
