"""`POST /events`: a CloudEvent in, the flow-run worker, a JSON answer when its step is finalised."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from millpond.core.errors import MalformedEnvelope, PushForbidden, PushRefused
from millpond.flow.service import Flow
from millpond.http.routing import RequestFault, json_response
from millpond.ingress.cloudevent import UNSUPPORTED, decode_http
from millpond.ingress.oidc import PushGuard
from millpond.ingress.push import RETRY_AFTER_S
from millpond.settings import Settings

EVENTS_PATH = "/events"


class EventsEndpoint:
    def __init__(self, flow: Flow, guard: PushGuard | None, settings: Settings) -> None:
        self._flow = flow
        self._guard = guard
        # As for pushes; a server that pulls its messages starts without having been asked.
        self._closed = guard is None and settings.is_exposed and settings.push_unauthenticated == "refuse"

    async def __call__(self, request: Request) -> Response:
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
        """Nothing of a request is looked at before its token was verified, where tokens are asked for."""
        if self._closed:
            raise PushForbidden("others can reach this server: set PUSH_AUDIENCE and PUSH_SERVICE_ACCOUNT")
        if self._guard is None:
            return
        given = request.headers.getlist("authorization")
        authorization = given[0].encode("latin-1") if len(given) == 1 else b""
        if not self._guard.knows(authorization):
            await self._guard.verify(authorization)
