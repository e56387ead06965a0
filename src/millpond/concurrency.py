"""Many calls at the same time, but not too many: all of them end, and whoever asked sees every error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def run_all(call: Callable[[T], Awaitable[R]], items: Iterable[T], at_once: int) -> list[R | BaseException]:
    """`call` for every item, at most `at_once` at a time; what each returned or raised, in their order."""
    slots = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with slots:
            return await call(item)

    return await asyncio.gather(*map(one, items), return_exceptions=True)
