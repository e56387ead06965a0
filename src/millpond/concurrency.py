"""Helpers for asyncio: a limit on concurrent calls, a rate limit, backoff, and blocking calls in daemon threads.

It knows nothing of Millpond; every package may use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def run_all(call: Callable[[T], Awaitable[R]], items: Iterable[T], at_once: int) -> list[R | BaseException]:
    """Call `call` with every item, at most `at_once` at a time. Returns results and exceptions in their order."""
    slots = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with slots:
            return await call(item)

    return await asyncio.gather(*map(one, items), return_exceptions=True)


def raise_first(results: list[Any]) -> None:
    """Raise the first exception that `run_all` returned, if there is one, and empty the list.

    The exception's traceback refers to the frame that holds the list. With the exception in the list that would be
    a reference cycle, which keeps the items in memory.
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
    """A rate limit: allows `most` calls in each second, and counts the others."""

    def __init__(self, most: int, clock: Callable[[], float] | None = None) -> None:
        self.skipped = 0
        self._most = most
        self._clock = clock or time.monotonic
        self._second = self._passed = 0

    def allow(self) -> bool:
        """Whether another call is allowed in this second. Counts it as passed or skipped."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._passed = second, 0
        if self._passed >= self._most:
            self.skipped += 1
            return False
        self._passed += 1
        return True

    def take_skipped(self) -> int:
        """The number of calls skipped since the last call of this method."""
        skipped, self.skipped = self.skipped, 0
        return skipped


def doubled_s(first_s: float, times: int, max_s: float) -> float:
    """A pause that doubles with each failure, up to `max_s`."""
    return min(first_s * 2.0 ** min(times, 60), max_s)


class Pauses(NamedTuple):
    """The pause before the next try: doubled each time up to `max_s`, then shortened by up to a half at random."""

    first_s: float
    max_s: float

    def pause_s(self, times: int, jitter: random.Random) -> float:
        return doubled_s(self.first_s, times, self.max_s) * jitter.uniform(0.5, 1.0)


class Alarm:
    """Calls a function once, at the earliest of the times that it was set to.

    It keeps the time itself: uvloop's handle of a call within the next millisecond does not know it.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._handle: asyncio.Handle | None = None
        self._at = math.inf

    def set(self, at: float) -> None:
        if at < self._at:
            if self._handle is not None:
                self._handle.cancel()
            self._at, self._handle = at, asyncio.get_running_loop().call_at(at, self._due)

    def _due(self) -> None:
        self._at, self._handle = math.inf, None
        self._ring()


async def in_thread(function: Callable[[], T]) -> T:
    """Run `function` in a new thread. Returns or raises what it does.

    The thread is a daemon, unlike those of `asyncio.to_thread`: a call that hangs must not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    threading.Thread(target=_work, args=(function, loop, outcome), daemon=True, name="millpond-work").start()
    try:
        return await outcome
    finally:
        # It holds the exception, whose traceback refers to this frame.
        del outcome


def _work(function: Callable[[], T], loop: asyncio.AbstractEventLoop, outcome: asyncio.Future[T]) -> None:
    value: T | None = None
    error: BaseException | None = None
    try:
        value = function()
    except (StopIteration, SystemExit, KeyboardInterrupt) as raised:
        # A future cannot hold StopIteration, and the others would end the event loop.
        error = RuntimeError(f"{type(raised).__name__} in a thread")
        error.__cause__ = raised
    except BaseException as raised:  # noqa: BLE001 - it is raised in the caller
        error = raised
    with contextlib.suppress(RuntimeError):
        # If the loop is closed, no caller waits.
        loop.call_soon_threadsafe(_settle, outcome, value, error)
    # The traceback refers to this frame.
    del error, outcome


def _settle(outcome: asyncio.Future[T], value: T | None, error: BaseException | None) -> None:
    if outcome.done():
        return
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(value)  # type: ignore[arg-type]
