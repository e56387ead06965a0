"""What the commands of `millpond flow` share: a run from a file, and a run as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import click
import msgspec

from millpond.cli.output import Column, clean, print_line, print_table
from millpond.core.model import Document
from millpond.flow.run import type_of

F = TypeVar("F", bound=Callable[..., Any])
_STEPS = (
    Column("step"),
    Column("type"),
    Column("status"),
    Column("attempt", right=True),
    Column("started"),
    Column("finished"),
    Column("result", clip=True),
)


def run_arguments(command: F) -> F:
    """The file a run is in, and the id it is to have."""
    text = "The run's id; by default its own runId, else a new one."
    named = click.option("--run-id", metavar="ID", help=text)(command)
    return click.argument("file", type=click.File("rb"))(named)


def decode_run(file: BinaryIO) -> Any:
    try:
        return msgspec.json.decode(file.read())
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise click.UsageError(f"{file.name} is not JSON: {error!s:.100}", click.get_current_context()) from None


def print_steps(run_id: str, run: Document) -> None:
    flow_key = run.get("flowKey")
    print_line(clean(f"{run_id} ({flow_key})" if isinstance(flow_key, str) else run_id))
    steps = run.get("steps")
    if isinstance(steps, dict):
        print_table(_STEPS, [_row(step_id, steps[step_id]) for step_id in sorted(steps)])


def _row(step_id: str, step: Any) -> list[Any]:
    if not isinstance(step, dict):
        return [step_id, None, None, None, None, None, step]
    claim = step.get("claim")
    attempt = claim.get("attempt") if isinstance(claim, dict) else None
    error = step.get("error")
    result = error if error is not None else step.get("outputs")
    if isinstance(error, dict) and error.keys() == {"code", "message"}:
        result = f"{error['code']}: {error['message']}"
    times = (step.get("startedAt"), step.get("finishedAt"))
    return [step_id, type_of(step), step.get("status"), attempt, *times, result]
