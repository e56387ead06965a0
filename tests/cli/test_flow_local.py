"""flow: a run tried in place, and those that were left looked after."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pytest

from tests.cli.flow_shell import DONE_S, RUN, stored, the_line, wait_until
from tests.cli.shell import Serve, Shell
from tests.common.flow_runs import INVALID_RUNS, MODULE, ready, statuses, work_done

# --- run-local ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["no store yet", "a store", "a store a server has"])
def test_run_local_stores_nothing(flow: Shell, serve: Serve, store: str) -> None:
    """The run is worked through here, in its order, and the store is as it was."""
    if store != "no store yet":
        flow.ok("flow", "submit", flow.write("other.json", {"steps": {"a": ready("ELSEWHERE")}}))
        before = stored(flow)
    if store == "a store a server has":
        serve()
    ran = flow.ok("flow", "run-local", "-", stdin=json.dumps(RUN).encode())
    assert [line.split()[:3] for line in ran.out.splitlines()[2:]] == [
        ["a", "GREET", "SUCCEEDED"],
        ["b", "GREET", "SUCCEEDED"],
    ]
    assert work_done(flow.folder) == ["r/b/1", "r/a/1"]
    told = [json.loads(line)["reason"] for line in ran.err.splitlines()]
    assert told.count("step_succeeded") == 2
    if store == "no store yet":
        assert not flow.store.exists()
    else:
        assert stored(flow) == before


def test_run_local_in_json(flow: Shell) -> None:
    """Exactly one document: the run as it ended."""
    ran = flow.ok("flow", "run-local", flow.write("run.json", RUN), "--json", "--steps", MODULE)
    assert ran.json["runId"] == "r"
    assert statuses(ran.json["data"]) == {"a": "SUCCEEDED", "b": "SUCCEEDED"}
    assert ran.json["data"]["steps"]["b"]["outputs"] == {"greeting": "hello Ada"}


@pytest.mark.parametrize(
    ("steps", "ended"),
    [
        ({"a": ready("BREAK"), "b": ready("GREET", "a"), "c": ready()}, ["FAILED", "READY", "SUCCEEDED"]),
        ({"a": ready("ELSEWHERE"), "b": ready()}, ["READY", "SUCCEEDED"]),
    ],
)
def test_run_local_of_a_run_that_is_not_done(flow: Shell, steps: Any, ended: list[str]) -> None:
    """What can be done is, the rest is shown as it is left, and the answer is no."""
    name = flow.write("run.json", {"steps": steps})
    text, document = flow.run("flow", "run-local", name), flow.run("flow", "run-local", name, "--json")
    assert (text.code, document.code) == (1, 1)
    assert [line.split()[2] for line in text.out.splitlines()[2:]] == ended
    assert list(statuses(document.json["data"]).values()) == ended
    assert ("STEP_ERROR: ValueError: it fell" in text.out) is ("FAILED" in ended)


def test_run_local_of_an_invalid_run(flow: Shell) -> None:
    """The same refusals as of submit."""
    for name in ("no step", "dependsOn no step", "our own field"):
        invalid = INVALID_RUNS[name]
        assert invalid.mentions in the_line(flow.run("flow", "run-local", flow.write("run.json", invalid.run)), 2)


# --- sweep -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("attempts", "status"), [("2", "READY"), ("1", "FAILED")])
def test_sweep_after_a_crash(flow: Shell, serve: Serve, attempts: str, status: str) -> None:
    """A step whose worker went silent is READY again, or FAILED where that was its last attempt."""
    flow.environment |= {"FLOW_LEASE_S": "0.3", "FLOW_ATTEMPTS_MAX": attempts}
    server = serve()
    flow.ok("flow", "submit", flow.write("run.json", {"runId": "r", "steps": {"a": ready("SLOW")}}))
    wait_until(flow, "r", a="RUNNING")
    server.kill()
    time.sleep(0.4)
    report = flow.ok("flow", "sweep", "--json").json
    counted = {"reclaimed": int(status == "READY"), "failed": int(status == "FAILED"), "announced": 0, "left": 0}
    assert report == {"types": report["types"], "runs": 1, "through": f"sqlite:{flow.store}", **counted}
    ran = flow.ok("flow", "show", "r")
    assert status in ran.out
    assert ("ATTEMPTS_EXHAUSTED" in ran.out) is (status == "FAILED")


def test_a_store_another_command_has(flow: Shell) -> None:
    """While another command writes to the store, nothing is submitted: 3, and who has it."""
    process = flow.start("ingest", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    until = time.monotonic() + DONE_S
    while not flow.store.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert str(process.pid) in the_line(flow.run("flow", "submit", flow.write("run.json", RUN)), 3)
