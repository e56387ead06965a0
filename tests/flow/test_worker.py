"""The worker on every store: one claim among many, what a step may do wrong, and what a store may do wrong."""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
import threading
import time
from collections import UserDict
from typing import Any

import pytest

from millpond.core.errors import AccessDenied, StepFailed, StoreError, Unavailable, WriteRefused
from millpond.core.model import Document
from millpond.flow.results import FlowOutcome
from millpond.flow.step import StepContext
from millpond.flow.undecided import STEPS_MAX, TOKENS_MAX, UndecidedClaims
from millpond.stores.memory import MemoryStore
from tests.flow.bench import FlowBench, WatchedStore, flow_run, one_step, step

DELIVERIES = 50


@pytest.mark.parametrize("processes", [1, 5])
async def test_fifty_deliveries_at_once_do_the_work_once(store: WatchedStore, processes: int) -> None:
    """One claims, works and finalises; every other is told that it lost, and none must come again."""

    async def work(context: StepContext) -> None:
        worked.append(context.token)
        await asyncio.sleep(0.05)

    worked: list[str] = []
    document = flow_run(chart=step())
    workers = [FlowBench(store, {"CHART_EXPORT": work}) for _ in range(processes)]
    await workers[0].put("r", document)
    results = await asyncio.gather(*(workers[i % processes].send("r", document) for i in range(DELIVERIES)))
    assert len(worked) == 1
    assert store.moves == [("r", "chart", "RUNNING"), ("r", "chart", "SUCCEEDED")]
    outcomes = [result.outcome for result in results]
    assert outcomes.count(FlowOutcome.SUCCEEDED) == 1
    assert outcomes.count(FlowOutcome.LOST_RACE) == DELIVERIES - 1


async def test_ten_thousand_filtered_events_cost_no_store_call(store: WatchedStore) -> None:
    """Counted at the port: other types, other collections, runs with nothing to do."""
    bench = FlowBench(store)
    idle = flow_run(a=step("SUCCEEDED"), b=step(dependsOn=["z"]), c=step("READY", "MAIL"))
    for number in range(2_500):
        await bench.send(f"r{number}", flow_run(chart=step()), event_type="x.created")
        await bench.send(f"r{number}/steps/s", flow_run(chart=step()))
        await bench.send(f"r{number}", idle)
        await bench.send(f"r{number}", {"steps": []})
    assert store.calls == 0
    counted = {reason: n for (_, reason), n in bench.metrics.flow_events.items()}
    assert counted == {"event_filtered": 5_000, "no_ready_step": 2_500, "invalid_steps": 2_500}


async def test_an_event_without_a_document_costs_one_read(store: WatchedStore) -> None:
    """The run is looked up; where there is none, the event is none of ours."""
    bench = FlowBench(store)
    await bench.put("idle", flow_run(a=step("SUCCEEDED")))
    await bench.put("r", flow_run(chart=step()))
    assert (await bench.send("idle", None)).reason == "no_ready_step"
    assert (await bench.send("gone", None)).reason == "event_filtered"
    assert store.calls == 2
    assert (await bench.send("r", None)).outcome is FlowOutcome.SUCCEEDED


async def test_a_good_step_beside_a_bad_one_is_worked(store: WatchedStore) -> None:
    """And the bad one is logged, with what is wrong with it."""
    bench = FlowBench(store)
    document = flow_run(a={"status": "READY"}, b=step())
    await bench.put("r", document)
    result = await bench.send("r", document)
    assert (result.outcome, result.step_id) == (FlowOutcome.SUCCEEDED, "b")
    (line,) = [line for line in bench.lines() if line["reason"] == "invalid_steps"]
    assert (line["stepId"], line["severity"]) == ("a", "WARNING")
    assert "stepType" in line["message"]
    assert (await bench.step_of("r", "a")) == {"status": "READY"}


async def test_steps_wait_for_what_they_depend_on(store: WatchedStore) -> None:
    """In the event and, again, in the run that is claimed; blocked ones are logged with what they wait for."""
    bench = FlowBench(store)
    document = flow_run(a=step(dependsOn=["b", "x"]), b=step(type="CHART_EXPORT"), c=step(dependsOn=["b"]))
    await bench.put("r", document)
    assert (await bench.send("r", document)).step_id == "b"
    blocked = {line["stepId"]: line["message"] for line in bench.lines() if line["reason"] == "step_blocked"}
    assert blocked == {"a": "waits for b (READY), x (missing)", "c": "waits for b (READY)"}
    # An event from before: b had succeeded then, and was put back since.
    await bench.patch("r", {("steps", "b", "status"): "PENDING"})
    early = flow_run(b=step("SUCCEEDED"), c=step(dependsOn=["b"]))
    result = await bench.send("r", early)
    assert (result.outcome, result.reason) == (FlowOutcome.NOOP, "step_blocked")
    assert (await bench.step_of("r", "c"))["status"] == "READY"
    await bench.patch("r", {("steps", "b", "status"): "SUCCEEDED"})
    assert (await bench.send_current("r")).step_id == "c"


@pytest.mark.parametrize(
    "step_id", ["a.b", "a/b", "`a`", "a\\b", " ", "ä.ö", "0", "a-b", "*", "[x]", "a'\"b", "x" * 1400]
)
async def test_any_step_id_works(store: WatchedStore, step_id: str) -> None:
    """Its dots are no path, and its neighbour with a name that would be one stays as it is."""
    bench = FlowBench(store)
    document = {"steps": {step_id: step(), "zz": step("PENDING", b=step())}}
    await bench.put("r", document)
    assert (await bench.send("r", document)).outcome is FlowOutcome.SUCCEEDED
    after = (await bench.run_of("r"))["steps"]
    assert after.keys() == {step_id, "zz"}
    assert (after[step_id]["status"], after["zz"]) == ("SUCCEEDED", document["steps"]["zz"])


async def test_what_others_change_meanwhile_stays(store: WatchedStore) -> None:
    """Other steps, and other fields of the same step, changed between our claim and our finalise."""

    async def work(_: StepContext) -> Document:
        await bench.patch("r", {("steps", "b", "status"): "CANCELLED", ("note",): "changed"})
        await bench.patch("r", {("steps", "a", "comment"): "hello", ("steps", "c"): step("PENDING")})
        return {"n": 1}

    bench = FlowBench(store, {"CHART_EXPORT": work})
    await bench.put("r", {**flow_run(a=step(), b=step("PENDING")), "note": "first"})
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED
    after = await bench.run_of("r")
    assert (after["note"], after["steps"]["b"]["status"]) == ("changed", "CANCELLED")
    assert after["steps"]["c"] == step("PENDING")
    assert (after["steps"]["a"]["comment"], after["steps"]["a"]["outputs"]) == ("hello", {"n": 1})


# --- what a step may do ------------------------------------------------------------------------------------------


async def _cancels_itself(_: StepContext) -> None:
    raise asyncio.CancelledError


async def _gets_cancelled(_: StepContext) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


def _leaves(_: StepContext) -> None:
    sys.exit(3)


async def _leaves_the_loop(_: StepContext) -> None:
    sys.exit(3)


def _stops(_: StepContext) -> None:
    raise StopIteration


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class _Unreadable(UserDict[str, Any]):
    def __iter__(self) -> Any:
        raise RuntimeError


def _raise(error: Exception) -> None:
    raise error


def _deep(_: StepContext) -> Document:
    value: Document = {}
    for _level in range(30):
        value = {"x": value}
    return value


BROKEN: dict[str, tuple[Any, str]] = {
    "a failure of its own": (lambda _: _raise(StepFailed("NO_MONEY", "none left")), "NO_MONEY"),
    "an exception": (lambda _: 1 / 0, "STEP_ERROR"),
    "sys.exit in a thread": (_leaves, "STEP_ERROR"),
    "sys.exit in a coroutine": (_leaves_the_loop, "STEP_ERROR"),
    "StopIteration": (_stops, "STEP_ERROR"),
    "CancelledError": (_cancels_itself, "STEP_ERROR"),
    "cancels its own task": (_gets_cancelled, "STEP_ERROR"),
    "returns text": (lambda _: "done", "INVALID_OUTPUTS"),
    "returns what no document holds": (lambda _: {"x": object()}, "INVALID_OUTPUTS"),
    "returns a list in a list": (lambda _: {"x": [[1]]}, "INVALID_OUTPUTS"),
    "returns too deep a map": (_deep, "INVALID_OUTPUTS"),
    "returns a lone surrogate": (lambda _: {"x": "\ud800"}, "OUTPUTS_REFUSED"),
    "raises a lone surrogate": (lambda _: _raise(ValueError("\ud800")), "STEP_ERROR"),
    "raises what has no text": (lambda _: _raise(_Mute()), "STEP_ERROR"),
    "fails with a novel": (lambda _: _raise(StepFailed("X" * 5_000, "y" * 2_000_000)), "X" * 100),
    "returns two megabytes": (lambda _: {"x": "x" * 2_000_000}, "OUTPUTS_REFUSED"),
    "returns a time before all years": (
        lambda _: {"at": dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14)))},
        "OUTPUTS_REFUSED",
    ),
    "returns a map that cannot be read": (lambda _: _Unreadable(), "STEP_ERROR"),
    "names numbers": (lambda _: {1: 2}, "INVALID_OUTPUTS"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_whatever_a_step_does_it_ends_failed_with_a_code(store: WatchedStore, name: str) -> None:
    """Never RUNNING for ever; the worker goes on, and no text of the run gets into the log."""
    function, code = BROKEN[name]
    bench = FlowBench(store, {"BREAK": function, "CHART_EXPORT": lambda _: None})
    await bench.put("r", flow_run(a=step(step_type="BREAK"), b=step()))
    result = await bench.send_current("r")
    assert (result.outcome, result.reason, result.http_status) == (FlowOutcome.FAILED, "step_failed", 200)
    found = await bench.step_of("r", "a")
    assert (found["status"], found["error"]["code"]) == ("FAILED", code)
    assert found["error"]["message"]
    assert store.finalises("r", "a") == ["FAILED"]
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED
    assert bench.flow.worker.running == 0


async def test_a_step_that_takes_too_long_is_failed(store: WatchedStore) -> None:
    """Also one in a thread, which cannot be stopped: its result is not used."""
    release = threading.Event()
    bench = await one_step(store, lambda _: {"late": release.wait(10)}, FLOW_STEP_MAX_S="0.1")
    result = await bench.send_current("r")
    release.set()
    await asyncio.sleep(0.05)
    found = await bench.step_of("r", "a")
    assert (result.outcome, found["error"]["code"]) == (FlowOutcome.FAILED, "STEP_TIMEOUT")
    assert found.get("outputs") is None


async def test_a_step_is_told_what_it_works_on(store: WatchedStore) -> None:
    """Run, step, inputs, attempt, a key for others, a folder of its own."""
    seen: list[StepContext] = []
    bench = FlowBench(store, {"CHART_EXPORT": seen.append})
    await bench.put("a+b", flow_run(c__d=step(inputs={"n": 1}, extra=2)))
    await bench.send_current("a+b")
    (context,) = seen
    assert (context.run_id, context.step_id, context.step_type) == ("a+b", "c.d", "CHART_EXPORT")
    assert (context.inputs, context.step["extra"], context.run["flowKey"]) == ({"n": 1}, 2, "daily-charts")
    assert (context.attempt, context.idempotency_key) == (1, "a%2Bb+c.d")
    assert context.artifacts.parts[-2:] == ("a+b", "c.d")
    claim = (await bench.step_of("a+b", "c.d"))["claim"]
    assert (claim["token"], claim["idempotencyKey"]) == (context.token, context.idempotency_key)


# --- what a store may do -----------------------------------------------------------------------------------------

AWAY = Unavailable("away", code="UNAVAILABLE")


@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("commit", [0, 1])
async def test_a_lost_reply_heals_by_reading_again(store: WatchedStore, fault: str, commit: int) -> None:
    """Of the claim and of the finalise, whether it was applied or not: one work, one finalise."""
    bench = await one_step(store)
    getattr(store, fault)[:] = [None] * commit + [AWAY]
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED
    assert (bench.worked, store.finalises("r", "a")) == ([("r", "a")], ["SUCCEEDED"])


async def test_a_claim_whose_answer_was_late_is_ours_when_the_event_comes_again(store: WatchedStore) -> None:
    """It was made, unknown to us: the redelivered event goes on with it instead of losing to itself."""
    bench = FlowBench(store, FIRESTORE_RETRY_MAX_TOTAL_S="0.5")
    document = flow_run(a=step())
    await bench.put("r", document)
    store.after = [AWAY]
    store.reads_failing = [None] + [AWAY] * 10_000
    first = await bench.send("r", document)
    assert (first.reason, first.http_status, bench.worked) == ("store_unavailable", 503, [])
    assert (await bench.step_of("r", "a"))["status"] == "RUNNING"
    store.reads_failing = []
    assert (await bench.send("r", document)).outcome is FlowOutcome.SUCCEEDED
    assert store.moves == [("r", "a", "RUNNING"), ("r", "a", "SUCCEEDED")]


async def test_several_claims_whose_answers_were_late(store: WatchedStore) -> None:
    """Two deliveries, both undecided, one by a denial: whichever claim was made is gone on with, and once."""
    bench = FlowBench(store, FIRESTORE_RETRY_MAX_TOTAL_S="0.5")
    document = flow_run(a=step())
    await bench.put("r", document)
    store.after = [AWAY]
    store.reads_failing = [None, AWAY, AccessDenied("denied"), *[AWAY] * 10_000]
    first = await bench.send("r", document)
    store.reads_failing = [AWAY] * 10_000
    second = await bench.send("r", document)
    assert (first.http_status, second.http_status, bench.worked) == (503, 503, [])
    store.reads_failing = []
    results = await asyncio.gather(*(bench.send("r", document) for _ in range(3)))
    assert sorted(result.outcome for result in results) == ["lost_race", "lost_race", "succeeded"]
    assert bench.worked == [("r", "a")]


def test_of_very_many_undecided_claims_the_newest_are_remembered() -> None:
    """An older one was refused by the claims after it, or is over by now; the newest may have been made."""
    claims = UndecidedClaims()
    for number in range(TOKENS_MAX + 10):
        claims.remember("r", "a", (f"token-{number}",))
    tokens = claims.take("r", "a")
    assert tokens == tuple(f"token-{number}" for number in range(10, TOKENS_MAX + 10))
    claims.remember("r", "a", tokens)
    for number in range(STEPS_MAX):
        claims.remember(f"r{number}", "a", ("t",))
    assert len(claims) == STEPS_MAX
    assert claims.take("r", "a") == ()


async def test_a_claim_of_ours_whose_type_was_changed_is_given_back(store: WatchedStore) -> None:
    """Its answer was late, and meanwhile a person made the step another worker's."""
    bench = FlowBench(store, FIRESTORE_RETRY_MAX_TOTAL_S="0.5")
    document = flow_run(a=step())
    await bench.put("r", document)
    store.after = [AWAY]
    store.reads_failing = [None, *[AWAY] * 10_000]
    await bench.send("r", document)
    store.reads_failing = []
    await bench.patch("r", {("steps", "a", "stepType"): "MAIL"})
    assert (await bench.send("r", document)).reason == "no_ready_step"
    assert (await bench.step_of("r", "a"))["status"] == "READY"


@pytest.mark.parametrize("step_id", ["a\rb", "\n", "\x00", "\x7f"])
async def test_a_step_id_with_control_characters_is_not_taken(step_id: str) -> None:
    """Firestore takes some of them for others, so a claim would land on another step."""
    bench = FlowBench(WatchedStore(MemoryStore()))
    assert (await bench.send("r", {"steps": {step_id: step()}})).reason == "invalid_steps"
    assert bench.store.calls == 0


@pytest.mark.parametrize(
    ("error", "outcome", "reason", "status", "severity"),
    [
        (AWAY, FlowOutcome.RETRY, "store_unavailable", 503, "ERROR"),
        (AccessDenied("denied", "PERMISSION_DENIED"), FlowOutcome.RETRY, "access_denied", 503, "CRITICAL"),
        (WriteRefused("too big", "INVALID_ARGUMENT"), FlowOutcome.NOOP, "write_refused", 200, "ALERT"),
    ],
    ids=["away", "denied", "refused"],
)
async def test_a_claim_that_cannot_be_made(
    store: WatchedStore, error: StoreError, outcome: FlowOutcome, reason: str, status: int, severity: str
) -> None:
    """What may heal comes again; the step stays READY, nothing was worked on, and the line says how bad it is."""
    bench = await one_step(store, FIRESTORE_RETRY_MAX_TOTAL_S="0.5")
    store.before = [error] * 1_000
    result = await bench.send_current("r")
    assert (result.outcome, result.reason, result.http_status) == (outcome, reason, status)
    assert (result.run_id, result.step_id) == ("r", "a")
    assert bench.lines()[-1]["severity"] == severity
    assert ((await bench.step_of("r", "a"))["status"], bench.worked) == ("READY", [])
    store.before = []
    assert (await bench.send_current("r")).outcome is FlowOutcome.SUCCEEDED


async def test_contention_is_retried_and_then_comes_again(store: WatchedStore) -> None:
    """A writer that never stops changing the run: 503 with the reason, and a claim as soon as it pauses."""

    async def rival(*arguments: Any) -> Any:
        await bench.patch("r", {("n",): time.monotonic_ns()})
        return await inner(*arguments)

    bench = await one_step(store, FIRESTORE_RETRY_MAX_TOTAL_S="0.3")
    document = await bench.run_of("r")
    inner = store.pass_on
    store.pass_on = rival  # type: ignore[method-assign,assignment]
    result = await bench.send("r", document)
    assert (result.outcome, result.reason, result.http_status) == (FlowOutcome.RETRY, "contention", 503)
    store.pass_on = inner  # type: ignore[method-assign]
    assert (await bench.send("r", document)).outcome is FlowOutcome.SUCCEEDED


async def test_more_events_than_may_wait_are_sent_away(store: WatchedStore) -> None:
    """429: no claim is made that must wait for a place."""
    release = asyncio.Event()

    async def work(_: StepContext) -> None:
        await release.wait()

    bench = FlowBench(store, {"CHART_EXPORT": work}, FLOW_STEPS_AT_ONCE="1", CONSUMER_QUEUE_SIZE="2")
    for name in "abcd":
        await bench.put(name, flow_run(x=step()))
    waiting = [asyncio.ensure_future(bench.send(name, flow_run(x=step()))) for name in "abcd"]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    (refused,) = [task.result() for task in done]
    assert (refused.reason, refused.http_status) == ("backpressure_queue_full", 429)
    release.set()
    results = await asyncio.gather(*waiting)
    assert [result.outcome for result in results].count(FlowOutcome.SUCCEEDED) == 3
