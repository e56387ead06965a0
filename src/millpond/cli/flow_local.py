"""`millpond flow run-local`: the worker on a run from a file, in this process; nothing is stored but its files."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from typing import Any, BinaryIO

import click

from millpond.cli import exits
from millpond.cli.flow_file import decode_run, print_steps, run_arguments
from millpond.cli.options import example, json_option, load_settings, steps_option, store_option
from millpond.cli.output import print_json
from millpond.core.collections import FLOW_RUNS
from millpond.core.model import Document, Ref
from millpond.core.ports import StoreWithCatalog
from millpond.flow import run as runs
from millpond.flow.event import UPDATED_TYPE, FlowEvent
from millpond.flow.results import FlowOutcome
from millpond.flow.service import Flow
from millpond.service.steps import load_configured_steps
from millpond.service.stores import open_store
from millpond.settings import Settings
from millpond.stores.memory import MemoryStore
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics


@click.command(
    "run-local", epilog=example("millpond flow run-local run.json", "millpond flow run-local - < run.json")
)
@run_arguments
@store_option
@steps_option
@json_option
@click.pass_context
def run_local(ctx: click.Context, file: BinaryIO, run_id: str | None, *, as_json: bool) -> None:
    """Work through a flow run here and now, and show how it ended.

    FILE is the run as a JSON object (- is standard input). The same worker as a server's, event by event, but the
    run is kept in memory only: steps read documents of the store and write files to ARTIFACTS_DIR, and nothing else
    is changed. Exits with 1 where a step FAILED, or is left undone.
    """
    run_id, run = asyncio.run(_work_through(load_settings(), decode_run(file), run_id))
    if as_json:
        print_json({"runId": run_id, "data": run})
    else:
        print_steps(run_id, run)
    done = all(step["status"] == runs.SUCCEEDED for step in run["steps"].values())
    ctx.exit(exits.OK if done else exits.NEGATIVE)


async def _work_through(settings: Settings, run: Any, run_id: str | None) -> tuple[str, Document]:
    """The run's id, and the run when there is nothing left to do."""
    store, metrics = MemoryStore(), Metrics()
    # Standard output belongs to the answer; what the worker has to say goes to standard error.
    log = Log(sys.stderr.buffer, env=settings.env, metrics=metrics)
    try:
        async with _documents(settings) as documents:
            flow = Flow(
                settings,
                store,
                log,
                metrics,
                lambda: time.time_ns() // 1_000,
                steps=load_configured_steps(settings),
                documents=documents,
            )
            chosen = (await flow.submit(run, run_id)).run_id
            number, outcome = 0, FlowOutcome.SUCCEEDED
            # Nobody else works on it, so a race is lost only where an attempt was given up, and counted.
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
    """What steps may read; a store that is not there yet is an empty one."""
    path = settings.store_path
    missing = path is not None and not path.exists()
    store: StoreWithCatalog = MemoryStore() if missing else open_store(settings, read_only=True)
    try:
        yield store
    finally:
        await store.close()
