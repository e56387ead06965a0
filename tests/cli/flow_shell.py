"""What the tests of `millpond flow` share: a run, what is stored, and how a command ends that does nothing."""

from __future__ import annotations

import time
from typing import Any

from tests.cli.shell import Shell
from tests.common.flow_runs import ready, statuses
from tests.common.process import Ran

RUN = {"runId": "r", "flowKey": "nightly", "steps": {"a": ready("GREET", "b"), "b": ready(name="Ada")}}
OTHER = {**RUN, "flowKey": "weekly"}
DONE_S = 10.0


def stored(shell: Shell) -> Any:
    """Every run in the store, as it is."""
    return shell.ok("ls", "flow_runs", "--json").json["docs"]


def wait_until(shell: Shell, run_id: str, **wanted: str) -> None:
    """Come back when the run's steps have these statuses."""
    until = time.monotonic() + DONE_S
    while statuses(run := shell.ok("flow", "show", run_id, "--json").json["data"]) != wanted:
        assert time.monotonic() < until, run


def the_line(ran: Ran, code: int) -> str:
    """The one line of an error that left standard output empty."""
    assert (ran.code, ran.out) == (code, ""), ran
    (line,) = ran.err.splitlines()
    return line
