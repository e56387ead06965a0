"""Streams on real connections: a client that stopped reading loses its connection, one that reads keeps it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from millpond.http.bodies import Bodies
from millpond.http.connections import watch_connections
from millpond.http.limits import UNREAD_S_MAX, BoundedProtocol
from millpond.http.streams import STREAMS_MAX, Streams

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Scene:
    """A server with nothing but a stream: of frames without end, or of one frame and then silence."""

    def __init__(self, *, silent: bool = False) -> None:
        self.streams = Streams(STREAMS_MAX)
        self.connections: list[Any] = []
        self.silent = silent

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        stream = self.streams.start(self.frames(), lambda: None)
        await stream(scope, receive, send)

    async def frames(self) -> AsyncGenerator[bytes, None]:
        yield b": hello\n\n"
        while not self.silent:
            yield b": more\n\n" * 1_000
            await asyncio.sleep(0)
        await asyncio.sleep(3_600)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        loop = asyncio.get_running_loop()
        config = uvicorn.Config(self.app, interface="asgi3", log_config=None, access_log=False)
        config.load()
        state = ServerState()
        shared = {
            "on_refusal": staticmethod(lambda *_: None),
            "on_connected": staticmethod(self.connections.append),
            "bodies": Bodies(2**20, loop.time),
        }
        protocol: Any = type("Protocol", (BoundedProtocol,), shared)
        server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    def is_unread(self) -> bool:
        return bool(self.connections) and self.connections[0].flow.unread_since is not None

    async def until(self, happened: Any) -> None:
        async with asyncio.timeout(5):
            while not happened():  # noqa: ASYNC110 - many things are waited for here
                await asyncio.sleep(0.01)


@contextlib.contextmanager
def client(port: int) -> Any:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", port))
        connection.sendall(REQUEST)
        connection.setblocking(False)
        yield connection


async def test_a_client_that_stopped_reading_is_cut_off() -> None:
    """After half a minute, not before; its stream ends, and its place is free."""
    scene = Scene()
    async with scene.serving() as port:
        with client(port):
            await scene.until(scene.is_unread)
            (connection,) = scene.connections
            since = connection.flow.unread_since
            connection.close_if_overdue(since + UNREAD_S_MAX - 0.1)
            await asyncio.sleep(0.05)
            assert scene.streams.open == 1
            connection.close_if_overdue(since + UNREAD_S_MAX + 0.1)
            await scene.until(lambda: scene.streams.open == 0)
            assert connection.transport.is_closing()


@pytest.mark.parametrize("silent", [True, False], ids=["a silent stream", "a client that is slow and reads"])
async def test_a_client_that_reads_is_left_alone(*, silent: bool) -> None:
    """However long nothing happens, and however often it was behind."""
    scene = Scene(silent=silent)
    async with scene.serving() as port:
        loop = asyncio.get_running_loop()
        with client(port) as reader:
            if not silent:
                await scene.until(scene.is_unread)
            scene.silent = True
            assert await loop.sock_recv(reader, 4_096)
            with contextlib.suppress(TimeoutError):
                while await asyncio.wait_for(loop.sock_recv(reader, 2**20), 0.3):
                    pass
            (connection,) = scene.connections
            connection.close_if_overdue(loop.time() + 2 * UNREAD_S_MAX)
            await asyncio.sleep(0.05)
            assert scene.streams.open == 1
            assert not connection.transport.is_closing()
            connection.transport.abort()
            await scene.until(lambda: scene.streams.open == 0)


async def test_somebody_looks_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millpond.http.limits.UNREAD_S_MAX", 0.05)
    scene = Scene()
    async with scene.serving() as port:
        watching = asyncio.create_task(watch_connections(lambda: scene.connections))
        with client(port):
            await scene.until(lambda: scene.streams.open == 1)
            await scene.until(lambda: scene.streams.open == 0)
        watching.cancel()
