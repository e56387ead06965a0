"""Millpond's own server with one part replaced, so that everything else is identical.

python -m benchmarks.servers empty       a Starlette route whose handler reads the body and answers a fixed 200
python -m benchmarks.servers bare        the same without any framework: an ASGI callable for every path there is
python -m benchmarks.servers counting    the store counts the writes of each document into BENCH_COUNTS
python -m benchmarks.servers slow        every commit takes SLOW_COMMIT_S longer
"""

from __future__ import annotations

import asyncio
import collections
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from millpond import settings as millpond_settings
from millpond.core.model import Committed, Conflict, LogEntry, Write
from millpond.core.ports import StoreWithCatalog
from millpond.http import server
from millpond.http.app import App
from millpond.ingress.push import PushEndpoint, Receive, Scope, Send
from millpond.service.service import Service
from millpond.service.stores import open_store
from millpond.settings import Settings
from tests.common.faulty_store import StoreAround

COUNTS_VARIABLE = "BENCH_COUNTS"
SLOW_COMMIT_S = 0.05
# Not the push path, which is answered before the application is called.
EMPTY_PATH = "/empty"
# As long as a real answer; a check compares the sizes.
EMPTY_ANSWER = (
    b'{"outcome":"applied","reason":"applied","messageId":"0000000000000","topic":"system.events","views":[{"view":'
    b'"ops_services","doc":"ops_services/dev__svc-00","outcome":"applied","reason":"applied"}]}'
)


class SlowStore(StoreAround):
    """A slow disk or network."""

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        await asyncio.sleep(SLOW_COMMIT_S)
        return await self.inner.commit(writes, log)


class CountingStore(StoreAround):
    """Counts every write that it applies."""

    def __init__(self, inner: StoreWithCatalog, counts: Path) -> None:
        super().__init__(inner)
        self._counts = counts
        self._written: collections.Counter[str] = collections.Counter()

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        committed = await self.inner.commit(writes, log)
        if isinstance(committed, Committed):
            self._written.update(write.ref.path for write in writes)
        return committed

    async def close(self) -> None:
        await self.inner.close()
        self._counts.write_bytes(msgspec.json.encode(self._written))


def _open_counting_store(settings: Settings) -> StoreWithCatalog:
    return CountingStore(open_store(settings), Path(os.environ[COUNTS_VARIABLE]))


def _open_slow_store(settings: Settings) -> StoreWithCatalog:
    return SlowStore(open_store(settings))


def _build_empty_handler(_: Service, __: PushEndpoint) -> App:
    async def endpoint(request: Request) -> Response:
        await request.body()
        return Response(EMPTY_ANSWER, media_type="application/json")

    return Starlette(routes=[Route(EMPTY_PATH, endpoint, methods=["POST"]), Route("/ready", endpoint)])


def _build_bare_callable(_: Service, __: PushEndpoint) -> App:
    start = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(EMPTY_ANSWER))],
    }
    body = {"type": "http.response.body", "body": EMPTY_ANSWER}

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        more = True
        while more:
            message = await receive()
            more = message.get("more_body", False)
        await send(start)
        await send(body)

    return app


def main(variant: str) -> None:
    settings = millpond_settings.load()
    if variant == "counting":
        server.serve(settings, open_store=_open_counting_store)
    elif variant == "slow":
        server.serve(settings, open_store=_open_slow_store)
    else:
        server.serve(settings, build_app={"empty": _build_empty_handler, "bare": _build_bare_callable}[variant])


if __name__ == "__main__":
    main(sys.argv[1])
