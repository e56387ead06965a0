"""An export that cannot be finished: the client must not take what it has for the whole file."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from millpond.core.errors import Unavailable
from millpond.core.model import Put, Ref, Snapshot
from millpond.core.ports import StoreWithCatalog
from millpond.http.api import export
from millpond.http.app import build_app
from millpond.http.bodies import Bodies
from millpond.http.limits import BoundedProtocol
from millpond.stores.memory import MemoryStore
from tests.common.faulty_store import StoreAround
from tests.common.rig import Rig

DOCUMENTS = 350


class Failing(StoreAround):
    """A store that is away from its n-th listing on, and lists pages only while its gate is open."""

    fails_at: int | None = None
    listings = 0

    def __init__(self, inner: StoreWithCatalog) -> None:
        super().__init__(inner)
        self.gate = asyncio.Event()
        self.gate.set()

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        self.listings += 1
        if self.fails_at is not None and self.listings >= self.fails_at:
            raise Unavailable("the store is away")
        if limit > 1:
            await self.gate.wait()
        return await self.inner.list_documents(collection, limit, after)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[Failing, httpx.AsyncClient, Rig[Failing]]]:
    """Our own connections, and the application on a store that may fail."""
    store = Failing(MemoryStore())
    puts = [Put(Ref("jars", f"j{n:03d}"), None, {"n": n, "text": "x" * 2_000}) for n in range(DOCUMENTS)]
    await store.commit(puts)
    async with Rig(store) as rig:
        app: Any = build_app(rig.service, rig.endpoint)
        config = uvicorn.Config(app, interface="asgi3", log_config=None, access_log=False)
        config.load()
        loop = asyncio.get_running_loop()
        shared = {
            "on_refusal": staticmethod(lambda *_: None),
            "on_connected": staticmethod(lambda *_: None),
            "bodies": Bodies(2**20, loop.time),
        }
        protocol: Any = type("Protocol", (BoundedProtocol,), shared)
        state = ServerState()
        server = await loop.create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=10) as client:
            yield store, client, rig
        server.close()


@pytest.mark.parametrize(("kind", "listings"), [("json", 3), ("csv", 7)])
async def test_a_store_that_fails_half_way_breaks_the_connection(kind: str, listings: int) -> None:
    """Some of the file has arrived by then; HTTP has no other way to take it back."""
    async with serving() as (store, client, rig):
        store.fails_at = listings
        got = bytearray()

        async def read() -> None:
            async with client.stream("GET", f"/api/export/jars?format={kind}") as response:
                assert response.status_code == 200
                async for piece in response.aiter_bytes():
                    got.extend(piece)

        with pytest.raises(httpx.RemoteProtocolError):
            await read()
        assert len(got) > 64 * 1024
        rig.service.log.close()
        assert b"export_interrupted" in rig.output.getvalue()


async def test_a_store_that_is_away_from_the_start_is_answered_503() -> None:
    """As every other question to it."""
    async with serving() as (store, client, _):
        store.fails_at = 1
        response = await client.get("/api/export/jars")
        assert (response.status_code, response.json()["reason"]) == (503, "store_unavailable")


async def test_a_few_exports_run_at_once_and_no_more() -> None:
    """Each of them holds a page of documents; one that ended, or whose client left, makes room."""
    async with serving() as (store, client, _):
        store.gate.clear()
        async with contextlib.AsyncExitStack() as opened:
            for _ in range(export.EXPORTS_MAX):
                await opened.enter_async_context(client.stream("GET", "/api/export/jars"))
            refused = await client.get("/api/export/jars")
            assert (refused.status_code, refused.json()["reason"]) == (429, "too_many_streams")
        store.gate.set()
        statuses = [429]
        async with asyncio.timeout(5):
            while statuses[-1] == 429:
                statuses.append((await client.get("/api/export/jars")).status_code)
        assert statuses[-1] == 200
