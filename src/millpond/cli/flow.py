"""`millpond flow`: submits a flow run, shows one, sweeps unclaimed steps, and runs one locally.

Submitting and sweeping go through `backend`; a local run is kept in memory, and never written to the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, BinaryIO, TypeVar

import click
import msgspec

from millpond.cli import exit_codes
from millpond.cli.backend import Answer, open_backend
from millpond.cli.escape import clean
from millpond.cli.groups import SuggestingGroup
from millpond.cli.options import example, json_option, load_settings, steps_option, store_option
from millpond.cli.output import Column, print_facts, print_json, print_line, print_note, print_table
from millpond.cli.store import open_for_reading
from millpond.core.collections import FLOW_RUNS
from millpond.core.errors import RunExists
from millpond.core.model import Document, Ref, Snapshot
from millpond.core.ports import StoreWithCatalog
from millpond.flow import run_document as runs
from millpond.flow import statuses
from millpond.flow.event_filter import UPDATED_TYPE, FlowEvent
from millpond.flow.results import FlowOutcome
from millpond.flow.service import Flow
from millpond.flow.submit import id_of
from millpond.service.steps import load_configured_steps
from millpond.service.stores import open_store
from millpond.settings import Settings
from millpond.stores.memory import MemoryStore
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics

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
    """The arguments FILE, which holds a run, and --run-id."""
    text = "The run's id; by default its own runId, else a new one."
    named = click.option("--run-id", metavar="ID", help=text)(command)
    return click.argument("file", type=click.File("rb"))(named)


@click.group(
    cls=SuggestingGroup,
    epilog=example("millpond flow submit run.json", "millpond flow show RUN_ID", "millpond flow sweep"),
)
def flow() -> None:
    """Submit, show and sweep flow runs."""


@flow.command(epilog=example("millpond flow submit run.json", "millpond flow submit run.json --run-id nightly-7"))
@run_arguments
@store_option
@steps_option
@json_option
@click.pass_context
def submit(ctx: click.Context, file: BinaryIO, run_id: str | None, *, as_json: bool) -> None:
    """Store a flow run and have it worked on.

    FILE is the run as a JSON object (- is standard input). The running server works on it; on an embedded store
    without a server, the next server does. On Firestore the run is created and updated, and the worker that gets
    the event works on it. Submitting the same run again changes nothing. Exits with 1 if another run has its id.
    """
    run = decode_run(file)
    try:
        # The id is chosen once, here, so that a retry submits the same run.
        answer = asyncio.run(_submit(load_settings(), run, run_id or id_of(run)))
    except RunExists as error:
        if not as_json:
            raise
        print_json({"reason": error.reason, "error": str(error)})
        ctx.exit(exit_codes.NEGATIVE)
    if as_json:
        print_json(answer)
        return
    shown = clean(str(answer["runId"]))
    print_line(
        f"Submitted {shown}." if answer["created"] else f"{shown} was submitted before; nothing was changed."
    )
    if answer["notOurs"]:
        print_note(f"No worker here does {', '.join(answer['notOurs'])}: those steps wait for one that does.")
    print_note(f"Through {answer['through']}. Show it: millpond flow show {shown}")


@flow.command(epilog=example("millpond flow show nightly-7", "millpond flow show nightly-7 --json"))
@click.argument("run_id", metavar="RUN_ID")
@store_option
@json_option
@click.pass_context
def show(ctx: click.Context, run_id: str, *, as_json: bool) -> None:
    """Show a run's steps and how each of them ended.

    Reads the store directly, also while a server runs. Exits with 1 if there is no such run.
    """
    found = asyncio.run(_read(load_settings(), run_id))
    if found.data is None:
        text = f"there is no run {run_id}"
        if not as_json:
            raise exit_codes.NegativeAnswer(f"{text}: `millpond ls {FLOW_RUNS}` lists the runs")
        print_json({"reason": "not_found", "error": text})
        ctx.exit(exit_codes.NEGATIVE)
    if as_json:
        print_json({"runId": run_id, "version": str(found.version), "data": found.data})
        ctx.exit(exit_codes.OK)
    print_steps(run_id, found.data)


@flow.command(epilog=example("millpond flow sweep", "millpond flow sweep --json"))
@store_option
@steps_option
@json_option
def sweep(*, as_json: bool) -> None:
    """Recover steps that no worker works on.

    Steps whose worker stopped responding become READY again, or FAILED after their last attempt
    (FLOW_ATTEMPTS_MAX). READY steps that no worker claimed are announced. The command itself works on no step: on
    Firestore each change is an event; on an embedded store the running server, or the next one, claims the step.
    Only steps of loaded types are examined (--steps; if a server runs, its own). Exits with 1 if a run could not be
    changed.
    """
    report = asyncio.run(_sweep(load_settings()))
    if as_json:
        print_json(report)
        return
    runs = "1 run" if report["runs"] == 1 else f"{report['runs']} runs"
    print_line(f"Looked at {runs} for steps of type {', '.join(report['types'])}, through {report['through']}.")
    print_facts(
        [
            ("steps READY again", report["reclaimed"]),
            ("steps FAILED after their last attempt", report["failed"]),
            ("runs announced", report["announced"]),
        ]
    )
    if report["left"]:
        raise exit_codes.NegativeAnswer(f"{report['left']} runs could not be changed; the log says why")


@flow.command(
    "run-local", epilog=example("millpond flow run-local run.json", "millpond flow run-local - < run.json")
)
@run_arguments
@store_option
@steps_option
@json_option
@click.pass_context
def run_local(ctx: click.Context, file: BinaryIO, run_id: str | None, *, as_json: bool) -> None:
    """Work on a flow run in this process, and show how it ended.

    FILE is the run as a JSON object (- is standard input). The worker is the server's, but the run is kept in
    memory only: steps read documents of the store and write files to ARTIFACTS_DIR, and nothing else is changed.
    Exits with 1 if a step FAILED, or was not worked on.
    """
    run_id, run = asyncio.run(_work_through(load_settings(), decode_run(file), run_id))
    if as_json:
        print_json({"runId": run_id, "data": run})
    else:
        print_steps(run_id, run)
    done = all(step["status"] == statuses.SUCCEEDED for step in run["steps"].values())
    ctx.exit(exit_codes.OK if done else exit_codes.NEGATIVE)


async def _read(settings: Settings, run_id: str) -> Snapshot:
    async with open_for_reading(settings) as store:
        return (await store.read([Ref(FLOW_RUNS, run_id)]))[0]


async def _submit(settings: Settings, run: Any, run_id: str) -> Answer:
    async with open_backend(settings) as backend:
        return {**await backend.submit(run, run_id), "through": backend.name}


async def _sweep(settings: Settings) -> Answer:
    async with open_backend(settings) as backend:
        return {**await backend.sweep(), "through": backend.name}


async def _work_through(settings: Settings, run: Any, run_id: str | None) -> tuple[str, Document]:
    """Work on all steps. Returns the run's id, and the run at its end."""
    store, metrics = MemoryStore(), Metrics()
    # Standard output is for the answer; the worker's log lines go to standard error.
    log = Log(sys.stderr.buffer, env=settings.env, metrics=metrics)
    try:
        async with _documents(settings) as documents:
            steps = load_configured_steps(settings)
            flow = Flow(
                settings, store, log, metrics, lambda: time.time_ns() // 1_000, steps=steps, documents=documents
            )
            chosen = (await flow.submit(run, run_id)).run_id
            number, outcome = 0, FlowOutcome.SUCCEEDED
            # No other worker has this run, so a lost race means that an attempt was given up, and counted.
            while outcome in {FlowOutcome.SUCCEEDED, FlowOutcome.FAILED, FlowOutcome.LOST_RACE}:
                number += 1
                event = FlowEvent(run_id=chosen, id=f"local-{number}", type=UPDATED_TYPE)
                outcome = (await flow.handle(event)).outcome
            (found,) = await store.read([Ref(FLOW_RUNS, chosen)])
            return chosen, found.data or {}
    finally:
        log.close()


@contextlib.asynccontextmanager
async def _documents(settings: Settings) -> AsyncIterator[StoreWithCatalog]:
    """The store that steps may read; if it does not exist yet, an empty one."""
    path = settings.store_path
    missing = path is not None and not path.exists()
    store: StoreWithCatalog = MemoryStore() if missing else open_store(settings, read_only=True)
    try:
        yield store
    finally:
        await store.close()


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
    return [step_id, runs.type_of(step), step.get("status"), attempt, *times, result]
