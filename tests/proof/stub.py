"""A server that answers as it is told, right or wrong, for tests of the checks of servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self

from millpond.http.openapi import description
from millpond.stores.sqlite.connection import open_writer
from tests.acceptance.test_access import ROUTES


class Said(NamedTuple):
    """What the stub answers: None for a status closes the connection without a word, 0 never answers."""

    status: int | None
    body: Any
    headers: str = ""


def refusal(path: str, **changes: Any) -> dict[str, Any]:
    """What Millpond says to a request that makes no sense."""
    if path != "/pubsub/push":
        return {"reason": "malformed_event", "error": "no", **changes}
    told = {"outcome": "poison", "reason": "malformed_envelope", "messageId": "", "topic": "", "views": []}
    return {**told, "error": "no", **changes}


Behave = Callable[["Stub", str], Said]


class Stub:
    """A `Target` in a thread: one request per connection, one line of log for each about a message."""

    def __init__(self, folder: Path, behave: Behave) -> None:
        self.store = folder / "stub.db"
        self._writer = open_writer(self.store)
        self.output: list[str] = []
        self.requests = 0
        self._behave = behave
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**24)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(5)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
        self._writer.close()

    def openapi(self) -> Any:
        return json.loads(json.dumps(description(ROUTES)))

    def is_alive(self) -> bool:
        return True

    def write(self) -> None:
        """Change the store, as a server that rejects must not."""
        self._writer.execute("UPDATE last_version SET n = n + 1")

    def note(self, **line: Any) -> None:
        self.output.append(json.dumps(line))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"chunked" in head:
            await reader.readuntil(b"0\r\n\r\n")
        elif b"content-length: " in head:
            await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
        self.requests += 1
        path = head.split()[1].decode().partition("?")[0]
        said = self._behave(self, path)
        if said.status == 0:
            await asyncio.sleep(60)
        if said.status is not None:
            body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
            start = (
                f"HTTP/1.1 {said.status} x\r\ncontent-type: application/json\r\nconnection: close\r\n{said.headers}"
            )
            writer.write(f"{start}content-length: {len(body)}\r\n\r\n".encode() + body)


def honest(stub: Stub, path: str) -> Said:
    """Rejects everything, as it should, and says so in its log."""
    body = refusal(path)
    if "messageId" in body:
        stub.note(write_kind="none", messageId="", http_status=400, reason=body["reason"])
    return Said(400, body)
