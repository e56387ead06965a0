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
import http
from collections.abc import Callable
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_BYTES_MAX = 32 * 1024
BODY_BYTES_MAX = 14 * 1024 * 1024
REQUEST_S_MAX = 20.0
LINGER_S = 2.0

OnRefusal = Callable[[int, str, str], None]


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `on_refusal(status, reason, text)` is told of every request that never reached the app."""

    on_refusal: OnRefusal

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_bytes = 0
        self._body_bytes = 0
        self._refused = False
        self._in_headers = True
        # When the request now being received began; None between requests.
        self._begun_at: float | None = self.loop.time()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self.cycle is None or self.cycle.response_complete:
            # Until the headers are complete nothing else counts their bytes.
            self._header_bytes += len(data)
        super().data_received(data)
        if self._begun_at is not None and self._in_headers and self._header_bytes > HEADER_BYTES_MAX:
            self._refuse_headers()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun_at = self.loop.time()
        self._header_bytes = self._body_bytes = 0
        self._in_headers = True

    def on_url(self, url: bytes) -> None:
        self._header_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        if self._refused:
            return
        if self._header_bytes > HEADER_BYTES_MAX:
            self._refuse_headers()
        elif self._announced_bytes() > BODY_BYTES_MAX:
            self._refuse_body()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._refused:
            return
        self._body_bytes += len(body)
        if self._body_bytes > BODY_BYTES_MAX:
            self._refuse_body()
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._begun_at = None
        if not self._refused:
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, "malformed_http", msg)

    def refuse_if_slow(self, now: float) -> None:
        begun = self._begun_at
        if begun is not None and now - begun > REQUEST_S_MAX and not self._refused:
            self.refuse(408, "request_timeout", f"the request was not complete after {REQUEST_S_MAX:g} s")

    def refuse(self, status: int, reason: str, text: str) -> None:
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
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

    def _announced_bytes(self) -> int:
        for name, value in self.headers:
            if name == b"content-length":
                return int(value)
        return 0


async def watch_slow_requests(connections: Callable[[], list[Any]]) -> None:
    """Once a second, refuse what has been arriving for too long."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1)
        now = loop.time()
        for connection in connections():
            if isinstance(connection, BoundedProtocol):
                connection.refuse_if_slow(now)


def _response(status: int, reason: str, text: str) -> bytes:
    body = msgspec.json.encode(
        {"outcome": "poison", "reason": reason, "messageId": "", "topic": "", "views": [], "error": text}
    )
    phrase = http.HTTPStatus(status).phrase
    head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + body
