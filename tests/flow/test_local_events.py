"""On the embedded store Millpond raises the events itself: a run is worked through to its end, whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from millpond.core import timestamps
from millpond.core.errors import InvalidRun, RunExists, Unavailable
from millpond.core.model import Document
from millpond.flow import local_events
from millpond.flow.event_filter import FlowEvent
from millpond.flow.local_events import LocalEvents
from millpond.flow.results import FlowOutcome, FlowResult
from millpond.flow.step import StepContext
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite.store import SqliteStore
from tests.common.flow_runs import INVALID_RUNS
from tests.common.pond import SECOND
from tests.common.stores import Run
from tests.common.waiting import until
from tests.flow.bench import FlowBench, WatchedStore, flow_run, step
from tests.flow.test_leases import claimed_by_a_ghost


async def statuses(bench: FlowBench, run_id: str) -> dict[str, str]:
    return {name: found["status"] for name, found in (await bench.run_of(run_id))["steps"].items()}


async def test_a_submitted_run_is_worked_through() -> None:
    """In the order of what depends on what; a step that failed keeps those behind it waiting."""

    async def work(context: StepContext) -> None:
        worked.append(context.step_id)
        if context.step_id == "f":
            raise ValueError

    worked: list[str] = []
    bench = FlowBench(WatchedStore(MemoryStore()), {"CHART_EXPORT": work})
    bench.flow.start()
    after = {"a": ["z"], "b": ["a"], "c": ["f"], "f": [], "z": []}
    submitted = await bench.flow.submit(flow_run(**{name: step(dependsOn=needs) for name, needs in after.items()}))
    await until(lambda: "b" in worked and not bench.flow.worker.running)
    await asyncio.sleep(0.05)
    assert await statuses(bench, submitted.run_id) == {
        "a": "SUCCEEDED",
        "b": "SUCCEEDED",
        "c": "READY",
        "f": "FAILED",
        "z": "SUCCEEDED",
    }
    assert sorted(worked) == ["a", "b", "f", "z"]
    assert worked.index("z") < worked.index("a") < worked.index("b")
    await bench.flow.drain()
    await bench.flow.close()


async def test_what_a_crash_left_is_taken_up_at_start(tmp_path: Path) -> None:
    """READY steps at once, a RUNNING one when its lease is over; finished runs are not looked at again."""
    store = WatchedStore(SqliteStore(tmp_path / "pond.db"))
    before = FlowBench(store)
    await before.put("ready", flow_run(a=step()))
    lease = timestamps.to_datetime(before.now + SECOND // 5)
    await before.put("running", flow_run(a=claimed_by_a_ghost(before, leaseUntil=lease)))
    await before.put("done", flow_run(a=step("SUCCEEDED")))
    bench = FlowBench(store)
    bench.flow.start()
    await until(lambda: store.finalises("ready", "a"))
    assert store.finalises("running", "a") == []
    bench.now += SECOND // 5
    await until(lambda: store.finalises("running", "a"))
    assert {line["runId"] for line in bench.lines()} == {"ready", "running"}
    await bench.flow.close()
    await store.inner.close()


async def test_a_store_that_was_away_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is not sent again, so it is remembered, with longer and longer pauses."""
    monkeypatch.setattr(local_events, "_RETRY_FIRST_S", 0.01)
    store = WatchedStore(MemoryStore())
    bench = FlowBench(store, FIRESTORE_RETRY_MAX_TOTAL_S="0.05")
    bench.flow.start()
    await asyncio.sleep(0)
    store.before = [None] + [Unavailable("away")] * 40
    await bench.flow.submit(flow_run(a=step()), "r")
    await until(lambda: store.finalises("r", "a"))
    assert "store_unavailable" in bench.reasons()
    await bench.flow.close()


RETRY = FlowResult(outcome=FlowOutcome.RETRY, reason="store_unavailable", text="", run_id="r")
DONE = RETRY.ends(FlowOutcome.NOOP, "no_ready_step", "")


def events_of(handle: Callable[[FlowEvent], Awaitable[FlowResult]]) -> LocalEvents:
    """One at a time, each handled by `handle`."""
    bench = FlowBench(WatchedStore(MemoryStore()))
    return LocalEvents(
        handle=handle, store=bench.store, log=bench.log, types=bench.flow.steps, wall_clock=lambda: 0, at_once=1
    )


async def test_events_go_on_after_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that was away for weeks, and a bug of ours: neither ends the serving of events."""
    monkeypatch.setattr(local_events, "_RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(local_events, "_RETRY_MAX_S", 0.0)
    tries: Counter[str] = Counter()

    async def handle(event: FlowEvent) -> FlowResult:
        tries[event.run_id] += 1
        if event.run_id == "bug" and tries["bug"] == 1:
            raise OSError
        # Twice as long each time is no number any more after so many.
        return RETRY if event.run_id == "r" and tries["r"] < 2_000 else DONE

    events = events_of(handle)
    events.start()
    events.raise_event("bug")
    events.raise_event("r")
    await until(lambda: tries == {"bug": 2, "r": 2_000}, 20)
    await events.close()


async def test_pauses_begin_anew_after_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that was away last week must not make a run wait half a minute today."""
    answers = [RETRY, RETRY, DONE, RETRY, DONE]
    pauses: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    async def handle(_: FlowEvent) -> FlowResult:
        return answers.pop(0)

    def at_once(delay_s: float, *arguments: Any) -> asyncio.TimerHandle:
        if delay_s < 0.5:
            return call_later(delay_s, *arguments)
        pauses.append(delay_s)
        return call_later(0, *arguments)

    monkeypatch.setattr(loop, "call_later", at_once)
    events = events_of(handle)
    events.start()
    events.raise_event("r")
    await until(lambda: len(answers) == 2)
    events.raise_event("r")
    await until(lambda: not answers)
    await events.close()
    assert pauses == [0.5, 1.0, 0.5]


async def test_the_earlier_of_two_looks_is_kept() -> None:
    """Two leases in one run: it is looked at when the first is over."""
    leases_s = [0.01, 60]
    looks: list[int | None] = []

    async def handle(_: FlowEvent) -> FlowResult:
        look_again_at = round(leases_s.pop(0) * SECOND) if leases_s else None
        looks.append(look_again_at)
        return DONE.ends(FlowOutcome.LOST_RACE, "lost_race", "", look_again_at=look_again_at)

    events = events_of(handle)
    events.start()
    events.raise_event("r")
    await until(lambda: len(looks) == 1)
    events.raise_event("r")
    await until(lambda: len(looks) == 3)
    await events.close()


def test_a_long_chain_is_checked_at_once(run: Run) -> None:
    """The check holds up every push while it runs."""
    steps = {f"s{n}": step(dependsOn=[f"s{n + 1}"] if n < 8_000 else []) for n in range(8_001)}
    # Processor time: what else the machine does must not count.
    began = time.process_time()
    with pytest.raises(InvalidRun, match="need room for"):
        run(FlowBench(WatchedStore(MemoryStore())).flow.submit({"steps": steps}))
    assert time.process_time() - began < 1


async def test_many_runs_wait_for_their_turn() -> None:
    """More than may wait at the door, a few at a time, each once."""

    async def work(context: StepContext) -> None:
        worked.append(context.run_id)
        running.append(bench.flow.worker.running)
        await asyncio.sleep(0.001)

    worked: list[str] = []
    running: list[int] = []
    bench = FlowBench(WatchedStore(MemoryStore()), {"CHART_EXPORT": work}, CONSUMER_QUEUE_SIZE="1")
    bench.flow.start()
    for number in range(200):
        await bench.flow.submit(flow_run(a=step()), f"r{number}")
    await until(lambda: len(worked) >= 200)
    await asyncio.sleep(0.02)
    assert sorted(worked) == sorted(f"r{number}" for number in range(200))
    assert 1 < max(running) <= 4
    assert "backpressure_queue_full" not in bench.reasons()
    await bench.flow.close()


GOOD: Document = flow_run(a=step(), b=step(dependsOn=["a"]))


@pytest.mark.parametrize("name", INVALID_RUNS)
async def test_a_run_that_makes_no_sense_is_not_stored(name: str) -> None:
    """The error says what is wrong; the store was not asked."""
    bench = FlowBench(WatchedStore(MemoryStore()))
    run, mentions = INVALID_RUNS[name]
    with pytest.raises(InvalidRun) as refusal:
        await bench.flow.submit(run)
    assert mentions in str(refusal.value)
    assert bench.store.calls == 0


async def test_submitting_twice() -> None:
    """The same run is the same run, also after it was worked on; another one under its id is refused."""
    bench = FlowBench(WatchedStore(MemoryStore()))
    first = await bench.flow.submit({**GOOD, "runId": "r"})
    await bench.send_current("r")
    again = await bench.flow.submit(GOOD, "r")
    assert (first.created, again.created, again.run_id) == (True, False, "r")
    assert await statuses(bench, "r") == {"a": "SUCCEEDED", "b": "READY"}
    with pytest.raises(RunExists, match="another run r"):
        await bench.flow.submit({**GOOD, "flowKey": "other"}, "r")
    with pytest.raises(InvalidRun, match="calls itself 'r'"):
        await bench.flow.submit({**GOOD, "runId": "r"}, "s")
    await bench.put("theirs", GOOD)
    with pytest.raises(RunExists):
        await bench.flow.submit(GOOD, "theirs")
    one, two = await bench.flow.submit(GOOD), await bench.flow.submit(GOOD)
    assert one.run_id != two.run_id
