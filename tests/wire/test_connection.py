"""The connection itself: Firestore was away for a while, or the way to it swallows everything without a word."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from millpond.core.errors import Unavailable
from millpond.core.model import Ref
from millpond.stores.firestore.store import FirestoreStore
from tests.common.emulators import free_port

OUTAGE_S = 10.0
CALL_S = 0.5
# An instance that could work, and does not, turns away every message that is sent to it.
FOUND_AGAIN_S = 3.0
_REF = Ref("ponds", "a")


class Line:
    """The way to the emulator, on a port that stays the same: down, up, or swallowing all that is on it."""

    def __init__(self, emulator: str) -> None:
        self._host, _, self._port = emulator.rpartition(":")
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()
        # Connections made until now: they stay open, and nothing comes through.
        self._swallowed: set[asyncio.Task[None]] = set()

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    def swallow(self) -> None:
        self._swallowed = set(self._running)

    async def down(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._relay(reader, writer))
        self._running.add(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(self._host, int(self._port))
        task = asyncio.current_task()

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while some := await source.read(65_536):
                if task not in self._swallowed:
                    target.write(some)

        try:
            with contextlib.suppress(ConnectionError):
                await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
        finally:
            writer.close()
            inner_writer.close()


async def until_read(store: FirestoreStore, limit_s: float) -> float:
    """Read again and again, as messages that are redelivered would have it; after how many seconds it worked."""
    began = time.monotonic()
    while time.monotonic() - began < limit_s:
        with contextlib.suppress(Unavailable):
            await store.read([_REF])
            return time.monotonic() - began
        await asyncio.sleep(0.1)
    return limit_s


@asynccontextmanager
async def store_on_line(emulator: str, project: str) -> AsyncIterator[tuple[FirestoreStore, Line]]:
    line = Line(emulator)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FIRESTORE_EMULATOR_HOST", line.address)
        store = FirestoreStore(project=project, deadline_s=CALL_S)
    try:
        yield store, line
    finally:
        await store.close()
        await line.down()


def test_an_instance_finds_firestore_again_soon(firestore_emulator: str, project: str) -> None:
    """After an outage, however long gRPC would like to wait before it connects again."""

    async def scenario() -> None:
        async with store_on_line(firestore_emulator, project) as (store, line):
            assert await until_read(store, OUTAGE_S) == OUTAGE_S
            await line.up()
            assert await until_read(store, 2 * FOUND_AGAIN_S) < FOUND_AGAIN_S

    asyncio.run(scenario())


def test_a_connection_that_died_without_a_word_is_given_up(firestore_emulator: str, project: str) -> None:
    """A router forgot it: calls on it never end, while a new connection would work at once."""

    async def scenario() -> None:
        async with store_on_line(firestore_emulator, project) as (store, line):
            await line.up()
            assert await until_read(store, 20) < 20
            line.swallow()
            assert await until_read(store, 2 * FOUND_AGAIN_S) < FOUND_AGAIN_S

    asyncio.run(scenario())
