"""The simulated event loop: virtual time, a seeded order, processes that die or stand still."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from millpond.sim.virtual_time import WORLD, Process, Stuck, VirtualLoop


@pytest.fixture
def errors() -> list[BaseException | str]:
    return []


@pytest.fixture
def loop(errors: list[BaseException | str]) -> Iterator[VirtualLoop]:
    made = VirtualLoop(1, errors.append)  # type: ignore[abstract]
    yield made
    made.close()


def _in(process: Process, loop: VirtualLoop, work: object) -> asyncio.Task[None]:
    return loop.create_task(work, context=process.context())  # type: ignore[arg-type]


def test_an_hour_takes_no_time(loop: VirtualLoop) -> None:
    async def wait() -> float:
        await asyncio.sleep(3_600)
        return loop.time()

    task = loop.create_task(wait())
    loop.run_until(task.done, time_max=4_000)

    assert task.result() == 3_600


def test_a_dead_process_is_never_resumed_and_its_finally_never_reached(loop: VirtualLoop) -> None:
    reached: list[str] = []
    process = Process()

    async def work() -> None:
        try:
            reached.append("begun")
            await asyncio.sleep(1)
            reached.append("resumed")
        finally:
            reached.append("finally")

    _in(process, loop, work())
    loop.call_at(0.5, process.kill, context=WORLD)
    over: list[bool] = []
    loop.call_at(10, over.append, True, context=WORLD)
    loop.run_until(lambda: bool(over), time_max=20)

    assert reached == ["begun"]


def test_a_process_dies_at_the_callback_it_was_given(loop: VirtualLoop) -> None:
    reached: list[int] = []
    process = Process()
    process.steps_left = 4

    async def work() -> None:
        for step in range(10):
            reached.append(step)
            await asyncio.sleep(0)

    _in(process, loop, work())
    with pytest.raises(Stuck, match="nothing is left to run"):
        loop.run_until(lambda: False, time_max=20)

    assert (reached, process.alive) == ([0, 1, 2], False)


def test_a_frozen_process_goes_on_later_and_has_missed_nothing(loop: VirtualLoop) -> None:
    process = Process()

    async def work() -> float:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.sleep(100)
        return loop.time()

    task: asyncio.Task[Any] = _in(process, loop, work())
    process.frozen_until = 30.0
    loop.run_until(task.done, time_max=200)

    assert task.result() == 31.0


def test_the_order_of_what_is_ready_comes_from_the_seed() -> None:
    def order(seed: int) -> list[int]:
        loop = VirtualLoop(seed, lambda _: None)  # type: ignore[abstract]
        ran: list[int] = []
        for number in range(20):
            loop.call_soon(ran.append, number, context=WORLD)
        loop.run_until(lambda: len(ran) == 20, time_max=1)
        return ran

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(2)) == list(range(20))


def test_what_nobody_caught_in_the_background_is_told(loop: VirtualLoop, errors: list[BaseException | str]) -> None:
    def fail() -> None:
        raise AssertionError("in the background")

    loop.call_soon(fail, context=WORLD)
    loop.run_until(lambda: bool(errors), time_max=1)

    assert [str(error) for error in errors] == ["in the background"]


def test_what_does_not_happen_in_time_is_told(loop: VirtualLoop) -> None:
    loop.call_at(100, lambda: None, context=WORLD)
    with pytest.raises(Stuck, match="not over after 50 s"):
        loop.run_until(lambda: False, time_max=50)
