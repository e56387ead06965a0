"""The application inside a host's server: it does for itself what `server` and `limits` do for `millpond serve`.

A host's server knows nothing of Millpond's limits and rules. So here bodies are bounded, one by one and together, a
client on another machine needs a token, and the root path is taken off. `Pond` starts and stops it.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from millpond.core.errors import Overloaded, PushForbidden
from millpond.http.access import RequestFault, may_be_remote
from millpond.http.app import build_app
from millpond.http.bodies import BODY_BYTES_MAX, BODY_WAIT_S, REQUEST_S_MAX, SMALL_BYTES_MAX, Bodies, Claim
from millpond.http.refusal import publish_refusal, refusal_body
from millpond.http.root_path import without_root
from millpond.ingress.oidc import PushGuard
from millpond.ingress.push import PUSH_PATH, RETRY_AFTER_S, PushEndpoint, Receive, Scope, Send
from millpond.service.service import Service

_MIB = 1024 * 1024
_LOOK_S = 0.01
_HOW_TO_PUSH = (
    "without tokens only this machine may push: set PUSH_AUDIENCE and PUSH_SERVICE_ACCOUNT, or "
    "PUSH_UNAUTHENTICATED=allow if the host checks who calls"
)


class EmbeddedApp:
    """The ASGI application of one running service."""

    def __init__(self, service: Service, guard: PushGuard | None) -> None:
        settings = service.settings
        self._outcomes = service.outcomes
        self._push_needs_token = guard is None and settings.push_unauthenticated == "refuse"
        self._exposed = (lambda _: True) if settings.is_exposed else may_be_remote
        self._push = PushEndpoint(service.engine, service.outcomes, guard)
        self._app = build_app(service, self._push, self._exposed)
        self._bodies = Bodies(settings.http_bodies_mib * _MIB, asyncio.get_running_loop().time)
        self._open = 0
        service.metrics.watch("millpond_request_body_bytes", "Request bodies in memory.", lambda: self._bodies.held)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an HTTP request, below any root path."""
        scope = without_root(scope)
        if not scope["path"]:
            await _add_slash(scope)(scope, receive, send)
            return
        body = _BoundedBody(scope, receive, self._bodies)
        self._open += 1
        try:
            if scope["path"] == PUSH_PATH and self._push_needs_token and self._exposed(scope):
                await self._push.refuse(PushForbidden(_HOW_TO_PUSH), send)
            else:
                await self._app(scope, body.receive, send)
        except RequestFault as fault:
            # The body of a push request. The table of routes answers all others itself.
            publish_refusal(self._outcomes, fault.status, fault.reason, str(fault))
            await refuse(fault.status, fault.reason, str(fault), fault.headers)(scope, receive, send)
        finally:
            self._open -= 1
            body.claim.release()

    async def idle(self, patience_s: float) -> None:
        """Return when every request is answered, or after `patience_s`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        while self._open and loop.time() < until:  # noqa: ASYNC110 - a stop is rare, a request is not
            await asyncio.sleep(_LOOK_S)


def refuse(status: int, reason: str, text: str, headers: Any = None) -> Response:
    """The answer to a request that was not read, in the shape of a push answer, as `limits` gives it."""
    return Response(refusal_body(status, reason, text), status, headers, media_type="application/json")


def _add_slash(scope: Scope) -> Response:
    """A redirect to the same path with a slash, which the page's relative links need.

    The target is relative, so that it is right behind a proxy that removed a part of the path.
    """
    name = quote(scope["root_path"].rpartition("/")[2])
    return Response(status_code=307, headers={"location": f"./{name}/"})


class _BoundedBody:
    """Reads one request's body within the limits. Raises RequestFault if it is over one of them."""

    def __init__(self, scope: Scope, receive: Receive, bodies: Bodies) -> None:
        self._receive = receive
        self._bodies = bodies
        self.claim = Claim(bodies, self)
        self._announced = _announced(scope)
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._deadline = asyncio.get_running_loop().time() + REQUEST_S_MAX
        self._size = 0
        self._begun = self._complete = False

    # Called by the budget.

    def hold_reading(self) -> None:
        self._may_read.clear()

    def go_on_reading(self) -> None:
        self._may_read.set()

    async def receive(self) -> MutableMapping[str, Any]:
        if self._complete:
            return await self._receive()
        if not self._begun:
            self._begun = True
            self._check_size(self._announced or 0)
            self.claim.announce(self._announced or 0)
        try:
            async with asyncio.timeout_at(self._deadline):
                await self._wait_for_room()
                message = await self._receive()
        except TimeoutError:
            text = f"the request was not complete after {REQUEST_S_MAX:g} s"
            raise RequestFault(408, "request_timeout", text) from None
        self._take(len(message.get("body", b"")))
        self._complete = not message.get("more_body")
        return message

    def _take(self, size: int) -> None:
        self._size += size
        self._check_size(self._size)
        self.claim.add(size)
        if self._announced is None and self.claim.small > SMALL_BYTES_MAX:
            # Its length is not known.
            self.claim.announce(BODY_BYTES_MAX)
        if self.claim.exceeds_everything:
            raise self._crowded()

    async def _wait_for_room(self) -> None:
        self.claim.wait_if_crowded()
        if not self._may_read.is_set():
            try:
                await asyncio.wait_for(self._may_read.wait(), BODY_WAIT_S)
            except TimeoutError:
                raise self._crowded() from None

    def _check_size(self, size: int) -> None:
        if size > BODY_BYTES_MAX:
            raise RequestFault(413, "body_too_large", f"the body is over {BODY_BYTES_MAX} bytes")

    def _crowded(self) -> RequestFault:
        text = f"other request bodies fill HTTP_BODIES_MIB: {self._bodies.held} bytes"
        return RequestFault(429, Overloaded.reason, text, {"retry-after": str(RETRY_AFTER_S)})


def _announced(scope: Scope) -> int | None:
    """The body's length, if the request gives it."""
    text = next((value for name, value in scope["headers"] if name == b"content-length"), None)
    return int(text) if text is not None and text.isdigit() else None
