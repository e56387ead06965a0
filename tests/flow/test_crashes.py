"""A worker that ends, or freezes, at each of its await points: one finalise, and no step is left behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from millpond.flow.results import FlowOutcome
from millpond.flow.step import StepContext
from tests.common.pond import SECOND
from tests.common.stores import Run
from tests.flow.bench import FlowBench, WatchedStore, flow_run, step
from tests.flow.lives import Life

# Short enough that the lease is renewed while the step works.
LEASE_S = 0.12
WORK_S = 0.06
# Functions in which a worker must have been stopped, or the enumeration does not see what it is for.
CLAIM, RENEWAL, FINALISE = "FlowWorker._claim", "Assignment._renew", "Assignment._finalise"


class Office:
    """Workers on one store, one clock for all of them, and how often the work was done."""

    def __init__(self, store: WatchedStore) -> None:
        self.store = store
        self.worked: Counter[str] = Counter()
        self.clock = FlowBench(store)

    def worker(self) -> FlowBench:
        bench = FlowBench(self.store, {"CHART_EXPORT": self._work}, FLOW_LEASE_S=str(LEASE_S))
        bench.now = self.clock.now
        return bench

    async def _work(self, context: StepContext) -> None:
        self.worked[context.run_id] += 1
        await asyncio.sleep(WORK_S)

    async def finish(self, run_id: str, point: int) -> None:
        """After a crash the lease ends, and one of the three things happens that take the step up again."""
        self.clock.now += SECOND
        worker = self.worker()
        if point % 3 == 0:
            # The event was not acknowledged: it comes again, and shows the run as it was.
            await worker.send(run_id, flow_run(chart=step()))
        elif point % 3 == 1:
            # Another writer changes the run, and that event shows the run as it is.
            await worker.send_current(run_id)
        else:
            await worker.flow.sweep()
            await worker.send_current(run_id)


async def stop_at(office: Office, point: int, run_id: str) -> tuple[Life, asyncio.Task[Any]]:
    """A worker gets the event and is stopped before its step number `point`, or ends before that."""
    await office.clock.put(run_id, flow_run(chart=step()))
    life = Life(point)
    first = life.task(office.worker().send_current(run_id))
    stopped = asyncio.ensure_future(life.stopped.wait())
    await asyncio.wait({first, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    return life, first


def enumerate_points(run: Run, office: Office, check: Any) -> list[tuple[str, ...]]:
    """Stop at every await point, finish, `check(life, task, run_id)`; where the worker stood at each."""
    places: list[tuple[str, ...]] = []
    for point in range(1, 500):
        run_id = f"run-{point}"

        async def one(point: int = point, run_id: str = run_id) -> Life | None:
            life, first = await stop_at(office, point, run_id)
            if not life.stopped.is_set():
                return None
            try:
                await office.finish(run_id, point)
                await check(life, first, run_id)
            finally:
                life.bury()
            return life

        life = run(one())
        if life is None:
            return places
        places.append(life.place)
    raise AssertionError("the worker never ended by itself")


def assert_all_seen(places: list[tuple[str, ...]]) -> None:
    """The enumeration found await points, and those that matter."""
    assert len(places) > 15, places
    for wanted in (CLAIM, RENEWAL, FINALISE):
        assert any(wanted in name for place in places for name in place), f"no await point in {wanted}"


def test_killed_at_each_await_point(store: WatchedStore, run: Run) -> None:
    """Another worker finishes the step; it is finalised once, and worked on at most twice."""
    office = Office(store)

    async def check(life: Life, first: asyncio.Task[Any], run_id: str) -> None:
        found = await office.clock.step_of(run_id, "chart")
        assert found["status"] == "SUCCEEDED", life.place
        assert store.finalises(run_id, "chart") == ["SUCCEEDED"], life.place
        assert office.worked[run_id] <= 2
        assert not first.done()

    assert_all_seen(enumerate_points(run, office, check))


def test_frozen_at_each_await_point(store: WatchedStore, run: Run) -> None:
    """It wakes up after another worker has finished the step: its own finalise is refused, and it says so."""
    office = Office(store)
    ends = []

    async def check(life: Life, first: asyncio.Task[Any], run_id: str) -> None:
        life.thaw()
        result = await asyncio.wait_for(first, 5)
        assert store.finalises(run_id, "chart") == ["SUCCEEDED"], (life.place, result)
        assert (await office.clock.step_of(run_id, "chart"))["status"] == "SUCCEEDED"
        ends.append(result.outcome)

    assert_all_seen(enumerate_points(run, office, check))
    assert set(ends) <= {FlowOutcome.LOST_RACE, FlowOutcome.NOOP, FlowOutcome.SUCCEEDED}
    assert ends.count(FlowOutcome.LOST_RACE) > 10


@pytest.mark.parametrize("attempts", [1, 3])
async def test_attempts_are_bounded(store: WatchedStore, attempts: int) -> None:
    """A step that kills every worker is FAILED in the end, by the next worker, and not claimed again."""

    async def die(_: StepContext) -> None:
        began.set()
        await asyncio.Event().wait()

    began = asyncio.Event()
    clock = FlowBench(store)
    await clock.put("r", flow_run(chart=step()))
    for _ in range(attempts):
        worker = FlowBench(store, {"CHART_EXPORT": die}, FLOW_ATTEMPTS_MAX=str(attempts))
        worker.now = clock.now
        task = asyncio.ensure_future(worker.send_current("r"))
        await began.wait()
        began.clear()
        task.cancel()
        clock.now += 61 * SECOND
    last = FlowBench(store, FLOW_ATTEMPTS_MAX=str(attempts))
    last.now = clock.now
    result = await last.send_current("r")
    assert (result.outcome, result.reason) == (FlowOutcome.FAILED, "attempts_exhausted")
    found = await clock.step_of("r", "chart")
    assert (found["status"], found["error"]["code"]) == ("FAILED", "ATTEMPTS_EXHAUSTED")
    assert [status for _, _, status in store.moves] == ["RUNNING"] * attempts + ["FAILED"]
    assert (await last.send_current("r")).reason == "no_ready_step"
