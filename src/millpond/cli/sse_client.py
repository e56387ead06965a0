"""Server-sent events over HTTP/1.1, for as long as they come. Bounded: no line, and no event, without an end.

`wire` is for questions with an answer; this is for an answer that does not end.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import NamedTuple

import httptools

from millpond._version import __version__
from millpond.cli.address import Address
from millpond.cli.exits import Unreachable
from millpond.cli.http_client import Reply
from millpond.cli.server import answer_of

CONNECT_S = 10.0
# The server says something every 15 s, if only that it is there.
SILENCE_S_MAX = 60.0
LINE_BYTES_MAX = 1024 * 1024
EVENT_BYTES_MAX = 4 * 1024 * 1024
_READ_BYTES = 64 * 1024
# Of an answer that is no stream: enough for what went wrong.
_REFUSAL_BYTES_MAX = 64 * 1024


class ServerSentEvent(NamedTuple):
    """One event: its name, and its data as text."""

    event: str
    data: str


class Refused(Unreachable):
    """The server answered, but not with a stream."""

    def __init__(self, base: str, reply: Reply) -> None:
        super().__init__(f"{base} answered {reply.status}: {answer_of(reply).get('error')}")
        self.status = reply.status


class Gone(Unreachable):
    """The stream has ended, or broke: the server stopped, or cannot be reached any more."""


class EventParser:
    """Bytes in, whole events out. Lines end as the standard has it: CR LF, LF, or CR."""

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[str] = []
        self._bytes = 0
        self._after_return = False

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Raises Gone where a line or an event is longer than anything we would have been sent."""
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
                    raise Gone("the server sent an event over 4 MiB")
                self._data.append(value)

    def _lines(self, chunk: bytes) -> Iterator[str]:
        if self._after_return:
            # The line ended with the last chunk; its line feed is no line of its own.
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r") if chunk else self._after_return
        text = (self._rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._rest = text.split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX or any(len(line) > LINE_BYTES_MAX for line in lines):
            raise Gone("the server sent a line over 1 MiB")
        for line in lines:
            yield line.decode("utf-8", "replace")


class _Answer:
    """What the HTTP parser has taken apart so far; the `on_…` methods are its callbacks."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.headers: dict[str, str] = {}
        self.begun = self.ended = False
        self._body = bytearray()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.begun = True

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.ended = True

    def take(self) -> bytes:
        body, self._body = bytes(self._body), bytearray()
        return body

    @property
    def is_stream(self) -> bool:
        kind = self.headers.get("content-type", "").partition(";")[0].strip()
        return self.parser.get_status_code() == 200 and kind == "text/event-stream"


async def follow(
    address: Address, path: str, headers: Mapping[str, str]
) -> AsyncGenerator[ServerSentEvent | None, None]:
    """Events until the stream ends; first None, once the server has begun it.

    Raises Refused where the server answers otherwise, Gone where it ends or breaks, Unreachable where none is.
    """
    reader, writer = await _connect(address)
    try:
        fixed = {"host": address.netloc, "user-agent": f"millpond/{__version__}", "accept": "text/event-stream"}
        head = "".join(f"{name}: {value}\r\n" for name, value in {**fixed, **headers}.items())
        writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1"))
        answer, events = _Answer(), EventParser()
        async for _ in _received(reader, answer, address):
            if not answer.begun:
                continue
            if not answer.is_stream:
                raise Refused(address.base, await _whole(reader, answer, address))
            yield None
            break
        for message in events.feed(answer.take()):
            yield message
        async for _ in _received(reader, answer, address):
            for message in events.feed(answer.take()):
                yield message
        raise Gone(f"{address.base} has ended the stream")
    finally:
        writer.close()


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    tls = ssl.create_default_context() if address.scheme == "https" else None
    try:
        async with asyncio.timeout(CONNECT_S):
            return await asyncio.open_connection(address.host, address.port, ssl=tls)
    except TimeoutError:
        raise Unreachable(f"{address.base} did not answer within {CONNECT_S:g} s") from None
    except socket.gaierror:
        raise Unreachable(f"cannot reach {address.base}: there is no such host") from None
    except OSError:
        text = "nothing listens there; start it with `millpond serve`, or name it with --url"
        raise Unreachable(f"cannot reach {address.base}: {text}") from None


async def _received(reader: asyncio.StreamReader, answer: _Answer, address: Address) -> AsyncIterator[None]:
    """Once for each piece that arrived and was taken apart, until the answer ends."""
    while not answer.ended:
        try:
            async with asyncio.timeout(SILENCE_S_MAX):
                chunk = await reader.read(_READ_BYTES)
        except TimeoutError:
            raise Gone(f"{address.base} was silent for {SILENCE_S_MAX:g} s") from None
        except OSError:
            raise Gone(f"the connection to {address.base} broke") from None
        if not chunk:
            return
        try:
            answer.parser.feed_data(chunk)
        except httptools.HttpParserError:
            raise Gone(f"{address.base} does not speak HTTP") from None
        yield


async def _whole(reader: asyncio.StreamReader, answer: _Answer, address: Address) -> Reply:
    body = answer.take()
    with contextlib.suppress(Gone):
        async for _ in _received(reader, answer, address):
            body += answer.take()
            if len(body) > _REFUSAL_BYTES_MAX:
                break
    return Reply(answer.parser.get_status_code(), answer.headers, body)
