"""A new flow run: checked as a whole, stored once, and announced. Called by `flow/service.py`."""

from __future__ import annotations

import datetime as dt
import graphlib
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from millpond.core import timestamps
from millpond.core.collections import FLOW_RUNS
from millpond.core.document import DOCUMENT_BYTES_MAX, canonical_json, check_ref, encode_document
from millpond.core.errors import InvalidRun, RunExists, WriteRefused, json_type
from millpond.core.hashing import base32_sha256
from millpond.core.model import Committed, Document, Patch, Put, Ref, Snapshot
from millpond.core.ports import Store
from millpond.flow import run_document as runs
from millpond.flow import statuses
from millpond.stores.update import Budget, Decided, update

# The field of a run that only Millpond writes.
OURS = "millpond"
CIRCLE_SHOWN_MAX = 10
# Bytes a run must leave free so that its steps can be claimed and finalised: in all, and for each step.
ROOM_BYTES = 64 * 1024
ROOM_STEP_BYTES = 512


class SubmittedRun(NamedTuple):
    """`created` is False if an equal run exists already: the submission was sent twice."""

    run_id: str
    created: bool


def id_of(run: Any) -> str:
    """The run's own `runId`, or a new one."""
    own_id = run.get("runId") if isinstance(run, dict) else None
    return own_id if isinstance(own_id, str) and own_id else f"run-{secrets.token_hex(8)}"


def check_run(run: Any, run_id: str, now: int) -> tuple[str, Document]:
    """The run's id and its document as it will be stored. Raises InvalidRun."""
    if not isinstance(run, dict):
        raise InvalidRun(f"a flow run is a JSON object, not {json_type(run)}")
    if OURS in run:
        raise InvalidRun(f"the field {OURS} is written by Millpond: leave it out")
    own_id = run.get("runId")
    if own_id is not None and not isinstance(own_id, str):
        raise InvalidRun(f"runId must be text, not {json_type(own_id)}")
    if own_id not in {None, "", run_id}:
        raise InvalidRun(f"the run calls itself {own_id!r}, and is to be stored as {run_id!r}")
    document = {**run, "runId": run_id}
    ref = Ref(FLOW_RUNS, run_id)
    try:
        check_ref(ref)
        # Checked first: the cost of every other check grows with the size.
        encode_document(ref, document)
        _check_steps(run.get("steps"))
        digest = base32_sha256(canonical_json(document))
        document[OURS] = {"submittedAt": timestamps.to_datetime(now), "digest": digest}
        size = len(encode_document(ref, document))
    except WriteRefused as refusal:
        raise InvalidRun(str(refusal)) from None
    room = _room(run_id, run["steps"])
    if size + room > DOCUMENT_BYTES_MAX:
        text = f"{size} bytes, and its steps' claims and outputs need room for {room} more"
        raise InvalidRun(f"{text}, over the {DOCUMENT_BYTES_MAX} a document may have: make two runs of it")
    return run_id, document


def _room(run_id: str, steps: Document) -> int:
    ids = sum(len(run_id.encode()) + len(step_id.encode()) for step_id in steps)
    return ROOM_BYTES + ROOM_STEP_BYTES * len(steps) + ids


def _check_steps(steps: Any) -> None:
    if not isinstance(steps, dict) or not steps:
        raise InvalidRun("steps must be a map of step id to step, with at least one step")
    for step_id, step in steps.items():
        fault = runs.id_fault(step_id) or runs.step_fault(step)
        if fault is not None:
            raise InvalidRun(f"step {step_id}: {fault}")
        if step["status"] not in statuses.STATUSES and step["status"].upper() in statuses.STATUSES:
            raise InvalidRun(
                f"step {step_id}: write {step['status'].upper()} in capitals, or no worker will recognise it"
            )
        for other in step.get("dependsOn") or ():
            if other not in steps:
                raise InvalidRun(f"step {step_id}: dependsOn names {other}, and there is no such step")
    try:
        graphlib.TopologicalSorter({name: step.get("dependsOn") or () for name, step in steps.items()}).prepare()
    except graphlib.CycleError as error:
        circle = " → ".join(error.args[1][:CIRCLE_SHOWN_MAX])
        raise InvalidRun(f"these steps wait for each other: {circle}") from None


async def store_run(store: Store, run_id: str, document: Document, *, touch: bool) -> SubmittedRun:
    """Create the run. With `touch` it is updated once more, for a trigger that fires on updates only.

    Raises RunExists if a different run has the id, InvalidRun if the store will never take it, StoreError if it
    was not stored or the outcome is unknown: sending it again is safe.
    """
    ref, at = Ref(FLOW_RUNS, run_id), document[OURS]["submittedAt"]
    try:
        created = isinstance(await store.commit([Put(ref, None, document)]), Committed)
    except WriteRefused as refusal:
        raise InvalidRun(str(refusal)) from None
    announced = False
    if not created:
        (found,) = await store.read([ref])
        ours = (found.data or {}).get(OURS)
        if not isinstance(ours, dict) or ours.get("digest") != document[OURS]["digest"]:
            raise RunExists(f"there is another run {run_id}: choose another id, or look at {ref.path}")
        # The first submission may have stored the run and failed before the update.
        announced = "triggeredAt" in ours
    if touch and not announced:
        await touch_run(store, ref, at)
    return SubmittedRun(run_id, created=created)


async def touch_run(store: Store, ref: Ref, at: dt.datetime) -> bool:
    """Update the run, which is an event. False if it is gone, or another writer's update was quicker."""

    def decide(found: Sequence[Snapshot]) -> Decided[bool]:
        (run,) = found
        if run.version is None:
            return Decided(False)
        return Decided(True, [Patch(ref, run.version, {(OURS, "triggeredAt"): at})])

    touched = await update(store, [ref], decide, Budget(tries=1))
    return touched is True
