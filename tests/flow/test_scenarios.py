"""The six scenarios a flow-run worker must master, by name, on every store, from the event to the document."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from millpond.flow.results import FlowOutcome
from millpond.flow.run_document import Survey, survey
from tests.common.eventarc import UPDATED
from tests.flow.bench import FlowBench, WatchedStore, flow_run, step

REQUIRED = {"service", "env", "runId", "eventId", "severity", "message"}


async def test_scenario_1_a_realistic_event_is_parsed(store: WatchedStore) -> None:
    """The run is found by the document's path, its steps are read, and the line has every field of the runbook."""
    bench = FlowBench(store, ENV="prod")
    document = flow_run(chart=step())
    await bench.put("run-7", document)
    result = await bench.send("run-7", document, event_id="event-9")
    assert (result.outcome, result.run_id, result.step_id) == (FlowOutcome.SUCCEEDED, "run-7", "chart")
    line = bench.lines()[-1]
    assert line.keys() >= {*REQUIRED, "flowKey", "stepId", "eventType", "subject", "reason"}
    assert (line["service"], line["env"], line["severity"]) == ("millpond", "prod", "INFO")
    assert (line["runId"], line["eventId"], line["reason"]) == ("run-7", "event-9", "step_succeeded")
    assert (line["flowKey"], line["stepId"]) == ("daily-charts", "chart")
    assert (line["eventType"], line["subject"]) == (UPDATED, "documents/flow_runs/run-7")


async def test_scenario_2_no_ready_step_is_a_no_op(store: WatchedStore) -> None:
    """No READY step of a type we do: a result that says so, one INFO line, and the store was not asked."""
    bench = FlowBench(store)
    document = flow_run(a=step("PENDING"), b=step(step_type="MAIL"))
    await bench.put("r", document)
    result = await bench.send("r", document)
    assert (result.outcome, result.reason, result.http_status) == (FlowOutcome.NOOP, "no_ready_step", 200)
    assert store.calls == 0
    (line,) = bench.lines()
    assert line.keys() >= REQUIRED
    assert (line["severity"], line["reason"], line["runId"]) == ("INFO", "no_ready_step", "r")


async def test_scenario_3_the_smallest_ready_step_is_picked(store: WatchedStore) -> None:
    """Lexicographically, by step id; and only that one is claimed."""
    bench = FlowBench(store)
    document = flow_run(z=step(), b10=step(), b9=step(), a=step("SUCCEEDED"))
    await bench.put("r", document)
    result = await bench.send("r", document)
    assert (result.outcome, result.step_id) == (FlowOutcome.SUCCEEDED, "b10")
    assert store.moves == [("r", "b10", "RUNNING"), ("r", "b10", "SUCCEEDED")]
    assert (await bench.step_of("r", "b9"))["status"] == "READY"


@pytest.mark.parametrize("names", [*itertools.permutations(("B", "a10", "a9", "b"))], ids=" ".join)
def test_scenario_3_whatever_the_order_of_the_map(names: tuple[str, ...]) -> None:
    """An event's protobuf has an order of its own, so that the one above cannot show it."""
    found = survey({"steps": {name: step() for name in names}}, {"CHART_EXPORT"}, 0)
    assert isinstance(found, Survey)
    assert found.ready == ["B", "a10", "a9", "b"]


async def test_scenario_4_a_double_event_is_harmless(store: WatchedStore) -> None:
    """The very same event again, while the step runs and when it is done: no second claim, no second work."""

    async def meanwhile(_: Any) -> None:
        other = FlowBench(store)
        seconds.append(await other.send("r", document))
        assert other.worked == []

    seconds: list[Any] = []
    bench = FlowBench(store, {"CHART_EXPORT": meanwhile})
    document = flow_run(chart=step())
    await bench.put("r", document)
    first = await bench.send("r", document)
    third = await bench.send("r", document)
    assert (first.outcome, third.outcome) == (FlowOutcome.SUCCEEDED, FlowOutcome.LOST_RACE)
    assert [result.outcome for result in seconds] == [FlowOutcome.LOST_RACE]
    # So is the event that the finalise itself causes.
    assert (await bench.send_current("r")).reason == "no_ready_step"
    assert store.moves == [("r", "chart", "RUNNING"), ("r", "chart", "SUCCEEDED")]
    again = [line for line in bench.lines() if line["reason"] in {"lost_race", "no_ready_step"}]
    assert [line["severity"] for line in again] == ["INFO"] * 2


@pytest.mark.parametrize("status", ["RUNNING", "SUCCEEDED", "FAILED"])
async def test_scenario_5_a_step_that_is_not_ready_is_left_alone(store: WatchedStore, status: str) -> None:
    """Whatever it is, it is not ours to begin."""
    bench = FlowBench(store)
    document = flow_run(chart=step(status, note="theirs"))
    await bench.put("r", document)
    result = await bench.send("r", document)
    assert (result.outcome, result.reason, bench.worked) == (FlowOutcome.NOOP, "no_ready_step", [])
    assert await bench.run_of("r") == document
    assert store.moves == []


INVALID: dict[str, Any] = {
    "steps missing": {},
    "steps null": {"steps": None},
    "steps a list": {"steps": [step()]},
    "steps text": {"steps": "READY"},
    "a step that is no map": {"steps": {"a": "READY"}},
    "a step without status": {"steps": {"a": {"stepType": "CHART_EXPORT"}}},
    "a status that is no text": {"steps": {"a": {"stepType": "CHART_EXPORT", "status": 1}}},
    "a step without stepType": {"steps": {"a": {"status": "READY"}}},
    "dependsOn that is text": {"steps": {"a": step(dependsOn="b")}},
    "dependsOn of numbers": {"steps": {"a": step(dependsOn=[1])}},
}


@pytest.mark.parametrize("name", INVALID)
async def test_scenario_6_malformed_runs_are_ignored(store: WatchedStore, name: str) -> None:
    """Answered 200 and logged as invalid_steps; the run stays as it is and the store was not asked."""
    bench = FlowBench(store)
    result = await bench.send("r", INVALID[name])
    assert (result.outcome, result.reason, result.http_status) == (FlowOutcome.FILTERED, "invalid_steps", 200)
    assert store.calls == 0
    assert set(bench.reasons()) == {"invalid_steps"}
    assert bench.lines()[-1]["severity"] == "INFO"


@pytest.mark.parametrize("kind", ["created", "deleted", "written", "created.withAuthContext", "updatedd", ""])
async def test_scenario_6_events_that_are_no_updates_are_ignored(store: WatchedStore, kind: str) -> None:
    """Also where the run they show has a READY step."""
    bench = FlowBench(store)
    event_type = f"google.cloud.firestore.document.v1.{kind}"
    result = await bench.send("r", flow_run(chart=step()), event_type=event_type)
    assert (result.outcome, result.reason, result.http_status) == (FlowOutcome.FILTERED, "event_filtered", 200)
    (line,) = bench.lines()
    assert (line["severity"], line["reason"], store.calls) == ("INFO", "event_filtered", 0)
    assert line.keys() >= REQUIRED
