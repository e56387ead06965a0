"""An asyncio event loop on virtual time: the next callback is drawn from a seed, and processes can die.

It has no sockets, threads or real clock. Time stands still while a callback is ready, then jumps to the next timer.
The next callback is drawn at random from those that are ready, so code that relies on an accidental order fails.
A callback belongs to the process in whose context it was created. Callbacks of a dead process never run: its tasks
stop in the middle, without running a `finally`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Process:
    """A simulated process: its callbacks die together."""

    __slots__ = ("alive", "frozen_until", "on_death", "steps_left")

    def __init__(self) -> None:
        self.alive = True
        # The process dies after this many more callbacks; None means never.
        self.steps_left: int | None = None
        # Until then its callbacks do not run, as if its machine were paused.
        self.frozen_until = 0.0
        self.on_death: Callable[[], None] = lambda: None

    def kill(self) -> None:
        if self.alive:
            self.alive = False
            self.on_death()

    def context(self) -> contextvars.Context:
        """A context for callbacks and tasks of this process."""
        context = contextvars.copy_context()
        context.run(_PROCESS.set, self)
        return context


# For callbacks of no process: they live as long as the world.
_PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
WORLD = contextvars.Context()


class Stuck(Exception):
    """Nothing is left to run, or time is up, and the awaited condition is false."""


class VirtualLoop(asyncio.AbstractEventLoop):
    def __init__(self, seed: object, on_error: Callable[[BaseException | str], None]) -> None:
        self._random = random.Random(f"{seed}/loop").random  # noqa: S311 - repeatable on purpose
        self._on_error = on_error
        self._now = 0.0
        self._made = 0
        self._ready: list[tuple[Process | None, asyncio.Handle]] = []
        self._timers: list[tuple[float, int, Process | None, asyncio.Handle]] = []
        # Kept to the end: garbage collection of a dead process's task would run its `finally`.
        self._tasks: list[asyncio.Task[Any]] = []
        self.steps = 0

    def run_until(self, done: Callable[[], bool], time_max: float) -> None:
        """Run until `done()`. Raises Stuck if that is not before `time_max`."""
        # A test that is a coroutine may run a world: its own loop is the running one again afterwards.
        outer = asyncio._get_running_loop()  # noqa: SLF001 - documented as meant for implementers of event loops
        asyncio._set_running_loop(self)  # noqa: SLF001 - as above
        try:
            while not done():
                if not self._ready:
                    self._advance(time_max)
                self._run_one()
        finally:
            asyncio._set_running_loop(outer)  # noqa: SLF001 - as above

    def _run_one(self) -> None:
        ready = self._ready
        index = int(self._random() * len(ready))
        chosen, ready[index] = ready[index], ready[-1]
        ready.pop()
        process, handle = chosen
        if handle.cancelled() or (process is not None and not process.alive):
            return
        self.steps += 1
        if process is not None and process.frozen_until > self._now:
            self._made += 1
            heapq.heappush(self._timers, (process.frozen_until, self._made, process, handle))
            return
        if process is not None and process.steps_left is not None:
            process.steps_left -= 1
            if process.steps_left <= 0:
                process.kill()
                return
        handle._run()  # noqa: SLF001 - the way an event loop runs a handle

    def _advance(self, time_max: float) -> None:
        timers = self._timers
        while timers and not self._ready:
            when = timers[0][0]
            if when > time_max:
                raise Stuck(f"it is not over after {time_max:g} s of simulated time")
            self._now = max(self._now, when)
            while timers and timers[0][0] <= when:
                _, _, process, handle = heapq.heappop(timers)
                if not handle.cancelled() and (process is None or process.alive):
                    self._ready.append((process, handle))
        if not self._ready:
            raise Stuck("nothing is left to run")

    def time(self) -> float:
        return self._now

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((context.get(_PROCESS), handle))
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._made += 1
        heapq.heappush(self._timers, (when, self._made, context.get(_PROCESS), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, T], **options: Any) -> asyncio.Task[T]:  # type: ignore[override]
        task = asyncio.Task(coro, loop=self, **options)
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Any uncaught error, in a callback, a task or a report of the product, fails the run."""
        self._on_error(context.get("exception") or context["message"])

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Required by `TimerHandle.cancel`. A cancelled timer is skipped when it is due."""

    def close(self) -> None:
        """Drop everything. Tasks of dead processes are unwound only now, when they can change nothing."""
        self._ready.clear()
        self._timers.clear()
        self._on_error = lambda _: None
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it is meant to be pending
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
        self._tasks.clear()
