"""The frames that wait for one reader, as server-sent events. Filled by the monitor, emptied by `http`.

Bounded in bytes: a slow reader loses frames, or its stream, and never delays the engine.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from typing import Any

import msgspec

MAILBOX_BYTES_MAX = 256 * 1024
KEEP_ALIVE = b":\n\n"
_encode = msgspec.json.Encoder().encode


def frame(event: str, content: Any) -> bytes:
    """One server-sent event. JSON has no raw line breaks, so `content` cannot end it early."""
    text = _encode(content)
    if not text.isascii():
        # U+2028 and U+2029 are legal in JSON, and some readers take them as line breaks.
        text = json.dumps(json.loads(text), separators=(",", ":")).encode()
    return b"event: %s\ndata: %s\n\n" % (event.encode(), text)


class Mailbox:
    def __init__(self, bytes_max: int = MAILBOX_BYTES_MAX) -> None:
        self.ended = False
        self._frames: deque[bytes] = deque()
        self._bytes = 0
        self._bytes_max = bytes_max
        self._more = asyncio.Event()

    def put(self, content: bytes) -> bool:
        """Add a frame; False if there is no room."""
        if self._bytes + len(content) > self._bytes_max:
            return False
        self._frames.append(content)
        self._bytes += len(content)
        self._more.set()
        return True

    def end(self) -> None:
        """End the stream: waiting frames are dropped, and `take` returns None."""
        self.ended = True
        self._frames.clear()
        self._more.set()

    async def take(self, timeout_s: float) -> bytes | None:
        """All waiting frames; empty after `timeout_s` without one; None after `end`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._more.wait()
        except TimeoutError:
            return b""
        if self.ended:
            return None
        taken = b"".join(self._frames)
        self._frames.clear()
        self._bytes = 0
        self._more.clear()
        return taken
