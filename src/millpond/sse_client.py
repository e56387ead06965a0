"""The client of server-sent events, on a connection of `http_client`. Called by `millpond tail`.

Lines, events and refusals are bounded, so a server cannot make it use unlimited memory.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import NamedTuple

from millpond.core.errors import Unreachable
from millpond.http_client import (
    Address,
    ClosedEarly,
    HttpConnection,
    NotHttp,
    Reply,
    connect,
    request_head,
    tls_of,
    unreachable,
)

CONNECT_S = 10.0
# The server sends a comment every 15 s if it has nothing else to send.
SILENCE_S_MAX = 60.0
LINE_BYTES_MAX = 1024 * 1024
EVENT_BYTES_MAX = 4 * 1024 * 1024
# The limit of an answer that is not a stream: enough for an error text.
_REFUSAL_BYTES_MAX = 64 * 1024


class ServerSentEvent(NamedTuple):
    """One event: its name, and its data as text."""

    event: str
    data: str


class StreamRefused(Unreachable):
    """The server answered, but not with a stream."""

    def __init__(self, base: str, reply: Reply) -> None:
        super().__init__(f"{base} answered {reply.status}: {reply.answer.get('error')}")
        self.base = base
        self.status = reply.status


class StreamEnded(Unreachable):
    """The stream ended or broke: the server stopped, or is unreachable."""


class EventParser:
    """Parses bytes into events. Lines end with CR LF, LF or CR, as in the standard."""

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[str] = []
        self._bytes = 0
        self._after_return = False

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Raises StreamEnded if a line or an event exceeds its limit."""
        for line in self._lines(chunk):
            if not line:
                if self._data:
                    yield ServerSentEvent(self._event or "message", "\n".join(self._data))
                self._event, self._data, self._bytes = "", [], 0
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._event = value
            elif name == "data":
                self._bytes += len(value)
                if self._bytes > EVENT_BYTES_MAX:
                    raise StreamEnded("the server sent an event over 4 MiB")
                self._data.append(value)

    def _lines(self, chunk: bytes) -> Iterator[str]:
        if self._after_return:
            # The last chunk ended with CR: a line feed now belongs to that line.
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r") if chunk else self._after_return
        text = (self._rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = text.split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX or any(len(line) > LINE_BYTES_MAX for line in lines):
            raise StreamEnded("the server sent a line over 1 MiB")
        for line in lines:
            yield line.decode("utf-8", "replace")


async def follow(
    address: Address, path: str, headers: Mapping[str, str]
) -> AsyncGenerator[ServerSentEvent | None, None]:
    """Yields None once the stream has begun, then its events.

    Raises StreamRefused if the server answers without a stream, StreamEnded if the stream ends or breaks,
    Unreachable if there is no server.
    """
    try:
        async with asyncio.timeout(CONNECT_S):
            connection = await connect(address, tls_of(address))
    except OSError as error:
        raise unreachable(address, error, CONNECT_S) from None
    try:
        head = request_head("GET", address, path, {"accept": "text/event-stream", **headers})
        async with _translated(address):
            await connection.begin(head)
        if not _is_stream(connection):
            body = await _refusal(connection, address)
            raise StreamRefused(address.base, Reply(connection.status, connection.headers, body))
        yield None
        events = EventParser()
        async for chunk in _received(connection, address):
            for message in events.feed(chunk):
                yield message
        raise StreamEnded(f"{address.base} has ended the stream")
    finally:
        connection.close()


def _is_stream(connection: HttpConnection) -> bool:
    kind = connection.headers.get("content-type", "").partition(";")[0].strip()
    return connection.status == 200 and kind == "text/event-stream"


async def _received(connection: HttpConnection, address: Address) -> AsyncIterator[bytes]:
    while True:
        async with _translated(address):
            chunk = await connection.receive()
        if not chunk:
            return
        yield chunk


async def _refusal(connection: HttpConnection, address: Address) -> bytes:
    body = b""
    with contextlib.suppress(StreamEnded):
        async for chunk in _received(connection, address):
            body += chunk
            if len(body) > _REFUSAL_BYTES_MAX:
                break
    return body


@contextlib.asynccontextmanager
async def _translated(address: Address) -> AsyncIterator[None]:
    """Limits one wait for the server, and raises its failures as StreamEnded."""
    try:
        async with asyncio.timeout(SILENCE_S_MAX):
            yield
    except ClosedEarly:
        raise StreamEnded(f"{address.base} has ended the stream") from None
    except NotHttp:
        raise StreamEnded(f"{address.base} does not speak HTTP") from None
    except TimeoutError:
        raise StreamEnded(f"{address.base} was silent for {SILENCE_S_MAX:g} s") from None
    except OSError:
        raise StreamEnded(f"the connection to {address.base} broke") from None
