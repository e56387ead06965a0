"""`millpond flow`: submit a flow run, look at one, try one in place, look after those that were left."""

from __future__ import annotations

import asyncio
from typing import Any, BinaryIO
from urllib.parse import quote

import click
import msgspec

from millpond.cli import exits
from millpond.cli.flow_file import decode_run, print_steps, run_arguments
from millpond.cli.flow_local import run_local
from millpond.cli.http_client import Reply
from millpond.cli.local import open_for_reading, open_service, refuse_memory
from millpond.cli.options import example, json_option, load_settings, steps_option, store_option
from millpond.cli.output import clean, print_facts, print_json, print_line, print_note
from millpond.cli.retry import patiently
from millpond.cli.server import admin_client, answer_of, find_server
from millpond.core.collections import FLOW_RUNS
from millpond.core.errors import InvalidRun, RunExists, SettingsError
from millpond.core.model import Ref, Snapshot
from millpond.flow.submit import id_of
from millpond.settings import Settings

_TIMEOUT_S = 30.0


@click.group(epilog=example("millpond flow submit run.json", "millpond flow show RUN_ID", "millpond flow sweep"))
def flow() -> None:
    """Submit flow runs, look at them, and look after them."""


@flow.command(epilog=example("millpond flow submit run.json", "millpond flow submit run.json --run-id nightly-7"))
@run_arguments
@store_option
@steps_option
@json_option
@click.pass_context
def submit(ctx: click.Context, file: BinaryIO, run_id: str | None, *, as_json: bool) -> None:
    """Store a flow run and have it worked on.

    FILE is the run as a JSON object (- is standard input). The running server works through it; where none runs on
    an embedded store, the next one does. On Firestore the run is created and touched, and whoever gets the event
    works on it. To submit the same run again is harmless. Exits with 1 where another run has its id.
    """
    run = decode_run(file)
    try:
        # Chosen once, here: a submission that has to be sent again must be the same one.
        answer = asyncio.run(_submit(load_settings(), run, run_id or id_of(run)))
    except RunExists as error:
        if not as_json:
            raise
        print_json({"reason": error.reason, "error": str(error)})
        ctx.exit(exits.NEGATIVE)
    if as_json:
        print_json(answer)
        return
    shown = clean(str(answer["runId"]))
    print_line(
        f"Submitted {shown}." if answer["created"] else f"{shown} was submitted before; nothing was changed."
    )
    if answer["notOurs"]:
        print_note(f"No worker here does {', '.join(answer['notOurs'])}: those steps wait for one that does.")
    print_note(f"Look at it: millpond flow show {shown}")


@flow.command(epilog=example("millpond flow show nightly-7", "millpond flow show nightly-7 --json"))
@click.argument("run_id", metavar="RUN_ID")
@store_option
@json_option
@click.pass_context
def show(ctx: click.Context, run_id: str, *, as_json: bool) -> None:
    """Show a run's steps and how each of them ended.

    Reads the store directly, also while a server runs. Exits with 1 where there is no such run.
    """
    found = asyncio.run(_read(load_settings(), run_id))
    if found.data is None:
        text = f"there is no run {run_id}"
        if not as_json:
            raise exits.NegativeAnswer(f"{text}: `millpond ls {FLOW_RUNS}` lists what there is")
        print_json({"reason": "not_found", "error": text})
        ctx.exit(exits.NEGATIVE)
    if as_json:
        print_json({"runId": run_id, "version": str(found.version), "data": found.data})
        ctx.exit(exits.OK)
    print_steps(run_id, found.data)


@flow.command(epilog=example("millpond flow sweep", "millpond flow sweep --json"))
@store_option
@steps_option
@json_option
def sweep(*, as_json: bool) -> None:
    """Look after steps that nobody works on.

    Those whose worker went silent become READY again, or FAILED after their last attempt (FLOW_ATTEMPTS_MAX), and
    READY steps that nobody took up are announced. Nothing is worked on here: on Firestore each change is an event,
    on an embedded store the running server takes it up, or the next one. Only steps of types that are loaded are
    looked at (--steps; where a server runs, its own). Exits with 1 where a run could not be changed.
    """
    report = asyncio.run(_sweep(load_settings()))
    if as_json:
        print_json(report)
        return
    runs = "1 run" if report["runs"] == 1 else f"{report['runs']} runs"
    print_line(f"Looked at {runs} for steps of type {', '.join(report['types'])}.")
    print_facts(
        [
            ("steps READY again", report["reclaimed"]),
            ("steps FAILED after their last attempt", report["failed"]),
            ("runs announced", report["announced"]),
        ]
    )
    if report["left"]:
        raise exits.NegativeAnswer(f"{report['left']} runs could not be changed; the log says why")


flow.add_command(run_local)


async def _read(settings: Settings, run_id: str) -> Snapshot:
    async with open_for_reading(settings) as store:
        return (await store.read([Ref(FLOW_RUNS, run_id)]))[0]


async def _submit(settings: Settings, run: Any, run_id: str) -> dict[str, Any]:
    path = f"/api/flow-runs?runId={quote(run_id, safe='')}"
    reply = await _ask_server(settings, path, msgspec.json.encode(run))
    if reply is not None:
        answer = answer_of(reply)
        if reply.status == 409:
            raise RunExists(str(answer.get("error")))
        if reply.status == 400:
            raise InvalidRun(str(answer.get("error")))
        return _fine(reply, answer)
    async with open_service(settings, at_once=1) as service:
        submitted = await service.flow.submit(run, run_id)
        return {
            "runId": submitted.run_id,
            "created": submitted.created,
            "notOurs": service.flow.not_ours(run),
        }


async def _sweep(settings: Settings) -> dict[str, Any]:
    reply = await _ask_server(settings, "/api/flow-runs/sweep", b"")
    if reply is not None:
        return _fine(reply, answer_of(reply))
    async with open_service(settings, at_once=1) as service:
        return msgspec.structs.asdict(await service.flow.sweep())


async def _ask_server(settings: Settings, path: str, body: bytes) -> Reply | None:
    """What the server that holds the store answers; None where nobody holds it."""
    refuse_memory(settings)
    address = find_server(settings)
    if address is None:
        return None
    client = admin_client(settings, address, timeout_s=_TIMEOUT_S)
    try:
        return await patiently(lambda: client.request("POST", path, body))
    finally:
        client.close()


def _fine(reply: Reply, answer: dict[str, Any]) -> dict[str, Any]:
    if reply.status == 401:
        raise SettingsError("ADMIN_TOKEN", "(secret)", "is not the one the server was started with")
    if reply.status not in {200, 201}:
        raise exits.Unreachable(f"the server answered {reply.status}: {answer.get('error')}")
    return answer
