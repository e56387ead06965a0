"""http_client: against servers that answer in pieces, too much, too little, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from millpond import http_client
from millpond.core.errors import Unreachable
from millpond.http_client import Address, Client, ClosedEarly, NotHttp, ReplyTooLarge, TimedOut, connect, fetch

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[Address]:
    """A server that reads one request of each connection, answers, and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        closed.set()

    closed = asyncio.Event()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Address("http", "127.0.0.1", server.sockets[0].getsockname()[1], "/")
        await closed.wait()


def saying(*pieces: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.01)

    return answer


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (saying(b"SSH-2.0-OpenSSH\r\n"), NotHttp),
        (saying(), ClosedEarly),
        (saying(HEAD % 10, b"short"), ClosedEarly),
        (saying(HEAD % 2_000, b"x" * 2_000), ReplyTooLarge),
        (saying(b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 1_000), ReplyTooLarge),
        (saying(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 2_000), ReplyTooLarge),
    ],
    ids=["not HTTP", "nothing", "too little", "too much", "a long head", "no length, too much"],
)
async def test_an_answer_that_is_none(answer: Answer, error: type[OSError]) -> None:
    """Each has an error of its own; a head without end is bounded like a body."""
    async with answering(answer) as address:
        with pytest.raises(error):
            await fetch(address, timeout_s=5, reply_bytes_max=1_000)


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    """As HTTP/1.0 servers answer."""
    async with answering(saying(b"HTTP/1.0 200 OK\r\n\r\n", b"all ", b"of it")) as address:
        assert (await fetch(address, timeout_s=5)).body == b"all of it"


async def test_a_body_piece_by_piece_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is slower than the server makes it wait; nothing is lost."""
    monkeypatch.setattr(http_client, "_UNREAD_BYTES_MAX", 100_000)
    size = 20_000_000

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD % size + b"x" * size)

    async with answering(answer) as address:
        connection = await connect(address, None)
        await connection.begin(b"GET / HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.2)
        pieces = []
        while piece := await connection.receive():
            pieces.append(len(piece))
        connection.close()
    assert sum(pieces) == size
    assert max(pieces) < 1_000_000


async def test_what_the_command_line_is_told() -> None:
    """One error for all of them, in words; a timeout is told apart."""

    async def sleep(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.5)

    with pytest.raises(Unreachable, match="cannot reach http://localhost:9: nothing listens there"):
        await Client(Address.parse("http://localhost:9"), timeout_s=5).request("GET", "/")
    async with answering(sleep) as address:
        with pytest.raises(TimedOut, match=r"did not answer within 0.1 s"):
            await Client(address, timeout_s=0.1).request("GET", "/")
