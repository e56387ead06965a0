"""Wait until something happens, and fail with its name if it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 30.0


def eventually(happens: Callable[[], Any], patience_s: float = PATIENCE_S, what: str = "it did not happen") -> Any:
    """What `happens` returns, once it is true."""
    until = time.monotonic() + patience_s
    while not (value := happens()):
        assert time.monotonic() < until, f"{what} within {patience_s} s"
        time.sleep(0.05)
    return value


async def until(happens: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """The same on an event loop."""
    async with asyncio.timeout(patience_s):
        while not happens():  # noqa: ASYNC110 - there is no event for what is waited for
            await asyncio.sleep(0.005)
