"""Answers in pieces: server-sent events, which run for as long as the client reads and the server runs, and files.

Their number is limited, and each sends only as fast as its client reads. A stream ends as soon as its client
disconnects. If a client stops reading, the connection is closed, as any other is (`limits`). If making a piece
fails, the connection is closed without the end of the answer. Used by `api.live` and `api.export`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping

from starlette.responses import Response

from millpond.http.access import RequestFault
from millpond.ingress.push import Receive, Scope, Send

STREAMS_MAX = 64
RETRY_AFTER_S = 10
MEDIA_TYPE = "text/event-stream"
# nginx, and proxies built on it, would otherwise buffer frames.
_EVENTS = {"content-type": MEDIA_TYPE, "x-accel-buffering": "no"}


class Streams:
    """Counts and limits the open streams of one kind."""

    def __init__(self, limit: int) -> None:
        self.open = 0
        self._limit = limit

    def check_room(self) -> None:
        """Refuse the request if there are too many streams already."""
        if self.open >= self._limit:
            text = f"{self._limit} streams are open: close one, or come again later"
            raise RequestFault(429, "too_many_streams", text, {"retry-after": str(RETRY_AFTER_S)})

    def start(
        self, frames: AsyncGenerator[bytes, None], close: Callable[[], None], headers: Mapping[str, str] = _EVENTS
    ) -> StreamedAnswer:
        """Answer with `frames`; `close` is called when the stream ends, for any reason."""
        self.open += 1

        def closed() -> None:
            self.open -= 1
            close()

        return StreamedAnswer(frames, closed, headers)


class StreamedAnswer(Response):
    def __init__(
        self, frames: AsyncGenerator[bytes, None], closed: Callable[[], None], headers: Mapping[str, str]
    ) -> None:
        self._frames = frames
        self._closed = closed
        self.status_code = 200
        self.background = None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send_all(send, has_body=scope["method"] != "HEAD"))
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._frames.aclose()
            self._closed()

    async def _send_all(self, send: Send, *, has_body: bool) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if has_body:
            async for content in self._frames:
                # Returns when the connection can take more.
                await send({"type": "http.response.body", "body": content, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
