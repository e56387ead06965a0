"""flow: runs submitted, shown, tried in place and looked after, with a running server and without one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.flow_shell import OTHER, RUN, stored, the_line, wait_until
from tests.cli.shell import Serve, Shell
from tests.common.flow_runs import INVALID_RUNS, ready, work_done


@pytest.fixture
def either(flow: Shell, start: Callable[[], object]) -> Shell:
    start()
    return flow


# --- submit ------------------------------------------------------------------------------------------------------


def test_submit_and_show(flow: Shell, serve: Serve) -> None:
    """What was submitted without a server is worked through by the next one; what with one, at once."""
    ran = flow.ok("flow", "submit", flow.write("run.json", RUN))
    assert ran.out == "Submitted r.\n"
    assert "millpond flow show r" in ran.err
    assert "READY" in flow.ok("flow", "show", "r").out
    serve()
    flow.ok("flow", "submit", "-", "--run-id", "s", stdin=json.dumps({**RUN, "runId": "s"}).encode())
    for run_id in ("r", "s"):
        wait_until(flow, run_id, a="SUCCEEDED", b="SUCCEEDED")
    title, head, first, second = flow.ok("flow", "show", "r").out.splitlines()
    assert title == "r (nightly)"
    assert head.split() == ["STEP", "TYPE", "STATUS", "ATTEMPT", "STARTED", "FINISHED", "RESULT"]
    assert first.split()[:4] == ["a", "GREET", "SUCCEEDED", "1"]
    assert second.endswith('{"greeting":"hello Ada"}')
    assert sorted(work_done(flow.folder)) == ["r/a/1", "r/b/1", "s/a/1", "s/b/1"]


def test_submit_answers_in_json(either: Shell) -> None:
    """The API's own answer, with the types no worker here does; in text they are noted."""
    run = {"steps": {"a": ready("ELSEWHERE"), "b": ready("ABROAD"), "c": ready()}}
    name = either.write("run.json", run)
    answer = either.ok("flow", "submit", name, "--run-id", "é 7", "--json")
    told = {name: value for name, value in answer.json.items() if name != "through"}
    assert told == {"runId": "é 7", "created": True, "notOurs": ["ABROAD", "ELSEWHERE"]}
    assert "No worker here does ABROAD, ELSEWHERE" in either.ok("flow", "submit", name).err
    assert len(stored(either)) == 2


def test_submit_the_same_run_again(either: Shell) -> None:
    """It is said that nothing was changed, and nothing was."""
    name = either.write("run.json", {"runId": "r", "steps": {"a": ready("ELSEWHERE")}})
    either.ok("flow", "submit", name)
    before = stored(either)
    assert either.ok("flow", "submit", name).out == "r was submitted before; nothing was changed.\n"
    assert either.ok("flow", "submit", name, "--json").json["created"] is False
    assert stored(either) == before


def test_submit_another_run_of_that_id(either: Shell) -> None:
    """The answer is no, in text and in JSON, and the run that is there stays as it is."""
    either.ok("flow", "submit", either.write("run.json", {**RUN, "steps": {"a": ready("ELSEWHERE")}}))
    before = stored(either)
    other = either.write("other.json", OTHER)
    assert "there is another run r" in the_line(either.run("flow", "submit", other), 1)
    ran = either.run("flow", "submit", other, "--json")
    assert (ran.code, ran.json["reason"]) == (1, "run_exists")
    assert stored(either) == before


def test_nothing_is_stored_of_an_invalid_run(either: Shell) -> None:
    """A server refuses the same with the same words, and the store stays empty."""
    for name in ("steps missing", "a circle", "over 1 MiB"):
        invalid = INVALID_RUNS[name]
        ran = either.run("flow", "submit", either.write("run.json", invalid.run), "--json")
        assert invalid.mentions in the_line(ran, 2)
    ran = either.run("ls", "flow_runs", "--json")
    assert (ran.code, ran.json["docs"]) == (1, [])


def test_run_id_against_the_runs_own(either: Shell) -> None:
    """A run is not stored under another id than it gives itself."""
    ran = either.run("flow", "submit", either.write("run.json", RUN), "--run-id", "other")
    assert "calls itself 'r'" in the_line(ran, 2)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b"{}{}"], ids=lambda text: repr(text[:9]))
def test_files_that_are_not_json(flow: Shell, text: bytes) -> None:
    """Standard input is named, and where to read more."""
    line = the_line(flow.run("flow", "submit", "-", stdin=text), 2)
    assert "<stdin> is not JSON" in line
    assert "millpond flow submit --help" in line


def test_settings_that_do_not_fit(flow: Shell) -> None:
    """The setting is named; of a module also why it cannot be used."""
    name = flow.write("run.json", RUN)
    for command in ("submit", "run-local"):
        line = the_line(flow.run("flow", command, name, "--steps", "nowhere"), 2)
        assert line.startswith("millpond: STEPS=nowhere: cannot be imported")
    assert "STORE=memory" in the_line(flow.run("flow", "submit", name, "--store", "memory"), 2)


# --- show --------------------------------------------------------------------------------------------------------


def test_show_what_is_not_there(flow: Shell) -> None:
    """In JSON the usual document of what is not found, as of `millpond get`."""
    flow.ok("flow", "submit", flow.write("run.json", RUN))
    assert "there is no run nowhere" in the_line(flow.run("flow", "show", "nowhere"), 1)
    ran = flow.run("flow", "show", "nowhere", "--json")
    assert (ran.code, ran.json["reason"]) == (1, "not_found")


def test_show_escapes_what_no_terminal_should_see(flow: Shell) -> None:
    """Keys and types come from who submits the run, and cannot drive a terminal."""
    run = {"runId": "r", "flowKey": "\x1b[31m", "steps": {"a": ready("\x1b[2J\u202eX")}}
    flow.ok("flow", "submit", flow.write("run.json", run))
    for out in (flow.ok("flow", "show", "r").out, flow.on_terminal("flow", "show", "r").out):
        assert "\\x1b[2J" in out
        assert not any(raw in out for raw in ("\x1b[31m", "\x1b[2J", "\u202e"))


# --- sweep -------------------------------------------------------------------------------------------------------


def test_sweep_where_there_is_nothing(either: Shell) -> None:
    """It says so, in either form."""
    report = either.ok("flow", "sweep", "--json").json
    assert {"BREAK", "GREET", "SLOW"} <= set(report.pop("types"))
    assert report.pop("through").startswith(("http://127.0.0.1:", "sqlite:"))
    assert report == {"runs": 0, "reclaimed": 0, "failed": 0, "announced": 0, "left": 0}
    assert "Looked at 0 runs for " in either.ok("flow", "sweep").out
