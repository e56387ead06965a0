"""Worker processes that end in the middle: at the N-th await point, whatever they had in hand.

Everything a worker runs in tasks is driven step by step. From its N-th step on none of it is resumed any more: no
`finally`, no `except`, no callback, as when the process is killed. Or it is held there until it is let go: a
process that was frozen, and wakes up not knowing that the world went on.
"""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")
# What was killed is kept: Python would run its `finally` blocks when it is thrown away.
_graves: list[Any] = []


class Life:
    """One worker process. It stops before its step number `stops_at`; never, where that is None."""

    def __init__(self, stops_at: int | None = None) -> None:
        self.steps = 0
        # Where the worker stood when it was stopped, innermost function first.
        self.place: tuple[str, ...] = ()
        self.stopped = asyncio.Event()
        self._stops_at = stops_at
        self._may_go_on = asyncio.Event()
        self._buried = False

    def task(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run it, and every task it starts, as part of this life."""
        loop = asyncio.get_running_loop()
        loop.set_task_factory(_make_task)
        context = contextvars.copy_context()
        context.run(_LIFE.set, self)
        return loop.create_task(coroutine, context=context)

    def thaw(self) -> None:
        """Let a process that was frozen go on."""
        self._stops_at = None
        self._may_go_on.set()

    def bury(self) -> None:
        """The test is over: what stands still may be cancelled when the event loop is closed."""
        self._buried = True

    async def take_step(self, place: tuple[str, ...]) -> BaseException | None:
        """Go on, or stand still. What was to reach the process meanwhile, such as a timeout, reaches it then."""
        self.steps += 1
        if not self.stopped.is_set():
            self.place = place
        missed: BaseException | None = None
        while self._stops_at is not None and self.steps >= self._stops_at:
            self.stopped.set()
            if self._buried:
                raise asyncio.CancelledError
            try:
                await self._may_go_on.wait()
            except asyncio.CancelledError as cancelled:
                missed = cancelled
        return missed


_LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    context = options.get("context")
    life = context.get(_LIFE) if context is not None else _LIFE.get()
    if life is None:
        return asyncio.Task(coroutine, loop=loop, **options)
    task = asyncio.Task(_live(coroutine, life), loop=loop, **options)
    _graves.append((coroutine, task))
    return task


async def _live(coroutine: Coroutine[Any, Any, T], life: Life) -> T:
    return await _drive(coroutine, life)


@types.coroutine
def _drive(coroutine: Coroutine[Any, Any, T], life: Life) -> Generator[Any, Any, T]:
    sent: Any = None
    thrown: BaseException | None = None
    while True:
        missed = yield from life.take_step(_place(coroutine)).__await__()
        thrown = thrown or missed
        try:
            awaited = coroutine.send(sent) if thrown is None else coroutine.throw(thrown)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        sent = thrown = None
        try:
            sent = yield awaited
        except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine
            thrown = error


def _place(coroutine: Any) -> tuple[str, ...]:
    """The names of the functions that wait for each other, innermost first."""
    names = []
    while coroutine is not None and hasattr(coroutine, "cr_code"):
        names.append(
            coroutine.cr_code.co_qualname if hasattr(coroutine.cr_code, "co_qualname") else coroutine.__name__
        )
        coroutine = coroutine.cr_await
    return tuple(reversed(names))
