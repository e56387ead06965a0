"""Leases: renewed while the work goes on, taken over when they are over, given back when the process must end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from millpond.core import timestamps
from millpond.core.errors import Unavailable, WriteRefused
from millpond.core.model import Committed, Conflict, Document, LogEntry, Ref, Write
from millpond.flow.results import FlowOutcome
from millpond.flow.step import StepContext
from millpond.stores.memory import MemoryStore
from tests.common.pond import SECOND
from tests.common.waiting import until
from tests.flow.bench import LEASE_S, ON_FIRESTORE, FlowBench, WatchedStore, flow_run, one_step, step

SHORT_S = 0.15
# What the claim of another worker differs in.
OTHERS = {"token": "other", "attempt": 2}


def lease_end(found: Document) -> int:
    return timestamps.from_datetime(found["claim"]["leaseUntil"])


def claimed_by_a_ghost(bench: FlowBench, **more: Any) -> Document:
    """A step whose worker is gone; its lease is over."""
    claim = {"owner": "ghost", "token": "t", "attempt": 1, "leaseUntil": timestamps.to_datetime(bench.now)}
    return step("RUNNING", claim={**claim, **more})


async def test_the_lease_is_renewed_while_the_work_goes_on(store: WatchedStore) -> None:
    """For as long as it takes; no other worker gets the step meanwhile."""

    async def work(context: StepContext) -> None:
        for _ in range(4):
            known = lease_end(await bench.step_of("r", "a"))
            bench.now += round(lease_s / 3 * SECOND)
            async with asyncio.timeout(5):
                while lease_end(await bench.step_of("r", "a")) == known:  # noqa: ASYNC110 - the lease is renewed elsewhere
                    await asyncio.sleep(0.01)
            rival = FlowBench(store)
            rival.now = bench.now
            assert (await rival.send_current("r")).reason == "no_ready_step"
        assert not context.is_lost()

    # A sixth of it is the time that one renewal has, also on a busy machine.
    lease_s = 0.9
    bench = await one_step(store, work, FLOW_LEASE_S=str(lease_s))
    began = bench.now
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED
    assert bench.now > began + lease_s * SECOND


async def test_a_worker_whose_claim_was_taken_over_stops(store: WatchedStore) -> None:
    """The next renewal finds out: the work is cancelled, nothing is finalised, and the step is the other's."""

    async def work(context: StepContext) -> None:
        other = FlowBench(store, {"CHART_EXPORT": finish})
        other.now = bench.now + SECOND
        others.append(asyncio.ensure_future(other.send_current("r")))
        try:
            await asyncio.sleep(10)
        finally:
            lost.append(context.is_lost())

    async def finish(_: StepContext) -> Document:
        return {"by": "the other"}

    others: list[Any] = []
    lost: list[bool] = []
    bench = await one_step(store, work, FLOW_LEASE_S=str(SHORT_S))
    result = await bench.send_current("r")
    await asyncio.sleep(0)
    assert (result.outcome, result.reason) == (FlowOutcome.LOST_RACE, "claim_lost")
    assert ((await others[0]).outcome, lost) == (FlowOutcome.SUCCEEDED, [True])
    found = await bench.step_of("r", "a")
    assert (found["status"], found["outputs"]) == ("SUCCEEDED", {"by": "the other"})
    assert found["claim"]["attempt"] == 2


async def test_a_worker_does_not_renew_the_lease_of_another(store: WatchedStore) -> None:
    """Another worker took the step over: our renewal finds out, changes nothing, and our work ends."""

    async def work(_: StepContext) -> None:
        theirs = claimed_by_a_ghost(bench, **OTHERS, leaseUntil=ends)["claim"]
        await bench.patch("r", {("steps", "a", "claim"): theirs})
        await asyncio.sleep(5)

    bench = FlowBench(store, {"CHART_EXPORT": work}, FLOW_LEASE_S=str(SHORT_S))
    ends = timestamps.to_datetime(bench.now + LEASE_S * SECOND)
    await bench.put("r", flow_run(a=step()))
    began = asyncio.get_running_loop().time()
    assert (await bench.send_current("r")).reason == "claim_lost"
    assert asyncio.get_running_loop().time() - began < 3
    found = await bench.step_of("r", "a")
    assert (found["status"], found["claim"]["token"]) == ("RUNNING", "other")
    assert found["claim"]["leaseUntil"] == ends


@pytest.mark.parametrize("then", ["READY", "RUNNING", "SUCCEEDED", "FAILED", "gone"])
async def test_a_zombies_finalise_is_refused(store: WatchedStore, then: str) -> None:
    """Whatever became of the step meanwhile stays as it is."""

    async def work(_: StepContext) -> Document:
        if then == "gone":
            await bench.patch("r", {("steps",): {}})
        else:
            claim = claimed_by_a_ghost(bench, **OTHERS)["claim"]
            await bench.patch("r", {("steps", "a", "status"): then, ("steps", "a", "claim"): claim})
        seen.append(await bench.run_of("r"))
        return {"late": True}

    seen: list[Document] = []
    bench = await one_step(store, work)
    result = await bench.send_current("r")
    assert (result.outcome, result.reason, result.http_status) == (FlowOutcome.LOST_RACE, "claim_lost", 200)
    assert await bench.run_of("r") == seen[0]


async def test_renewals_that_fail_do_not_stop_the_work(store: WatchedStore) -> None:
    """The store may be away for a while; whether the claim still holds shows at the finalise."""

    async def work(context: StepContext) -> None:
        store.reads_failing = [Unavailable("away")] * 10_000
        await asyncio.sleep(SHORT_S)
        bench.now += round(2 * SHORT_S * SECOND)
        # The lease could not be renewed: as far as we know, the step is another's by now.
        assert context.is_lost()
        store.reads_failing = []

    bench = await one_step(store, work, FLOW_LEASE_S=str(SHORT_S))
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED


async def test_an_outage_does_not_fail_a_step_that_reads(store: WatchedStore) -> None:
    """Its reads are tried again; where the outage outlasts the lease, the step is left for the next worker."""

    async def work(context: StepContext) -> None:
        store.reads_failing = [Unavailable("away")] * outage
        await context.documents.read([Ref("market_bars_1m", "x")])

    outage = 5
    bench = FlowBench(store, {"CHART_EXPORT": work}, FLOW_LEASE_S="0.3", FIRESTORE_RETRY_MAX_TOTAL_S="0.3")
    await bench.put("r", flow_run(a=step(), b=step()))
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED
    outage = 1_000_000
    document = await bench.run_of("r")
    lost = await bench.send("r", document)
    store.reads_failing = []
    assert (lost.outcome, lost.reason) == (FlowOutcome.RETRY, "store_unavailable")
    assert (await bench.step_of("r", "b"))["status"] == "RUNNING"
    outage = 0
    bench.now += SECOND
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED


@pytest.mark.parametrize("attempts_max", [3, 1])
async def test_a_step_that_stops_because_its_lease_is_over_is_not_failed(
    store: WatchedStore, attempts_max: int
) -> None:
    """No other has taken it over, so the next may begin at once, unless it was the last attempt; it counts."""

    async def work(context: StepContext) -> None:
        bench.now += LEASE_S * SECOND
        try:
            context.ensure_claimed()
        except Exception:  # noqa: BLE001 - what a step's own code may do
            raise AssertionError from None

    bench = await one_step(store, work, FLOW_ATTEMPTS_MAX=str(attempts_max))
    result = await bench.send_current("r")
    found = await bench.step_of("r", "a")
    ended = (result.outcome, result.reason, found["status"], found["claim"]["attempt"])
    if attempts_max > 1:
        assert ended == (FlowOutcome.LOST_RACE, "claim_lost", "READY", 1)
    else:
        assert ended == (FlowOutcome.FAILED, "attempts_exhausted", "FAILED", 1)
    assert ("error" in found) == (attempts_max == 1)


async def test_the_lease_is_counted_from_before_the_claim(store: WatchedStore) -> None:
    """However long the store took to answer: we never believe to hold a step that another may have taken over."""

    async def slow(writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        committed = await commit(writes, log)
        bench.now += 10 * SECOND
        return committed

    async def work(context: StepContext) -> None:
        ends = lease_end(await bench.step_of("r", "a"))
        bench.now = ends - 1
        held.append(not context.is_lost())
        bench.now = ends
        held.append(not context.is_lost())

    held: list[bool] = []
    commit, store.commit = store.commit, slow  # type: ignore[method-assign]
    bench = await one_step(store, work)
    await bench.send_current("r")
    assert held == [True, False]


async def test_a_lease_of_a_wrong_clock_is_not_believed(store: WatchedStore) -> None:
    """One that ends later than any lease can is over; one within an hour of skew holds."""
    bench = FlowBench(store)
    for run_id, hours in (("near", 1.9), ("far", 2.1)):
        ends = timestamps.to_datetime(bench.now + round(hours * 3_600 * SECOND))
        await bench.put(run_id, flow_run(a=claimed_by_a_ghost(bench, leaseUntil=ends)))
    assert (await bench.send_current("near")).reason == "no_ready_step"
    assert (await bench.send_current("far")).outcome is FlowOutcome.SUCCEEDED


async def test_attempts_another_program_wrote_do_not_grow_out_of_bounds(store: WatchedStore) -> None:
    """The greatest integer there is, plus one, could not be stored: the step could never be claimed."""
    bench = FlowBench(store)
    await bench.put("r", flow_run(a=step(claim={"attempt": 2**63 - 1, "returnedAt": timestamps.to_datetime(0)})))
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED


async def test_a_short_outage_does_not_cost_the_lease(store: WatchedStore) -> None:
    """A renewal that fails is tried again soon: the store is back before the lease is over, and so are we."""

    async def work(context: StepContext) -> None:
        store.before = [Unavailable("away")] * 1_000
        await asyncio.sleep(lease_s * 0.55)
        store.before = []
        await asyncio.sleep(lease_s * 0.2)
        ends.append(lease_end(await bench.step_of("r", "a")))
        assert not context.is_lost()

    lease_s = 1.0
    ends: list[int] = []
    bench = await one_step(store, work, FLOW_LEASE_S=str(lease_s))
    began = bench.now
    task = asyncio.ensure_future(bench.send_current("r"))
    while not task.done():
        await asyncio.sleep(0.02)
        bench.now += SECOND // 50
    assert (await task).outcome is FlowOutcome.SUCCEEDED
    assert ends[0] > began + lease_s * SECOND * 1.4


async def test_a_run_without_room_for_the_end_does_not_run_for_ever(store: WatchedStore) -> None:
    """Neither outputs nor an error fit: the attempt is given up, and after the last the step is FAILED."""
    bench = await one_step(store, FLOW_ATTEMPTS_MAX="2")
    for reason in ("claim_lost", "attempts_exhausted"):
        # The claim fits, and none of the three ways to say how it ended.
        store.before = [None, *[WriteRefused("full", code="INVALID_ARGUMENT")] * 3]
        assert (await bench.send_current("r")).reason == reason
    found = await bench.step_of("r", "a")
    assert (found["status"], found["error"]["code"]) == ("FAILED", "ATTEMPTS_EXHAUSTED")
    assert found["claim"] == {"attempt": 2}


async def test_a_step_whose_worker_went_silent_is_taken_over(store: WatchedStore) -> None:
    """By any event that shows it, once the lease is over and not a moment before."""
    bench = FlowBench(store)
    await bench.put("r", flow_run(a=claimed_by_a_ghost(bench)))
    bench.now -= 1
    assert (await bench.send_current("r")).reason == "no_ready_step"
    bench.now += 1
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED
    assert (await bench.step_of("r", "a"))["claim"]["attempt"] == 2


async def test_ready_steps_come_before_abandoned_ones(store: WatchedStore) -> None:
    """And the abandoned one is taken on the event that this causes."""
    bench = FlowBench(store)
    await bench.put("r", flow_run(a=claimed_by_a_ghost(bench), b=step()))
    assert (await bench.send_current("r")).step_id == "b"
    assert (await bench.send_current("r")).step_id == "a"


FOREIGN: dict[str, Any] = {
    "no claim at all": None,
    "no token": {"owner": "x", "attempt": 1, "leaseUntil": timestamps.to_datetime(0)},
    "a token that is no text": {"token": 1, "attempt": 1, "leaseUntil": timestamps.to_datetime(0)},
    "no lease": {"owner": "x", "token": "t", "attempt": 1},
    "a lease that is text": {"owner": "x", "token": "t", "attempt": 1, "leaseUntil": "2020-01-01T00:00:00Z"},
    "no attempt": {"owner": "x", "token": "t", "leaseUntil": timestamps.to_datetime(0)},
    "a claim that is text": "mine",
}


@pytest.mark.parametrize("name", FOREIGN)
async def test_running_without_our_lease_is_never_touched(store: WatchedStore, name: str) -> None:
    """It is another program's way of working: neither an event nor the sweep changes it, however old."""
    bench = FlowBench(store)
    running = step("RUNNING") if FOREIGN[name] is None else step("RUNNING", claim=FOREIGN[name])
    document = flow_run(a=running)
    await bench.put("r", document)
    bench.now += 10 * LEASE_S * SECOND
    assert (await bench.send_current("r")).reason == "no_ready_step"
    report = await bench.flow.sweep()
    assert (report.runs, report.reclaimed, report.failed, report.announced) == (1, 0, 0, 0)
    assert await bench.run_of("r") == document


async def test_the_sweep_makes_abandoned_steps_ready_again(store: WatchedStore) -> None:
    """Attempts are kept, so that they stay bounded; leases that hold, and steps of others' types, stay."""
    bench = FlowBench(store)
    holds = claimed_by_a_ghost(bench, leaseUntil=timestamps.to_datetime(bench.now + 1))
    mail = {**claimed_by_a_ghost(bench), "stepType": "MAIL"}
    await bench.put("r1", flow_run(a=claimed_by_a_ghost(bench, attempt=2), b=holds, c=mail))
    await bench.put("r2", flow_run(a=claimed_by_a_ghost(bench, attempt=3)))
    await bench.put("r3", {"steps": "nonsense"})
    report = await bench.flow.sweep()
    assert (report.runs, report.reclaimed, report.failed, report.announced) == (3, 1, 1, 0)
    first = (await bench.run_of("r1"))["steps"]
    assert (first["a"]["status"], first["a"]["claim"]["attempt"]) == ("READY", 2)
    assert (first["b"], first["c"]) == (holds, mail)
    assert (await bench.step_of("r2", "a"))["error"]["code"] == "ATTEMPTS_EXHAUSTED"
    assert (await bench.send_current("r1")).outcome is FlowOutcome.SUCCEEDED
    assert (await bench.step_of("r1", "a"))["claim"]["attempt"] == 3


async def test_the_sweep_goes_on_past_a_run_it_cannot_change(store: WatchedStore) -> None:
    """It is counted and logged; those behind it are mended."""
    bench = FlowBench(store)
    for run_id in ("r1", "r2"):
        await bench.put(run_id, flow_run(a=claimed_by_a_ghost(bench)))
    store.before = [WriteRefused("too big", code="INVALID_ARGUMENT")]
    report = await bench.flow.sweep()
    assert (report.runs, report.reclaimed, report.left) == (2, 1, 1)
    assert [(line["runId"], line["reason"]) for line in bench.lines()] == [("r1", "sweep_failed")]


async def test_the_sweep_announces_ready_steps_whose_event_was_lost(store: WatchedStore) -> None:
    """Where Eventarc raises the events, by a change of the run that is an event, and touches nothing else."""
    bench = FlowBench(store, None, **ON_FIRESTORE)
    document = flow_run(a=step(), b=step(dependsOn=["a"]))
    await bench.put("ready", document)
    await bench.put("blocked", flow_run(b=step(dependsOn=["a"])))
    assert (await bench.flow.sweep()).announced == 1
    after = await bench.run_of("ready")
    assert after.pop("millpond") == {"triggeredAt": timestamps.to_datetime(bench.now)}
    assert after == document


async def test_a_run_that_somebody_else_has_just_changed_is_not_counted_as_announced(store: WatchedStore) -> None:
    """That change was an event already; what the sweep reports is what it did itself."""
    bench = await one_step(store, None, **ON_FIRESTORE)
    inner = store.inner.commit

    async def overtaken(writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        store.inner.commit = inner  # type: ignore[method-assign]
        await bench.patch("r", {("note",): "changed"})
        return await inner(writes, log)

    store.inner.commit = overtaken  # type: ignore[method-assign]
    assert (await bench.flow.sweep()).announced == 0
    assert "millpond" not in await bench.run_of("r")


async def test_attempts_start_anew_when_a_person_asks_again(store: WatchedStore) -> None:
    """FAILED → READY by hand is a fresh start; what the last attempt left is not taken for this one's."""
    bench = FlowBench(store, FLOW_ATTEMPTS_MAX="1")
    await bench.put("r", flow_run(a=claimed_by_a_ghost(bench)))
    assert (await bench.send_current("r")).reason == "attempts_exhausted"
    await bench.patch("r", {("steps", "a", "status"): "READY"})
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED
    found = await bench.step_of("r", "a")
    assert (found["claim"]["attempt"], found["error"]) == (1, None)


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_a_process_that_ends_gives_its_steps_back(store: WatchedStore, kind: str) -> None:
    """READY again at once, the attempt not counted, and the event comes again; a late result is not used."""
    release = threading.Event()

    async def wait(_: StepContext) -> None:
        await asyncio.sleep(10)

    function: Any = wait if kind == "coroutine" else (lambda _: {"late": release.wait(10)})
    bench = FlowBench(store, {"CHART_EXPORT": function})
    await bench.put("r", flow_run(a=step(), b=step()))
    first = asyncio.ensure_future(bench.send_current("r"))
    await until(lambda: bench.flow.worker.running)
    await bench.flow.worker.drain(0.05)
    result = await first
    release.set()
    assert (result.outcome, result.reason, result.http_status) == (FlowOutcome.RETRY, "shutting_down", 503)
    found = await bench.step_of("r", "a")
    assert (found["status"], found["claim"]["attempt"], "token" in found["claim"]) == ("READY", 0, False)
    refused = await bench.send_current("r")
    assert (refused.reason, refused.http_status) == ("shutting_down", 503)
    other = FlowBench(store)
    assert (await other.send_current("r")).step_id == "a"
    assert (await other.step_of("r", "a"))["claim"]["attempt"] == 1


async def test_a_claim_under_way_is_not_left_behind(store: WatchedStore) -> None:
    """The process must end while the claim is being made: it is waited for, and given back."""
    bench = await one_step(store)
    inner, asked = store.pass_on, asyncio.Event()

    async def slowly(*arguments: Any) -> Any:
        asked.set()
        await asyncio.sleep(0.1)
        return await inner(*arguments)

    store.pass_on = slowly  # type: ignore[method-assign,assignment]
    first = asyncio.ensure_future(bench.send_current("r"))
    await asked.wait()
    await bench.flow.worker.drain(0.01)
    await bench.flow.worker.drain(2)
    assert (await first).reason == "shutting_down"
    assert ((await bench.step_of("r", "a"))["status"], bench.worked) == ("READY", [])


async def test_events_that_wait_for_a_place_are_told_at_once() -> None:
    """When the process must end: 503, not a claim, and the drain takes its time once, however often it is asked."""

    async def wait(_: StepContext) -> None:
        await asyncio.sleep(10)

    bench = FlowBench(WatchedStore(MemoryStore()), {"CHART_EXPORT": wait}, FLOW_STEPS_AT_ONCE="1")
    for name in "abc":
        await bench.put(name, flow_run(x=step()))
    tasks = [asyncio.ensure_future(bench.send_current(name)) for name in "abc"]
    await until(lambda: bench.flow.worker.running)
    drains = asyncio.gather(bench.flow.worker.drain(0.3), bench.flow.worker.drain(0.3))
    done, _ = await asyncio.wait(tasks, timeout=0.2)
    assert [task.result().reason for task in done] == ["shutting_down"] * 2
    began = asyncio.get_running_loop().time()
    await drains
    await bench.flow.worker.drain(5)
    assert asyncio.get_running_loop().time() - began < 1
    assert (await tasks[0]).reason == "shutting_down"
    assert bench.store.moves == [("a", "x", "RUNNING"), ("a", "x", "READY")]


async def test_what_ends_in_time_is_not_given_back(store: WatchedStore) -> None:
    """A drain waits a little."""

    async def work(_: StepContext) -> None:
        began.set()
        await asyncio.sleep(0.1)

    began = asyncio.Event()
    bench = await one_step(store, work)
    first = asyncio.ensure_future(bench.send_current("r"))
    await began.wait()
    await bench.flow.worker.drain(3)
    assert (await first).outcome is FlowOutcome.SUCCEEDED
