"""Limits on the cost of a connection: uvicorn's HTTP protocol, with limits that it does not have.

    headers over 32 KiB             431
    bodies over 14 MiB              413, before they are read
    a request not complete in 20 s  408
    an answer not read in 30 s      closed
    over 32 requests pipelined      400
    thousands of tiny chunks        400
    no room for its body            429, after a short wait in which it is not read (bodies.py)
    too many connections            503 for a slow one (connections.py)
    not HTTP at all                 400

A refusal closes the connection after a delay: closing with unread bytes in the socket would reset it, and the
client would not see the answer. Limits are checked by counting and once a second, never by a timer per request.
uvicorn calls this, as the protocol that `server` configures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from millpond.core.errors import Overloaded
from millpond.http.bodies import BODY_BYTES_MAX, REQUEST_S_MAX, SMALL_BYTES_MAX, Bodies, Claim, release_claim
from millpond.http.flow_control import HeldFlow
from millpond.http.refusal import refusal_bytes, write_and_linger

HEADER_BYTES_MAX = 32 * 1024
UNREAD_S_MAX = 30.0
PIPELINED_MAX = 32
TINY_CHUNKS_MAX, TINY_CHUNK_BYTES = 4_096, 16
# A request that takes longer to arrive may be closed for another, if there are too many connections.
SLOW_S = 1.0
# A chunk's size line and line ends.
_FRAMING_BYTES = 16

OnRefusal = Callable[[int, str, str], None]


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `on_refusal(status, reason, text)` is called for every request that never reached the app.

    `on_connected` is called with the connection itself, and may refuse it.
    """

    on_refusal: OnRefusal
    on_connected: Callable[[BoundedProtocol], None]
    bodies: Bodies
    flow: HeldFlow
    # uvicorn's own cycle, or the push path's.
    cycle: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Bytes of the request being received, as far as they certainly belong to it.
        self._received = 0
        self._chunk = 0
        self._announced = self._body_bytes = self._chunks = 0
        self._in_headers, self._has_host, self._is_chunked, self._is_begun = True, False, False, False
        # The budget claim of the body being received; None if the request has no body.
        self.claim: Claim | None = None
        self.refused = False
        # A refusal that is not written yet: answers to earlier requests come first.
        self._last_answer = b""
        # When the request being received began, and since when there is none; one of them is None.
        self._begun_at: float | None = self.loop.time()
        self._idle_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = HeldFlow(transport)
        self.on_connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._begun_at is not None and self.claim is not None:
            self.claim.release()
        super().connection_lost(exc)
        for cycle, _ in self.pipeline:
            release_claim(cycle)
        # Each refers to this connection. Without this, only the cyclic garbage collector would free them.
        self.pipeline.clear()
        self.cycle = None

    def data_received(self, data: bytes) -> None:
        if self.refused:
            return
        size = len(data)
        # A request that begins in this chunk has all of it counted, unless the chunk also ends an earlier one.
        self._chunk = size if self._begun_at is None or self.headers is None else 0
        self._received += size
        super().data_received(data)
        if self._received > HEADER_BYTES_MAX and self._begun_at is not None:
            # All bytes except the body: headers, or a chunked body's extensions and trailers, minus normal framing.
            overhead = self._received - self._body_bytes - self._chunks * _FRAMING_BYTES
            if overhead > (HEADER_BYTES_MAX if self._in_headers else 2 * HEADER_BYTES_MAX):
                self._refuse_headers()
        if self._chunks > TINY_CHUNKS_MAX and self._body_bytes < TINY_CHUNK_BYTES * self._chunks:
            # Each chunk costs several calls: a body of tiny chunks would block the event loop for seconds.
            self.refuse(
                400, "malformed_http", f"over {TINY_CHUNKS_MAX} chunks of less than {TINY_CHUNK_BYTES} bytes"
            )
        if self._begun_at is not None and self.claim is not None:
            self.claim.wait_if_crowded()
            if self.claim.exceeds_everything:
                self._refuse_crowded()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun_at = self.loop.time()
        self._idle_since = None
        self._received, self._chunk = self._chunk, 0
        self._announced = self._body_bytes = self._chunks = 0
        self._in_headers, self._has_host, self._is_chunked, self._is_begun = True, False, False, False
        # The claim of the earlier request belongs to its cycle.
        self.claim = None

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"content-length":
            self._announced = int(value)
        elif name == b"host":
            self._has_host = True
        elif name == b"transfer-encoding":
            self._is_chunked = True
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
        elif len(self.pipeline) >= PIPELINED_MAX:
            # Each costs memory, and one read of the socket may return thousands.
            self.refuse(400, "malformed_http", f"over {PIPELINED_MAX} requests without waiting for an answer")
        elif self.parser.should_upgrade() and self._has_body():
            # The parser stops after the headers of such a request: its body would be lost, or parsed as a request.
            self.refuse(400, "malformed_http", "connections are not upgraded here: send this without Upgrade")
        else:
            if self._has_body():
                self.claim = Claim(self.bodies, self)
            self._is_begun, self._idle_since = True, None
            self.begin_request()

    def begin_request(self) -> None:
        """The headers are complete and within the limits: start answering."""
        super().on_headers_complete()
        if self.claim is not None:
            self.cycle.claim = self.claim
            self.claim.announce(self._announced)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """As uvicorn's; also releases the body's claim when the application has finished the request."""
        task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        task.add_done_callback(partial(release_claim, cycle))

    def on_body(self, body: bytes) -> None:
        if self.refused:
            return
        self._body_bytes += len(body)
        if self._body_bytes > BODY_BYTES_MAX:
            self._refuse_body()
        elif not self.cycle.response_complete:
            # Bytes that arrive after the answer are dropped.
            if self.claim is not None:
                self.claim.add(len(body))
                if self._is_chunked and self.claim.small > SMALL_BYTES_MAX:
                    # Its length is not known.
                    self.claim.announce(BODY_BYTES_MAX)
            self.take_body(body)

    def take_body(self, body: bytes) -> None:
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._chunks and self._header_bytes() > HEADER_BYTES_MAX:
            self._refuse_headers()
        self._begun_at = None
        if self._answer_began() and self.cycle.response_complete:
            self._idle_since = self.loop.time()
        if not self.refused:
            self.end_body()

    def end_body(self) -> None:
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.flow.unread_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.flow.unread_since = None

    def hold_reading(self) -> None:
        self.flow.hold()

    def go_on_reading(self) -> None:
        self.flow.let_go()

    def on_response_complete(self) -> None:
        if self.pipeline:
            super().on_response_complete()
            return
        if self.refused:
            is_owed = self._last_answer and not self.transport.is_closing()
            (self.linger if is_owed else self.transport.close)()
            return
        # No timer for each request: `close_if_overdue` checks all connections once a second.
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        if self._begun_at is None:
            self._idle_since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        del msg
        self.refuse(400, "malformed_http", "this is not an HTTP request")

    def close_if_overdue(self, now: float) -> None:
        """Refuse a request that takes too long to arrive; close a connection that has been idle for too long."""
        if self._begun_at is not None and now - self._begun_at > REQUEST_S_MAX:
            self.refuse(408, "request_timeout", f"the request was not complete after {REQUEST_S_MAX:g} s")
        elif self._begun_at is not None and self.claim is not None and self.claim.is_overdue(now):
            self._refuse_crowded()
        elif self.flow.unread_since is not None and now - self.flow.unread_since > UNREAD_S_MAX:
            self.transport.abort()
        elif self._idle_since is not None and now - self._idle_since > self.timeout_keep_alive:
            self.transport.close()

    def useless_s(self, now: float) -> tuple[int, float] | None:
        """How dispensable this connection is if there are too many: a rank, and for how many seconds already.

        None if it is busy: a request is being answered, or began to arrive less than SLOW_S ago.
        """
        if self.transport.is_closing():
            return None
        if self.refused:
            return 2, 0.0
        if self.flow.unread_since is not None:
            unread_s = now - self.flow.unread_since
            return (1, unread_s) if unread_s > SLOW_S else None
        if self._begun_at is not None and not self._earlier_is_pending():
            arriving_s = now - self._begun_at
            return (1, arriving_s) if arriving_s > SLOW_S else None
        if self._idle_since is not None:
            return 0, now - self._idle_since
        return None

    def make_way(self, text: str) -> None:
        """Close now, for another connection."""
        if self._begun_at is not None and not (self.refused or self._answer_began() or self._earlier_is_pending()):
            self.transport.write(refusal_bytes(503, reason="too_many_connections", text=text))
        self.refused = True
        self._abandon_request()
        self.end_at_once()

    def end_at_once(self) -> None:
        """Close without waiting for the client to read what was written."""
        (self.transport.close if self.flow.unread_since is None else self.transport.abort)()

    def refuse_unfinished(self) -> None:
        """At shutdown: the server does not wait for a request that is still arriving."""
        if self._begun_at is not None and self._received:
            self.refuse(503, "shutting_down", "the server is shutting down")

    def refuse(self, status: int, reason: str, text: str) -> None:
        if self.refused or self.transport.is_closing():
            return
        self.refused = True
        self.on_refusal(status, reason, text)
        waits = self._earlier_is_pending()
        if not self._answer_began():
            self._last_answer = refusal_bytes(status, reason=reason, text=text)
        self._abandon_request()
        if waits:
            # Answers are sent in the order of requests: this refusal is written after those of earlier requests.
            self.flow.let_go_of_all()
        else:
            self.linger()

    def linger(self) -> None:
        """Close after a delay, dropping bytes that still arrive, so that the client can read the answer."""
        self.refused = True
        answer, self._last_answer = self._last_answer, b""
        write_and_linger(self.transport, answer, self.loop)
        self.flow.let_go_of_all()

    def _answer_began(self) -> bool:
        """Whether the answer to the request being received has begun, although its body is not complete."""
        has_its_turn = self._is_begun and not self.pipeline and self.cycle is not None
        return has_its_turn and bool(self.cycle.response_started)

    def _earlier_is_pending(self) -> bool:
        """Whether a request before the one being received has no complete answer yet."""
        if self._is_begun:
            return bool(self.pipeline)
        return self.cycle is not None and not self.cycle.response_complete

    def _abandon_request(self) -> None:
        """The request being received will never be complete."""
        if self.claim is not None:
            self.claim.release()
        if not self._is_begun:
            return
        if self.pipeline:
            # The newest of the pipelined requests.
            self.pipeline.popleft()
        elif self.cycle is not None and not self.cycle.response_complete:
            # The application waits for the rest of the body: wake it with a disconnect.
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _refuse_crowded(self) -> None:
        self.refuse(429, Overloaded.reason, f"other request bodies fill HTTP_BODIES_MIB: {self.bodies.held} bytes")

    def _refuse_headers(self) -> None:
        self.refuse(431, "headers_too_large", f"the headers are over {HEADER_BYTES_MAX} bytes")

    def _refuse_body(self) -> None:
        self.refuse(413, "body_too_large", f"the body is over {BODY_BYTES_MAX} bytes")

    def _has_body(self) -> bool:
        return self._announced > 0 or self._is_chunked

    def _header_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
