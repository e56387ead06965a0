"""Bounds on what a connection may cost: uvicorn's HTTP protocol, with limits it does not have.

    headers over 32 KiB             431
    bodies over 14 MiB              413, before they are read
    a request not complete in 20 s  408
    not HTTP at all                 400

A refusal closes the connection, but lingers: closing with unread bytes in the socket would reset it, and the
client would never see why. Checked here, once a second and by counting, so that a good request pays nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
from collections.abc import Callable
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_BYTES_MAX = 32 * 1024
BODY_BYTES_MAX = 14 * 1024 * 1024
REQUEST_S_MAX = 20.0
LINGER_S = 2.0
# A chunk's size line and line ends.
_FRAMING_BYTES = 16

OnRefusal = Callable[[int, str, str], None]


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `on_refusal(status, reason, text)` is told of every request that never reached the app."""

    on_refusal: OnRefusal

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Bytes of the request now being received, as far as they surely belong to it.
        self._received = 0
        self._chunk = 0
        self._announced = self._body_bytes = self._chunks = 0
        self._in_headers, self._has_host = True, False
        self.refused = False
        # When the request now being received began, and since when there is none; one of them is None.
        self._begun_at: float | None = self.loop.time()
        self._idle_since: float | None = None

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        size = len(data)
        # A request that begins in this chunk owns all of it, unless the chunk also ends an earlier one.
        self._chunk = size if self._begun_at is None or self._received == 0 else 0
        self._received += size
        super().data_received(data)
        if self._received > HEADER_BYTES_MAX and self._begun_at is not None:
            # Whatever is not body: headers, or a chunked body's extensions and trailers, less the framing it needs.
            overhead = self._received - self._body_bytes - self._chunks * _FRAMING_BYTES
            if overhead > (HEADER_BYTES_MAX if self._in_headers else 2 * HEADER_BYTES_MAX):
                self._refuse_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun_at = self.loop.time()
        self._idle_since = None
        self._received, self._chunk = self._chunk, 0
        self._announced = self._body_bytes = self._chunks = 0
        self._in_headers, self._has_host = True, False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-length":
            self._announced = int(value)
        elif name == b"host":
            self._has_host = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_chunk_header(self) -> None:
        self._chunks += 1

    def on_headers_complete(self) -> None:
        self._in_headers = False
        if self.refused:
            return
        if self._received > HEADER_BYTES_MAX and self._header_bytes() > HEADER_BYTES_MAX:
            self._refuse_headers()
        elif self._announced > BODY_BYTES_MAX:
            self._refuse_body()
        elif not self._has_host and self.parser.get_http_version() == "1.1":
            self.refuse(400, "malformed_http", "an HTTP/1.1 request needs a Host header")
        elif self.parser.should_upgrade() and self._has_body():
            # The parser stops at the headers of such a request: its body would be lost, or read as the next one.
            self.refuse(400, "malformed_http", "connections are not upgraded here: send this without Upgrade")
        else:
            self.begin_request()

    def begin_request(self) -> None:
        """The headers are complete and within bounds: start answering."""
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.refused:
            return
        self._body_bytes += len(body)
        if self._body_bytes > BODY_BYTES_MAX:
            self._refuse_body()
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._chunks and self._header_bytes() > HEADER_BYTES_MAX:
            self._refuse_headers()
        self._begun_at = None
        if not self.refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.pipeline:
            super().on_response_complete()
            return
        # Without a timer for each request: `close_if_overdue` looks at all connections once a second.
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._idle_since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        del msg
        self.refuse(400, "malformed_http", "this is not an HTTP request")

    def close_if_overdue(self, now: float) -> None:
        """Refuse a request that takes too long to arrive; close a connection nobody uses."""
        if self._begun_at is not None and now - self._begun_at > REQUEST_S_MAX:
            self.refuse(408, "request_timeout", f"the request was not complete after {REQUEST_S_MAX:g} s")
        elif self._idle_since is not None and now - self._idle_since > self.timeout_keep_alive:
            self.transport.close()

    def refuse_unfinished(self) -> None:
        """At the end: a request that is still arriving will not be waited for."""
        if self._begun_at is not None and self._received:
            self.refuse(503, "shutting_down", "the server is shutting down")

    def refuse(self, status: int, reason: str, text: str) -> None:
        if self.refused or self.transport.is_closing():
            return
        self.refused = True
        if self.cycle is not None and not self.cycle.response_complete:
            # Whoever waits for the rest of the body learns that there is none.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if not (self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete):
            self.transport.write(_response(status, reason, text))
        self.on_refusal(status, reason, text)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_S, self.transport.close)

    def _refuse_headers(self) -> None:
        self.refuse(431, "headers_too_large", f"the headers are over {HEADER_BYTES_MAX} bytes")

    def _refuse_body(self) -> None:
        self.refuse(413, "body_too_large", f"the body is over {BODY_BYTES_MAX} bytes")

    def _has_body(self) -> bool:
        return self._announced > 0 or any(name == b"transfer-encoding" for name, _ in self.headers)

    def _header_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)


async def watch_connections(connections: Callable[[], list[Any]]) -> None:
    """Once a second, look for requests that do not end and connections nobody uses."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1)
        now = loop.time()
        for connection in connections():
            if isinstance(connection, BoundedProtocol):
                with contextlib.suppress(OSError, RuntimeError):
                    # One broken connection must not end the watch over the others.
                    connection.close_if_overdue(now)


def _response(status: int, reason: str, text: str) -> bytes:
    outcome = "retry" if status == 503 else "poison"
    body = msgspec.json.encode(
        {"outcome": outcome, "reason": reason, "messageId": "", "topic": "", "views": [], "error": text}
    )
    phrase = http.HTTPStatus(status).phrase
    head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + body
