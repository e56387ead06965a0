"""Patience with a server that says "not now": 429 and 503 are tried again, at the pace it asks for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from millpond.cli.exits import Unreachable
from millpond.cli.http_client import Reply
from millpond.cli.server import answer_of

PATIENCE_S = 60.0
# A restart takes a moment; a server that is gone stays gone.
RECONNECT_S = 3.0
_PAUSE_FIRST_S = 0.1
_PAUSE_MAX_S = 5.0
_RETRY_AFTER_MAX_S = 30.0
# A view's own bug: the server asks for it again because a deploy may heal it, which no minute of waiting does.
_HOPELESS = frozenset({"view_error"})


async def patiently(ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """The first reply that is final, or the last one when patience ends. Raises Unreachable."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    pause_s = _PAUSE_FIRST_S
    while True:
        waited_s = loop.time() - started
        asked_for_s = 0.0
        try:
            reply = await ask()
        except Unreachable:
            if waited_s >= RECONNECT_S:
                raise
        else:
            transient = reply.status in {429, 503} and answer_of(reply).get("reason") not in _HOPELESS
            if not transient or waited_s >= PATIENCE_S:
                return reply
            asked_for_s = _retry_after_s(reply)
        # Spread, so that those turned away together do not come back together.
        await asyncio.sleep(max(asked_for_s, pause_s) * random.uniform(1.0, 1.5))  # noqa: S311
        pause_s = min(pause_s * 2, _PAUSE_MAX_S)


def _retry_after_s(reply: Reply) -> float:
    text = reply.headers.get("retry-after", "")
    return min(float(text), _RETRY_AFTER_MAX_S) if text.isascii() and text.isdigit() else 0.0
