"""A real asyncio event loop on which waiting takes no time: its clock jumps to the next timer.

Calls in threads, such as those of SQLite, take no time of this clock either. The simulation's loop
(`millpond.sim.virtual_time`) has no threads, and a random order.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _WarpedSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.in_threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or (timeout > 0 and self.in_threads):
            return super().select(1.0)
        self.now += max(timeout, 0.0)
        return super().select(0)


class WarpedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._warped = _WarpedSelector()
        super().__init__(self._warped)

    def time(self) -> float:
        return self._warped.now

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self._warped.in_threads += 1
        future.add_done_callback(self._left_thread)
        return future

    def _left_thread(self, _: object) -> None:
        self._warped.in_threads -= 1


def run_warped(story: Coroutine[Any, Any, T]) -> T:
    """What the story returns."""
    with asyncio.Runner(loop_factory=WarpedLoop) as runner:
        return runner.run(story)
