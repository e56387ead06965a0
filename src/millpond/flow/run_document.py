"""A flow run's document, read strictly: which steps are ready, blocked, abandoned or invalid. Pure.

The worker calls it on the document an event carries, and the claim again on the snapshot it changes. The sweep and
the submission use the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any, NamedTuple

from millpond.core.errors import json_type
from millpond.core.model import Document
from millpond.flow.leases import lease_of
from millpond.flow.statuses import READY, SUCCEEDED

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Survey(NamedTuple):
    """What there is to do in a run, each list with the smallest step id first."""

    ready: list[str]
    # RUNNING under a lease of ours that is over: its worker went silent.
    expired: list[str]
    # READY, but blocked: step id → the steps it waits for, each with its status.
    blocked: dict[str, dict[str, str]]
    # Step id → what is wrong with it.
    invalid: dict[str, str]
    # When the next lease that still holds is over.
    next_lease_end: int | None


def survey(run: Document, types: Container[str], now: int) -> Survey | str:
    """What there is to do for a worker of these step types; an error text if the steps cannot be read at all."""
    steps = run.get("steps")
    if not isinstance(steps, dict):
        return f"steps must be a map of step id to step, not {json_type(steps)}"
    found = Survey([], [], {}, {}, None)
    lease_ends = []
    for step_id in sorted(steps):
        step = steps[step_id]
        fault = id_fault(step_id) or step_fault(step)
        if fault is not None:
            found.invalid[step_id] = fault
        elif type_of(step) not in types:
            continue
        elif step["status"] == READY:
            waits_for = unmet(step, steps)
            if waits_for:
                found.blocked[step_id] = waits_for
            else:
                found.ready.append(step_id)
        elif (lease := lease_of(step)) is not None:
            if lease.is_over(now):
                found.expired.append(step_id)
            else:
                lease_ends.append(lease.until)
    return found._replace(next_lease_end=min(lease_ends, default=None))


def is_unfinished(run: Document, types: Container[str], now: int) -> bool:
    """Whether there is something to do for a worker of these types, now or when a lease is over."""
    found = survey(run, types, now)
    return isinstance(found, Survey) and bool(found.ready or found.expired or found.next_lease_end is not None)


def id_fault(step_id: str) -> str | None:
    """What makes a step's id unusable, or None: stores encode field names with such characters differently."""
    return "a step id must not hold control characters" if _CONTROL.search(step_id) else None


def step_fault(step: Any) -> str | None:
    """What makes a step unreadable, or None."""
    if not isinstance(step, dict):
        return f"a step must be a map, not {json_type(step)}"
    if not isinstance(step.get("status"), str):
        return "status is missing, or not text"
    if not isinstance(type_of(step), str):
        return "stepType is missing, or not text"
    depends_on = step.get("dependsOn")
    if depends_on is not None and not (
        isinstance(depends_on, list) and all(isinstance(step_id, str) for step_id in depends_on)
    ):
        return "dependsOn must be a list of step ids"
    return None


def type_of(step: Mapping[str, Any]) -> Any:
    step_type = step.get("stepType")
    return step.get("type") if step_type is None else step_type


def unmet(step: Mapping[str, Any], steps: Mapping[str, Any]) -> dict[str, str]:
    """The steps this one still waits for, with their status."""
    waits_for = {}
    for step_id in step.get("dependsOn") or ():
        other = steps.get(step_id)
        status = other.get("status") if isinstance(other, dict) else None
        if status != SUCCEEDED:
            waits_for[step_id] = status if isinstance(status, str) else "missing"
    return waits_for


def idempotency_key(run_id: str, step_id: str) -> str:
    """`runId+stepId`, such that no two steps of any two runs share one."""
    return run_id.replace("%", "%25").replace("+", "%2B") + "+" + step_id
