"""A new flow run: checked as a whole, stored once, and announced."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple

from millpond import timestamps
from millpond.digest import base32_sha256
from millpond.errors import InvalidRun, WriteRefused, json_type
from millpond.flow import run as runs
from millpond.flow.run import COLLECTION
from millpond.model import Committed, Document, Patch, Put, Ref
from millpond.ports import Store
from millpond.shape import canonical_json, check_ref, encode_document

# The run's own field that is ours, and nobody else's.
OURS = "millpond"


class Submitted(NamedTuple):
    """`created` is False where the very same run was there already: a submission that was sent twice."""

    run_id: str
    created: bool


class RunExists(InvalidRun):
    """Another run has this id."""


def check_run(run: Any, run_id: str | None, new_id: str) -> tuple[str, Document]:
    """The run's id (`run_id`, its own `runId`, or else `new_id`) and its document. Raises InvalidRun."""
    if not isinstance(run, dict):
        raise InvalidRun(f"a flow run is a JSON object, not {json_type(run)}")
    if OURS in run:
        raise InvalidRun(f"the field {OURS} is written by Millpond: leave it out")
    own_id = run.get("runId")
    if own_id is not None and not isinstance(own_id, str):
        raise InvalidRun(f"runId must be text, not {json_type(own_id)}")
    chosen = run_id or own_id or new_id
    if own_id not in {None, chosen}:
        raise InvalidRun(f"the run calls itself {own_id!r}, and is to be stored as {chosen!r}")
    _check_steps(run.get("steps"))
    document = {**run, "runId": chosen}
    ref = Ref(COLLECTION, chosen)
    try:
        check_ref(ref)
        encode_document(ref, document)
    except WriteRefused as refusal:
        raise InvalidRun(str(refusal)) from None
    return chosen, document


def _check_steps(steps: Any) -> None:
    if not isinstance(steps, dict) or not steps:
        raise InvalidRun("steps must be a map of step id to step, with at least one step")
    for step_id, step in steps.items():
        fault = runs.step_fault(step)
        if fault is not None:
            raise InvalidRun(f"step {step_id}: {fault}")
        for other in step.get("dependsOn") or ():
            if other not in steps:
                raise InvalidRun(f"step {step_id}: dependsOn names {other}, and there is no such step")
    circle = _find_circle(steps)
    if circle:
        raise InvalidRun(f"these steps wait for each other: {', '.join(circle)}")


def _find_circle(steps: Mapping[str, Any]) -> list[str]:
    """Steps that can never begin because they depend on themselves, directly or not; empty where there are none."""
    left = {step_id: set(step.get("dependsOn") or ()) for step_id, step in steps.items()}
    while free := [step_id for step_id, waits_for in left.items() if not waits_for & left.keys()]:
        for step_id in free:
            del left[step_id]
    return sorted(left)


async def store_run(store: Store, run_id: str, document: Document, now: int, *, touch: bool) -> Submitted:
    """Create the run. With `touch` it is changed once more, where only a change is an event.

    Raises RunExists where another run has the id, StoreError where it was not stored; to send it again is safe.
    """
    ref = Ref(COLLECTION, run_id)
    digest = base32_sha256(canonical_json(document))
    at = timestamps.to_datetime(now)
    created = await store.commit([Put(ref, None, {**document, OURS: {"submittedAt": at, "digest": digest}})])
    if not isinstance(created, Committed):
        (found,) = await store.read([ref])
        ours = (found.data or {}).get(OURS)
        if not isinstance(ours, dict) or ours.get("digest") != digest:
            raise RunExists(f"there is another run {run_id}: choose another id, or look at {ref.path}")
        if touch and "triggeredAt" not in ours:
            # The first submission got no further than the run itself.
            await touch_run(store, ref, at)
        return Submitted(run_id, created=False)
    if touch:
        await touch_run(store, ref, at)
    return Submitted(run_id, created=True)


async def touch_run(store: Store, ref: Ref, at: dt.datetime) -> bool:
    """Change the run so that it is an event. Whoever changed it meanwhile has made one as well."""
    (found,) = await store.read([ref])
    if found.version is None:
        return False
    written = await store.commit([Patch(ref, found.version, {(OURS, "triggeredAt"): at})])
    return isinstance(written, Committed)
