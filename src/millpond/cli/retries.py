"""Sends a command's request again while the server is full, restarts or waits for its store. For `backend`.

Also the pace of messages to a server whose store is not known.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from millpond.core.errors import Unreachable
from millpond.engine.bulk_rate import EXHAUSTED, FIRST_RATE
from millpond.engine.pace import Pace, Wording
from millpond.http_client import Reply

PATIENCE_S = 60.0
# Long enough for a restart; a server that does not come back within it has ended.
RECONNECT_S = 3.0
_PAUSE_FIRST_S = 0.1
_PAUSE_MAX_S = 5.0
_RETRY_AFTER_MAX_S = 30.0
# A bug in a view: the server asks for a retry because a deploy may fix it, but waiting a minute does not.
_HOPELESS = frozenset({"view_error"})


async def patiently(ask: Callable[[], Awaitable[Reply]], pace: Pace | None = None) -> Reply:
    """The first final reply, or the last one after PATIENCE_S. Raises Unreachable.

    429 and 503 are retried, with the pause that the server asks for. Each reply is reported to the pace.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    pause_s = _PAUSE_FIRST_S
    while True:
        waited_s = loop.time() - started
        asked_for_s, asked_at = 0.0, loop.time()
        try:
            reply = await ask()
        except Unreachable:
            if waited_s >= RECONNECT_S:
                raise
        else:
            transient = reply.status in {429, 503} and reply.answer.get("reason") not in _HOPELESS
            if pace is not None:
                pace.committed(1, loop.time() - asked_at, EXHAUSTED if transient else None)
            if not transient or waited_s >= PATIENCE_S:
                return reply
            asked_for_s = _retry_after_s(reply)
        # Jitter, so that requests refused together are not sent again together.
        await asyncio.sleep(max(asked_for_s, pause_s) * random.uniform(1.0, 1.5))  # noqa: S311
        pause_s = min(pause_s * 2, _PAUSE_MAX_S)


def server_pace() -> Pace:
    """For a server whose store may be Firestore: a message is two writes there, about."""
    return Pace(first=FIRST_RATE / 2, wording=Wording("messages", "the server is full", "answers take longer"))


def _retry_after_s(reply: Reply) -> float:
    text = reply.headers.get("retry-after", "")
    return min(float(text), _RETRY_AFTER_MAX_S) if text.isascii() and text.isdigit() else 0.0
