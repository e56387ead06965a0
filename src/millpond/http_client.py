"""The HTTP/1.1 client of the CLI, the doctor, and the check of push tokens, which fetches keys.

`Client` keeps connections open and sends thousands of requests a second from one core, for `millpond load` and
`ingest`. `fetch` is one GET on a new connection. Both limit the time of the whole exchange and the size of the
answer, and verify TLS. They never follow redirects and never use proxies.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import httptools
import msgspec

from millpond._version import __version__
from millpond.core.errors import Unreachable

REPLY_BYTES_MAX = 64 * 1024 * 1024
# For bodies that are streamed: above this, reading from the socket pauses until the caller has received them.
_UNREAD_BYTES_MAX = 1024 * 1024
_PORTS = {"http": 80, "https": 443}
_ERRNO = re.compile(r"\[Errno (\d+)\]")


class Address(NamedTuple):
    """A parsed URL."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises ValueError with what is wrong."""
        wanted = "must be a URL such as http://127.0.0.1:8080"
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise ValueError(wanted) from None
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
            raise ValueError(wanted)
        if not path.isascii() or not path.isprintable() or " " in path:
            raise ValueError(f"{wanted}, with its path percent-encoded")
        return cls(parts.scheme, parts.hostname, port or _PORTS[parts.scheme], path)

    @property
    def base(self) -> str:
        return f"{self.scheme}://{self.netloc}"

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def answer(self) -> dict[str, Any]:
        """The body as a JSON object; if it is not one, an object of the API's form that says so."""
        try:
            answer = msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            answer = None
        if isinstance(answer, dict):
            return answer
        return {"reason": f"http_{self.status}", "error": f"the server answered {self.status} without JSON"}


class TimedOut(Unreachable):
    pass


class NotHttp(OSError):
    """The server's answer is not HTTP."""


class ReplyTooLarge(OSError):
    """The answer exceeds its limit."""


class ClosedEarly(ConnectionResetError):
    """The connection ended before the answer did."""


class Client:
    """Connections to one server: one for each concurrent request, kept open for later ones."""

    def __init__(self, address: Address, *, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._idle: list[HttpConnection] = []
        self._tls = tls_of(address)

    async def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Raises Unreachable; whether the server saw the request is then unknown."""
        described = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
        head = request_head(method, self.address, path, described)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._exchange(head + body)
        except OSError as error:
            raise unreachable(self.address, error, self._timeout_s) from None

    def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _exchange(self, message: bytes) -> Reply:
        while True:
            reused = bool(self._idle)
            connection = self._idle.pop() if reused else await connect(self.address, self._tls)
            try:
                reply = await connection.exchange(message)
            except BaseException as error:
                connection.close()
                # The server may close an idle connection at any moment: try again, in the end on a new one.
                if reused and isinstance(error, ConnectionError):
                    continue
                raise
            if connection.usable:
                self._idle.append(connection)
            else:
                connection.close()
            return reply


async def fetch(
    address: Address,
    *,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
    reply_bytes_max: int = REPLY_BYTES_MAX,
) -> Reply:
    """One GET. Raises OSError: TimeoutError, NotHttp, ReplyTooLarge, ClosedEarly, or the network's own."""
    headers = {"accept": "application/json", "connection": "close"}
    head = request_head("GET", address, address.path or "/", headers)
    try:
        async with asyncio.timeout(timeout_s):
            connection = await connect(address, tls or tls_of(address), reply_bytes_max)
            try:
                return await connection.exchange(head)
            finally:
                connection.abort()
    except TimeoutError:
        raise TimeoutError("timed out") from None


def tls_of(address: Address) -> ssl.SSLContext | None:
    return ssl.create_default_context() if address.scheme == "https" else None


async def connect(
    address: Address, tls: ssl.SSLContext | None, reply_bytes_max: int = REPLY_BYTES_MAX
) -> HttpConnection:
    """Raises OSError."""
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(
            lambda: HttpConnection(reply_bytes_max), address.host, address.port, ssl=tls
        )
    except (ssl.SSLError, socket.gaierror):
        raise
    except OSError as error:
        # asyncio has its own texts for failures, and one combined text for several addresses.
        numbers = _ERRNO.findall(str(error))
        if not numbers:
            raise
        raise OSError(int(numbers[-1]), os.strerror(int(numbers[-1]))) from None
    return connection


def request_head(method: str, address: Address, path: str, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    fixed = f"host: {address.netloc}\r\nuser-agent: millpond/{__version__}\r\n"
    return f"{method} {path} HTTP/1.1\r\n{fixed}{lines}\r\n".encode("latin-1")


def unreachable(address: Address, error: OSError, timeout_s: float) -> Unreachable:
    """The error with a text for the users of commands."""
    if isinstance(error, TimeoutError):
        return TimedOut(f"{address.base} did not answer within {timeout_s:g} s")
    if isinstance(error, ConnectionRefusedError):
        why = "nothing listens there; start it with `millpond serve`, or name it with --url"
    elif isinstance(error, socket.gaierror):
        why = "there is no such host"
    else:
        why = error.strerror or str(error) or type(error).__name__
    return Unreachable(f"cannot reach {address.base}: {why}")


class HttpConnection(asyncio.Protocol):
    """One connection, one request at a time. The `on_…` methods are the parser's callbacks.

    `exchange` returns the whole answer. `begin` returns its head, and `receive` the body piece by piece.
    """

    def __init__(self, reply_bytes_max: int) -> None:
        self.usable = False
        self.headers: dict[str, str] = {}
        self._reply_bytes_max = reply_bytes_max
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        # Set if no answer, or no more of it, will come.
        self._error: OSError | None = None
        self._body: list[bytes] = []
        self._unread = 0
        self._in_body = self._ended = self._streams = False

    @property
    def status(self) -> int:
        return self._parser.get_status_code()

    async def exchange(self, message: bytes) -> Reply:
        self._send(message, streams=False)
        await self._wait()
        return Reply(self.status, self.headers, b"".join(self._body))

    async def begin(self, message: bytes) -> None:
        """Send the request; returns once `status` and `headers` are known."""
        self._send(message, streams=True)
        while not self._in_body:
            await self._wait()

    async def receive(self) -> bytes:
        """The part of the body that has arrived since the last call; empty at its end."""
        while not self._body and not self._ended:
            await self._wait()
        body = b"".join(self._body)
        self._body.clear()
        if self._unread > _UNREAD_BYTES_MAX:
            self._transport.resume_reading()
        self._unread = 0
        return body

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        """Close at once, without waiting for the server."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because uvloop's transports are not instances of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in {socket.AF_INET, socket.AF_INET6}:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        if self._unread > self._reply_bytes_max and not self._streams:
            self._fail(ReplyTooLarge(f"its answer is over {self._reply_bytes_max / 1024**2:g} MiB"))
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._fail(NotHttp("it does not speak HTTP"))
        if self._streams:
            if self._unread > _UNREAD_BYTES_MAX:
                self._transport.pause_reading()
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        # An answer without a length ends with its connection.
        if exc is None and self._in_body and not {"content-length", "transfer-encoding"} & self.headers.keys():
            self.on_message_complete()
        self.usable = False
        kind = ClosedEarly if exc is None else ConnectionResetError
        self._fail(kind("it closed the connection without an answer"))

    def on_headers_complete(self) -> None:
        self._in_body = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self.usable = self._parser.should_keep_alive()
        self._ended = True
        self._wake()

    def _send(self, message: bytes, *, streams: bool) -> None:
        if self._transport.is_closing():
            raise ClosedEarly("closed while idle")
        self._parser = httptools.HttpResponseParser(self)
        self.headers, self._body, self._unread, self._error = {}, [], 0, None
        self._in_body, self._ended, self._streams = False, False, streams
        self._transport.write(message)

    async def _wait(self) -> None:
        """Wait until more of the answer has arrived. Raises the error of the connection."""
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: OSError) -> None:
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
