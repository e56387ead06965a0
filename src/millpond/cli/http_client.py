"""A small HTTP/1.1 client over asyncio: keep-alive, one timeout for the whole exchange, nothing clever.

`load` and `ingest` need thousands of requests a second from one core, which a general client does not give; the
other commands use the same one. It follows no redirects and sends nothing it was not told to.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple, cast

import httptools

from millpond._version import __version__
from millpond.cli.address import Address
from millpond.cli.exits import Unreachable

REPLY_BYTES_MAX = 64 * 1024 * 1024


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class TimedOut(Unreachable):
    pass


class Client:
    """Connections to one server, as many as there are requests at once, kept open in between."""

    def __init__(self, address: Address, *, timeout_s: float, headers: Mapping[str, str] | None = None) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []
        self._tls = ssl.create_default_context() if address.scheme == "https" else None
        fixed = {"host": address.netloc, "user-agent": f"millpond/{__version__}", **(headers or {})}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in fixed.items()).encode("latin-1")

    async def request(self, method: str, path: str, body: bytes = b"") -> Reply:
        """Raises Unreachable; whether the server saw the request is then unknown."""
        message = b"%b %b HTTP/1.1\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            method.encode(),
            path.encode(),
            self._head,
            len(body),
            body,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._exchange(message)
        except TimeoutError:
            raise TimedOut(f"{self.address.base} did not answer within {self._timeout_s:g} s") from None
        except OSError as error:
            raise Unreachable(f"cannot reach {self.address.base}: {_words(error)}") from None

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _exchange(self, message: bytes) -> Reply:
        while True:
            reused = bool(self._idle)
            connection = self._idle.pop() if reused else await self._connect()
            try:
                reply = await connection.exchange(message)
            except BaseException as error:
                connection.close()
                # The server may close an idle connection at any moment; that says nothing about a new one.
                if reused and isinstance(error, ConnectionError):
                    continue
                raise
            if connection.usable:
                self._idle.append(connection)
            else:
                connection.close()
            return reply

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            _Connection, self.address.host, self.address.port, ssl=self._tls
        )
        return connection


class _Connection(asyncio.Protocol):
    """One connection, one request at a time. The `on_…` methods are the parser's callbacks."""

    def __init__(self) -> None:
        self.usable = False
        self._waiter: asyncio.Future[Reply] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0
        self._in_body = False

    async def exchange(self, message: bytes) -> Reply:
        if self._transport.is_closing():
            raise ConnectionResetError("closed while idle")
        self._waiter = asyncio.get_running_loop().create_future()
        self._headers, self._body, self._size, self._in_body = {}, [], 0, False
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(message)
        return await self._waiter

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes, so this cannot be asked.
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail(ConnectionError("it does not speak HTTP"))

    def connection_lost(self, exc: Exception | None) -> None:
        # An answer without a length ends with its connection.
        if exc is None and self._in_body and not {"content-length", "transfer-encoding"} & self._headers.keys():
            self.on_message_complete()
        self.usable = False
        self._fail(ConnectionResetError("it closed the connection without an answer"))

    def on_headers_complete(self) -> None:
        self._in_body = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > REPLY_BYTES_MAX:
            self._fail(ConnectionError("its answer is over 64 MiB"))
            self.close()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self.usable = self._parser.should_keep_alive()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(Reply(self._parser.get_status_code(), self._headers, b"".join(self._body)))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


def _words(error: OSError) -> str:
    """What went wrong, without Python's way of saying it."""
    text = str(error)
    if isinstance(error, ConnectionRefusedError) or "refused" in text or "Connect call failed" in text:
        return "nothing listens there; start it with `millpond serve`, or name it with --url"
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    return error.strerror or text or type(error).__name__
