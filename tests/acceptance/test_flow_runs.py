"""Flow runs on a real server: submitted, worked through in order, and finished whatever happens to the process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.common.flow_runs import INVALID_RUNS, Invalid, ready, statuses, work_done, write_steps
from tests.common.push import JSON
from tests.common.server import Answer, Server, Start, answer_of

DONE_S = 10.0


def submit(server: Server, run: Any, run_id: str | None = None) -> Answer:
    params = {} if run_id is None else {"runId": run_id}
    content = run if isinstance(run, bytes) else json.dumps(run).encode()
    return answer_of(server.http.post("/api/flow-runs", content=content, params=params, headers=JSON))


def sweep(server: Server) -> Answer:
    return answer_of(server.http.post("/api/flow-runs/sweep", headers=JSON))


def ended(server: Server, run_id: str, **wanted: str) -> dict[str, Any]:
    """The run's steps, once they have these statuses."""
    until = time.monotonic() + DONE_S
    while True:
        run = server.document(f"flow_runs/{run_id}")
        assert run is not None
        if statuses(run) == wanted:
            steps: dict[str, Any] = run["steps"]
            return steps
        assert time.monotonic() < until, statuses(run)
        time.sleep(0.02)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="module")
def worker(start: Start, folder: Path) -> Server:
    return start(folder, STEPS=write_steps(folder))


# --- submitting --------------------------------------------------------------------------------------------------


def test_a_run_is_worked_through_in_the_order_it_asks_for(worker: Server, folder: Path) -> None:
    """Each step begins when those it depends on have succeeded, and its outputs stand in the run."""
    steps = {"a": ready("GREET", "b", "c"), "b": ready("GREET", "c"), "c": ready(name="Ada")}
    answer = submit(worker, {"runId": "in-order", "flowKey": "nightly", "steps": steps})
    assert (answer.status, answer.json) == (201, {"runId": "in-order", "created": True, "notOurs": []})
    ended_steps = ended(worker, "in-order", a="SUCCEEDED", b="SUCCEEDED", c="SUCCEEDED")
    assert [line for line in work_done(folder) if line.startswith("in-order/")] == [
        f"in-order/{step_id}/1" for step_id in "cba"
    ]
    assert ended_steps["c"]["outputs"] == {"greeting": "hello Ada"}
    assert ended_steps["c"]["claim"]["idempotencyKey"] == "in-order+c"
    assert ended_steps["a"]["startedAt"] >= ended_steps["b"]["finishedAt"] >= ended_steps["c"]["finishedAt"]


def test_a_step_that_fails(worker: Server, folder: Path) -> None:
    """It is FAILED with its code and text, what depends on it never begins, and the rest is done."""
    steps = {"a": ready("BREAK"), "b": ready("GREET", "a"), "c": ready()}
    assert submit(worker, {"runId": "falls", "steps": steps}).status == 201
    found = ended(worker, "falls", a="FAILED", b="READY", c="SUCCEEDED")
    assert found["a"]["error"] == {"code": "STEP_ERROR", "message": "ValueError: it fell"}
    assert "falls/b/1" not in work_done(folder)


def test_types_that_nobody_here_does(worker: Server) -> None:
    """The answer names them, and their steps wait for a worker that does."""
    steps = {"a": ready(), "b": ready("ELSEWHERE"), "c": ready("ABROAD"), "d": ready("ABROAD")}
    answer = submit(worker, {"steps": steps}, run_id="not ours & é")
    assert (answer.status, answer.json["notOurs"]) == (201, ["ABROAD", "ELSEWHERE"])
    assert answer.json["runId"] == "not ours & é"
    ended(worker, "not ours & é", a="SUCCEEDED", b="READY", c="READY", d="READY")


def test_the_same_run_again(worker: Server, folder: Path) -> None:
    """It is answered 200 and nothing is done twice, also when it comes after the run has ended."""
    run = {"runId": "twice", "steps": {"a": ready()}}
    assert submit(worker, run).status == 201
    ended(worker, "twice", a="SUCCEEDED")
    for again in (submit(worker, run), submit(worker, run, "twice"), submit(worker, dict(reversed(run.items())))):
        assert (again.status, again.json) == (200, {"runId": "twice", "created": False, "notOurs": []})
    assert [line for line in work_done(folder) if line.startswith("twice/")] == ["twice/a/1"]


def test_another_run_of_that_id(worker: Server) -> None:
    """It is refused with 409, and the run that is there stays as it is."""
    assert submit(worker, {"runId": "taken", "steps": {"a": ready()}}).status == 201
    ended(worker, "taken", a="SUCCEEDED")
    before = worker.documents(("flow_runs",))
    answer = submit(worker, {"runId": "taken", "steps": {"a": ready(name="Eve")}})
    assert (answer.status, answer.json["reason"]) == (409, "run_exists")
    assert "taken" in answer.json["error"]
    assert worker.documents(("flow_runs",)) == before


def test_a_run_without_an_id(worker: Server) -> None:
    """It is given one, another each time."""
    run = {"steps": {"a": ready("ELSEWHERE")}}
    given = [submit(worker, one).json["runId"] for one in (run, run, {**run, "runId": ""})]
    assert len(set(given)) == 3
    assert [(worker.document(f"flow_runs/{run_id}") or {})["runId"] for run_id in given] == given


def test_two_ids(worker: Server) -> None:
    """A run that calls itself otherwise than it is to be stored is refused."""
    answer = submit(worker, {"runId": "one", "steps": {"a": ready()}}, run_id="two")
    assert (answer.status, answer.json["reason"]) == (400, "invalid_run")
    assert (worker.document("flow_runs/one"), worker.document("flow_runs/two")) == (None, None)


NOT_JSON = {"nothing": b"", "not JSON": b"{", "not UTF-8": b'{"runId":"\xff"}', "too deep": b"[" * 100_000}
REFUSED: dict[str, Invalid] = {
    **INVALID_RUNS,
    **{name: Invalid(body, "the body is not JSON") for name, body in NOT_JSON.items()},
}


@pytest.mark.parametrize("invalid", REFUSED.values(), ids=REFUSED)
def test_runs_that_are_refused(worker: Server, invalid: Invalid) -> None:
    """400 with what is wrong, nothing stored, and one line in the log."""
    worker.fence()
    before = worker.documents(("flow_runs",))
    answer = submit(worker, invalid.run)
    assert (answer.status, answer.json.get("reason")) == (400, "invalid_run"), answer
    assert set(answer.json) == {"reason", "error"}
    assert invalid.mentions in answer.json["error"]
    # The runs of other tests may still be told of.
    (line,) = [line for line in map(json.loads, worker.fence()) if line.get("path") == "/api/flow-runs"]
    assert (line["severity"], line["reason"], line["http_status"]) == ("WARNING", "invalid_run", 400)
    assert worker.documents(("flow_runs",)) == before


def test_a_sweep_where_nothing_is_left(worker: Server) -> None:
    """It counts the runs and changes none."""
    before = worker.documents(("flow_runs",))
    answer = sweep(worker)
    assert answer.status == 200
    assert {"BREAK", "GREET", "SLOW"} <= set(answer.json.pop("types"))
    assert answer.json == {"runs": len(before), "reclaimed": 0, "failed": 0, "announced": 0, "left": 0}
    assert worker.documents(("flow_runs",)) == before


# --- processes that end ------------------------------------------------------------------------------------------


def slow_run(server: Server) -> None:
    """A run whose first step is being worked on, and will not be done for a long time."""
    assert submit(server, {"runId": "slow", "steps": {"a": ready("SLOW"), "b": ready("GREET", "a")}}).status == 201
    server.wait_for(lambda line: '"step_claimed"' in line)


def test_a_server_that_was_killed(start: Start, tmp_path: Path) -> None:
    """The next one on the store takes the step over once its lease is over, and finishes the run."""
    environment = {"STEPS": write_steps(tmp_path), "FLOW_LEASE_S": "1"}
    killed = start(tmp_path, **environment)
    slow_run(killed)
    killed.kill()
    server = start(tmp_path, **environment)
    steps = ended(server, "slow", a="SUCCEEDED", b="SUCCEEDED")
    assert steps["a"]["outputs"] == {"attempt": 2}
    assert work_done(tmp_path) == ["slow/a/1", "slow/a/2", "slow/b/1"]


def test_a_server_that_is_told_to_stop(start: Start, tmp_path: Path) -> None:
    """It ends within 8 s although a step still runs, and gives the step back: READY, and no attempt lost."""
    server = start(tmp_path, STEPS=write_steps(tmp_path))
    slow_run(server)
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 8
    assert any('"shutting_down"' in line and '"stepId":"a"' in line for line in server.output)
    # Without the steps: this one only looks.
    onlooker = start(tmp_path)
    steps = ended(onlooker, "slow", a="READY", b="READY")
    assert steps["a"]["claim"]["attempt"] == 0
    assert "token" not in steps["a"]["claim"]
