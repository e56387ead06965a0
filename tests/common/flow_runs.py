"""Flow runs for tests of the command and the server: steps of a user's own, runs, and every run that is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

MODULE = "own_steps"
# Each notes in a file that it was called, so that a test sees how often and in which order.
_SOURCE = '''
import time

from millpond import step


def note(context):
    with open("work.txt", "a", encoding="utf-8") as work:
        work.write(f"{context.run_id}/{context.step_id}/{context.attempt}\\n")


@step("GREET")
def greet(context):
    note(context)
    return {"greeting": "hello " + context.inputs.get("name", "you")}


@step("SLOW")
def slow(context):
    """Never done in time by the first who tries."""
    note(context)
    if context.attempt == 1:
        time.sleep(30)
    return {"attempt": context.attempt}


@step("BREAK")
def fall(context):
    note(context)
    raise ValueError("it fell")
'''


def write_steps(folder: Path) -> str:
    """The module in a folder; its name, for STEPS."""
    (folder / f"{MODULE}.py").write_text(_SOURCE, encoding="utf-8")
    return MODULE


def work_done(folder: Path) -> list[str]:
    """`run/step/attempt` of every call of a step, in order."""
    noted = folder / "work.txt"
    return noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []


def ready(step_type: str = "GREET", *depends_on: str, **inputs: Any) -> dict[str, Any]:
    step: dict[str, Any] = {"status": "READY", "stepType": step_type, "inputs": inputs}
    return {**step, "dependsOn": list(depends_on)} if depends_on else step


def statuses(run: Any) -> dict[str, str]:
    return {step_id: step["status"] for step_id, step in run["steps"].items()}


class Invalid(NamedTuple):
    """A run that is never stored, and what its refusal mentions."""

    run: Any
    mentions: str


def _with_steps(steps: Any) -> dict[str, Any]:
    return {"runId": "never", "steps": steps}


def _named(run_id: Any) -> dict[str, Any]:
    return {"runId": run_id, "steps": {"a": ready()}}


_STEPS = "steps must be a map of step id to step, with at least one step"
INVALID_RUNS = {
    "a list": Invalid([], "a JSON object, not a list"),
    "null": Invalid(None, "a JSON object, not null"),
    "steps missing": Invalid({"runId": "never"}, _STEPS),
    "steps a list": Invalid(_with_steps([ready()]), _STEPS),
    "no step": Invalid(_with_steps({}), _STEPS),
    "a step that is no map": Invalid(_with_steps({"a": "READY"}), "step a: a step must be a map, not text"),
    "a step without status": Invalid(_with_steps({"a": {"stepType": "GREET"}}), "step a: status is missing"),
    "a status that is no text": Invalid(_with_steps({"a": {**ready(), "status": 1}}), "step a: status"),
    "a status in small letters": Invalid(_with_steps({"a": {**ready(), "status": "ready"}}), "READY in capitals"),
    "a step without type": Invalid(_with_steps({"a": {"status": "READY"}}), "step a: stepType is missing"),
    "a type that is no text": Invalid(_with_steps({"a": {"status": "READY", "type": 1}}), "step a: stepType"),
    "a step id that drives terminals": Invalid(_with_steps({"\x1b[2J": ready()}), "control characters"),
    "dependsOn a text": Invalid(
        _with_steps({"a": {**ready(), "dependsOn": "b"}}), "step a: dependsOn must be a list"
    ),
    "dependsOn a number": Invalid(_with_steps({"a": {**ready(), "dependsOn": [1]}}), "step a: dependsOn"),
    "dependsOn no step": Invalid(_with_steps({"a": ready("GREET", "b")}), "dependsOn names b"),
    "dependsOn itself": Invalid(_with_steps({"a": ready("GREET", "a")}), "wait for each other: a"),
    "a circle": Invalid(
        _with_steps({"a": ready("GREET", "c"), "b": ready("GREET", "a"), "c": ready("GREET", "b"), "d": ready()}),
        "wait for each other: a → b → c → a",
    ),
    "runId a number": Invalid(_named(5), "runId must be text, not a number"),
    "runId a path": Invalid(_named("a/b"), "not a legal document path"),
    "runId reserved": Invalid(_named("__a__"), "not a legal document path"),
    "runId of dots": Invalid(_named(".."), "not a legal document path"),
    "runId too long": Invalid(_named("é" * 751), "not a legal document path"),
    "our own field": Invalid({**_named("never"), "millpond": {}}, "the field millpond is written by Millpond"),
    "a list in a list": Invalid({**_named("never"), "x": [[1]]}, "a list stands directly inside a list"),
    "an integer of 65 bits": Invalid({**_named("never"), "x": 2**63}, "an integer is over 64 bits"),
    "a reserved name": Invalid({**_named("never"), "__x__": 1}, "reserved"),
    "over 1 MiB": Invalid({**_named("never"), "x": "x" * 1_048_577}, "over the 1048576 a document may have"),
    # What Millpond adds to it counts, too.
    "just under 1 MiB": Invalid({**_named("never"), "x": "x" * 1_000_000}, "claims and outputs need room for"),
    "no room for the claims of many steps": Invalid(
        {**_with_steps({f"s{n}": ready() for n in range(1_000)}), "x": "x" * 600_000}, "need room for"
    ),
}
