"""Many calls at the same time, or in a second, but not too many; and calls that block, in threads of their own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def run_all(call: Callable[[T], Awaitable[R]], items: Iterable[T], at_once: int) -> list[R | BaseException]:
    """`call` for every item, at most `at_once` at a time; what each returned or raised, in their order."""
    slots = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with slots:
            return await call(item)

    return await asyncio.gather(*map(one, items), return_exceptions=True)


def raise_first(results: list[Any]) -> None:
    """Raise the first error among what `run_all` returned, if there is one; the list is emptied then.

    The error's traceback leads to the frame that holds the list. With the error in it that would be a cycle, which
    keeps whatever was being worked on.
    """
    error = next((result for result in results if isinstance(result, BaseException)), None)
    if error is None:
        return
    results.clear()
    try:
        raise error
    finally:
        del error


class PerSecond:
    """Lets so many pass in each second, and counts those it does not."""

    def __init__(self, most: int, clock: Callable[[], float] | None = None) -> None:
        self.skipped = 0
        self._most = most
        self._clock = clock or time.monotonic
        self._second = self._passed = 0

    def allow(self) -> bool:
        """Whether this second has room for another; it is counted as passed or skipped."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._passed = second, 0
        if self._passed >= self._most:
            self.skipped += 1
            return False
        self._passed += 1
        return True

    def take_skipped(self) -> int:
        """How many were skipped since this was last asked."""
        skipped, self.skipped = self.skipped, 0
        return skipped


def doubled_s(first_s: float, times: int, max_s: float) -> float:
    """A pause that doubles with each failure, up to `max_s`, however many there were."""
    return min(first_s * 2.0 ** min(times, 60), max_s)


async def in_thread(function: Callable[[], T]) -> T:
    """What `function` returns or raises, from a thread of its own.

    A daemon, unlike the threads of `asyncio.to_thread`: work that hangs must not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    threading.Thread(target=_work, args=(function, loop, outcome), daemon=True, name="millpond-work").start()
    try:
        return await outcome
    finally:
        # It holds the error, whose traceback leads to this frame.
        del outcome


def _work(function: Callable[[], T], loop: asyncio.AbstractEventLoop, outcome: asyncio.Future[T]) -> None:
    value: T | None = None
    error: BaseException | None = None
    try:
        value = function()
    except (StopIteration, SystemExit, KeyboardInterrupt) as raised:
        # No future may hold the first, and the others would end the event loop.
        error = RuntimeError(f"{type(raised).__name__} in a thread")
        error.__cause__ = raised
    except BaseException as raised:  # noqa: BLE001 - whatever it is belongs to whoever asked
        error = raised
    with contextlib.suppress(RuntimeError):
        # Nobody waits any more where the loop is closed.
        loop.call_soon_threadsafe(_settle, outcome, value, error)
    # Its traceback leads to this frame.
    del error, outcome


def _settle(outcome: asyncio.Future[T], value: T | None, error: BaseException | None) -> None:
    if outcome.done():
        return
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(value)  # type: ignore[arg-type]
