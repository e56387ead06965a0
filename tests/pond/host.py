"""The application of docs/embedding.md under uvicorn, as a process; and a proxy that removes a part of the path."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.common.process import ROOT, Process, free_port
from tests.common.server import ANSWER_S

EXAMPLES = ("fastapi_app.py", "parcels.py")
MOUNT = "/millpond"
# Headers of one connection, which a proxy does not pass on.
_HOP = {"connection", "transfer-encoding", "content-length", "host"}


class ExampleHost(Process):
    """`uvicorn fastapi_app:app` in a folder with copies of the example's files. Its store is there, too."""

    def __init__(self, folder: Path, *options: str) -> None:
        for name in EXAMPLES:
            shutil.copy(ROOT / "examples" / name, folder / name)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=self.url, timeout=ANSWER_S, trust_env=False)
        command = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--port", str(self.port), *options]
        super().__init__(command, folder)

    def wait_until_ready(self) -> None:
        self.wait_for(lambda line: "Uvicorn running" in line)

    def _close(self) -> None:
        super()._close()
        self.http.close()


@contextlib.contextmanager
def stripping_proxy(upstream: str, prefix: str) -> Iterator[str]:
    """A proxy in a thread: what is asked for below `prefix` is asked for upstream without it. Its URL."""

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, Any]]:
        async with httpx.AsyncClient(timeout=None, trust_env=False) as client:  # noqa: S113 - streams have no end
            yield {"client": client}

    async def forward(request: Request) -> StreamingResponse:
        client: httpx.AsyncClient = request.state.client
        path = request.scope["raw_path"].decode()[len(prefix) :]
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        sent = client.build_request(
            request.method,
            httpx.URL(f"{upstream}{path}", query=request.scope["query_string"]),
            headers={**headers, "host": request.headers["host"]},
            content=await request.body(),
        )
        answer = await client.send(sent, stream=True)

        async def content() -> AsyncIterator[bytes]:
            try:
                async for part in answer.aiter_raw():
                    yield part
            finally:
                await answer.aclose()

        kept = {name: value for name, value in answer.headers.items() if name not in _HOP}
        return StreamingResponse(content(), answer.status_code, kept)

    methods = ["GET", "POST", "DELETE"]
    app = Starlette(routes=[Route(prefix + "/{path:path}", forward, methods=methods)], lifespan=lifespan)
    port = free_port()
    config = uvicorn.Config(app, port=port, log_config=None, timeout_graceful_shutdown=1, loop="asyncio")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}{prefix}"
    finally:
        server.should_exit = True
        thread.join()
