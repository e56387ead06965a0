"""The push path without ASGI: from the connection's parser to the engine and back, in callbacks.

An ASGI request costs a scope, a task, an event and a dozen awaits before the message is decoded: as much as all of
Millpond's work on it. So plain push requests (POST, HTTP/1.1) are answered directly from the connection. Any other,
such as one with `Expect` or a pipelined one, goes through the ASGI application, and gets the same answers from the
same endpoint. Never decides an answer itself. uvicorn calls it, as the protocol that `server` configures.
"""

from __future__ import annotations

import http
from functools import partial

from millpond.http.limits import BoundedProtocol
from millpond.ingress.push import PUSH_PATH, Headers, PushEndpoint

_PUSH_URL = PUSH_PATH.encode()
_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n".encode()
    for status in http.HTTPStatus
}


class DirectProtocol(BoundedProtocol):
    """A bounded connection that calls the push endpoint directly."""

    push: PushEndpoint

    def begin_request(self) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and self.url == _PUSH_URL and self._is_plain():
            self.cycle = cycle = PushCycle(self)
            cycle.begin(self._announced)
        else:
            super().begin_request()

    def take_body(self, body: bytes) -> None:
        if type(self.cycle) is PushCycle:
            self.cycle.take(body)
        else:
            super().take_body(body)

    def end_body(self) -> None:
        if type(self.cycle) is PushCycle:
            self.cycle.end()
        else:
            super().end_body()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open: a client that has closed its side may still wait for its answer."""
        waits = type(self.cycle) is PushCycle and not self.cycle.more_body and not self.cycle.response_complete
        if waits:
            self.cycle.keep_alive = False
        return waits

    def connection_lost(self, exc: Exception | None) -> None:
        if type(self.cycle) is PushCycle:
            self.cycle.abandon()
        super().connection_lost(exc)

    def _abandon_request(self) -> None:
        if self._is_begun and type(self.cycle) is PushCycle:
            self.cycle.abandon()
        super()._abandon_request()

    def _is_plain(self) -> bool:
        parser = self.parser
        return (
            # If a client does not read its answers, ASGI waits for it; this path would not.
            not self.flow.write_paused
            and not self.expect_100_continue
            and parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and not parser.should_upgrade()
        )


class _NoEvent:
    """Replaces the event that uvicorn sets: here no task waits for it."""

    def set(self) -> None:
        pass


_NO_EVENT = _NoEvent()


class PushCycle:
    """One push request and its answer, in place of uvicorn's request cycle.

    The token is verified as soon as the headers are complete; until then the rest is not read. The connection
    checks `response_complete` before it starts the next request. The two refer to each other until the connection
    is lost.
    """

    __slots__ = (
        *("_claim", "_headers", "_is_known", "_protocol"),
        *("body", "disconnected", "keep_alive", "more_body", "response_complete", "response_started"),
    )
    message_event = _NO_EVENT

    def __init__(self, protocol: DirectProtocol) -> None:
        self._protocol = protocol
        self._claim = protocol.claim
        self._headers: Headers = protocol.headers
        self._is_known = False
        self.keep_alive: bool = protocol.parser.should_keep_alive()
        self.body: bytes | bytearray = b""
        self.more_body = True
        self.disconnected = False
        self.response_started = False
        self.response_complete = False

    def begin(self, announced: int) -> None:
        push = self._protocol.push
        if push.knows(self._headers):
            self._is_known = True
            if self._claim is not None:
                self._claim.announce(announced)
        else:
            self._protocol.hold_reading()
            push.verify(self._headers, partial(self._go_on, announced), self.respond)

    def _go_on(self, announced: int) -> None:
        """The token is valid."""
        self._is_known = True
        self._protocol.go_on_reading()
        if not self.more_body:
            self._submit()
        elif self._claim is not None and not self.disconnected:
            self._claim.announce(announced)

    def take(self, body: bytes) -> None:
        """Add a part of the body. Nearly always it is the only part, and is not copied."""
        if not self.body:
            self.body = body
        elif type(self.body) is bytearray:
            self.body += body
        else:
            self.body = bytearray(self.body) + body

    def end(self) -> None:
        """The body is complete."""
        if self.response_complete:
            return
        self.more_body = False
        if self._is_known:
            self._submit()

    def abandon(self) -> None:
        """The connection is gone, or its request was refused. A complete message is still taken, not answered."""
        self.disconnected = True
        if self.more_body:
            self.body = b""

    def _submit(self) -> None:
        # Dropped now: a connection outlives its requests, and keeps a reference to the last one.
        body, self.body = bytes(self.body), b""
        self._protocol.push.accept("POST", self._headers, body, self.respond)

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Write the answer in one piece, unless the connection was lost meanwhile."""
        self._release()
        protocol = self._protocol
        if self.disconnected or self.response_complete or protocol.transport.is_closing():
            return
        self.response_started = self.response_complete = True
        head = b"%scontent-length: %d\r\n" % (_STATUS_LINES[status], len(body))
        for name, value in headers:
            head += b"%s: %s\r\n" % (name, value)
        if self.keep_alive and not self.more_body:
            protocol.transport.write(head + b"\r\n" + body)
            if not self._is_known:
                protocol.go_on_reading()
            protocol.on_response_complete()
            return
        protocol.transport.write(head + b"connection: close\r\n\r\n" + body)
        if self.more_body:
            self.body = b""
            protocol.linger()
        else:
            protocol.transport.close()

    def _release(self) -> None:
        if self._claim is not None:
            self._claim.release()
            self._claim = None
