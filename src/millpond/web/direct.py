"""The push path without ASGI: from the connection's parser to the engine and back, in callbacks.

An ASGI request costs a scope, a task, an event and a dozen awaits before anybody looks at the message: as much as
everything Millpond then does with it. So plain push requests (POST, HTTP/1.1, nothing unusual) are answered
straight from the connection. Whatever is unusual, such as `Expect` or a pipelined request, takes the ordinary way
through the application and gets the same answers from the same endpoint.
"""

from __future__ import annotations

import http
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl

from millpond.ingress.push import Headers, PushEndpoint
from millpond.web.bounded import BoundedProtocol

PUSH_PATH = "/pubsub/push"
_PUSH_URL = PUSH_PATH.encode()
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n".encode()
    for status in http.HTTPStatus
}


class DirectProtocol(BoundedProtocol):
    """A bounded connection that knows the push endpoint."""

    push: PushEndpoint

    def begin_request(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.url == _PUSH_URL and self._is_plain():
            self.cycle = PushCycle(self)  # type: ignore[assignment]
        else:
            super().begin_request()

    def _is_plain(self) -> bool:
        parser = self.parser
        return (
            # Somebody who does not read answers gets no more of them this way; ASGI waits for him.
            not self.flow.write_paused
            and not self.expect_100_continue
            and parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and not parser.should_upgrade()
        )


class _Done:
    """In place of a finished cycle's event. Without it the cycle would refer to itself and outlive its answer."""

    def set(self) -> None:
        pass


_DONE = _Done()


class PushCycle:
    """One push request and its answer, in the place where uvicorn keeps its own request cycle.

    uvicorn's protocol fills `body`, clears `more_body`, signals `message_event` after either, and asks
    `response_complete` before it starts the next request of the connection.
    """

    __slots__ = (
        *("body", "disconnected", "flow", "headers", "keep_alive", "message_event", "more_body"),
        *("protocol", "response_complete", "response_started", "submitted"),
    )

    def __init__(self, protocol: DirectProtocol) -> None:
        self.protocol = protocol
        self.flow: FlowControl = protocol.flow
        self.headers: Headers = protocol.headers
        self.keep_alive: bool = protocol.parser.should_keep_alive()
        self.body = bytearray()
        self.more_body = True
        self.disconnected = False
        self.submitted = False
        self.response_started = False
        self.response_complete = False
        # uvicorn signals an asyncio.Event here; we are told directly.
        self.message_event: Any = self

    def set(self) -> None:
        """Something arrived, or the connection is gone."""
        if self.disconnected or self.submitted:
            return
        if self.more_body:
            self.flow.resume_reading()
            return
        self.submitted = True
        # Let go of at once: a connection outlives its requests, and refers to the last of them.
        body, self.body = bytes(self.body), bytearray()
        self.protocol.push.accept("POST", self.headers, body, self.respond)

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Write the answer in one piece; nobody is there to read it if the connection was lost meanwhile."""
        protocol = self.protocol
        if self.disconnected or self.response_complete or protocol.refused or protocol.transport.is_closing():
            return
        self.response_started = self.response_complete = True
        self.message_event = _DONE
        head = b"%scontent-length: %d\r\n" % (_STATUS_LINES[status], len(body))
        for name, value in headers:
            head += b"%s: %s\r\n" % (name, value)
        if self.keep_alive:
            protocol.transport.write(head + b"\r\n" + body)
        else:
            protocol.transport.write(head + b"connection: close\r\n\r\n" + body)
            protocol.transport.close()
        protocol.on_response_complete()
