"""Every state change of a step that Millpond makes, as pure functions of the current run.

    READY ──claim──▶ RUNNING ──finalise──▶ SUCCEEDED | FAILED
      ▲                │  ▲ renew, and take over when the lease is over
      └──── give back ─┘

Each returns the fields to set, or a refusal. `flow/claims.py` writes the fields under the version they were decided
on, so a decision holds at the moment it is written. A transition without fields was applied by an earlier commit
whose reply was lost. Nothing here reads a store or a clock.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

from millpond.core import timestamps
from millpond.core.model import Document
from millpond.flow import run_document as runs
from millpond.flow.leases import Lease, lease_of
from millpond.flow.statuses import FAILED, READY, RUNNING, SUCCEEDED

Fields = dict[tuple[str, ...], Any]
CODE_CHARS_MAX = 100
MESSAGE_CHARS_MAX = 1_000
# More than any limit: a number from another writer must not grow beyond what a document can hold.
ATTEMPTS_BELIEVED = 1_000_000


class Transition(NamedTuple):
    """The step's new status and the field paths to set, relative to the run."""

    status: str
    fields: Fields
    attempt: int
    # The claim's owner, if the step is RUNNING afterwards.
    token: str = ""


class Refused(NamedTuple):
    """Nothing is changed, and why."""

    reason: str
    text: str


class Bid(NamedTuple):
    """A worker's request for a step: owner, token, lease and limits."""

    owner: str
    token: str
    lease_us: int
    attempts_max: int
    # Tokens of our earlier claims whose commit outcome is unknown.
    earlier: tuple[str, ...] = ()


LOST_RACE = "lost_race"
STEP_BLOCKED = "step_blocked"
RUN_NOT_FOUND = "run_not_found"
CLAIM_LOST = "claim_lost"
NOT_EXPIRED = "lease_not_over"
EXHAUSTED = "ATTEMPTS_EXHAUSTED"


def claim(
    run: Document | None, run_id: str, step_id: str, types: Container[str], bid: Bid, now: int
) -> Transition | Refused:
    """READY → RUNNING; or RUNNING whose lease is over → RUNNING again, or FAILED after the last attempt."""
    step = _step_of(run, step_id)
    if run is None or step is None:
        return Refused(RUN_NOT_FOUND, "the run, or this step of it, is gone")
    lease = lease_of(step)
    if lease is not None and lease.token in {bid.token, *bid.earlier}:
        # Already ours: the reply was lost. The lease starts now, because only now we know.
        ours = bid._replace(token=lease.token)
        is_ours = runs.type_of(step) in types
        return renew(run, step_id, ours, now) if is_ours else give_back(run, step_id, ours, now, counts=False)
    if step["status"] == READY and runs.type_of(step) in types:
        waits_for = runs.unmet(step, run["steps"])
        if waits_for:
            return Refused(STEP_BLOCKED, f"waits for {_listed(waits_for)}")
        return _claimed(run_id, step_id, step, _attempts_before(step) + 1, bid, now)
    if lease is not None and lease.is_over(now) and runs.type_of(step) in types:
        if lease.attempt >= bid.attempts_max:
            return _exhausted(step_id, lease, now)
        return _claimed(run_id, step_id, step, lease.attempt + 1, bid, now)
    return Refused(LOST_RACE, f"the step is {step['status']}")


def renew(run: Document | None, step_id: str, bid: Bid, now: int) -> Transition | Refused:
    """Move the end of our own lease. A lease that is over may be renewed, unless another worker took the step."""
    lease = _own_lease(run, step_id, bid.token)
    if lease is None:
        return _claim_lost(run, step_id)
    until = timestamps.to_datetime(now + bid.lease_us)
    return Transition(RUNNING, {_path(step_id, "claim", "leaseUntil"): until}, lease.attempt, bid.token)


def succeed(run: Document | None, step_id: str, token: str, outputs: Document, now: int) -> Transition | Refused:
    return _finalised(run, step_id, token, SUCCEEDED, {"outputs": outputs}, now)


def fail(run: Document | None, step_id: str, token: str, code: str, message: str, now: int) -> Transition | Refused:
    error = {"code": code[:CODE_CHARS_MAX], "message": message[:MESSAGE_CHARS_MAX]}
    return _finalised(run, step_id, token, FAILED, {"error": error}, now)


def give_back(run: Document | None, step_id: str, bid: Bid, now: int, *, counts: bool) -> Transition | Refused:
    """RUNNING → READY: this worker stops before the work is done, and another may begin at once.

    An attempt that `counts` may have been the last one. A deployment does not count as a failed attempt.
    """
    lease = _own_lease(run, step_id, bid.token)
    if lease is None:
        return _claim_lost(run, step_id)
    if not counts:
        return _returned(step_id, lease, lease.attempt - 1, now)
    return _next_attempt(step_id, lease, bid.attempts_max, now)


def reclaim(run: Document | None, step_id: str, attempts_max: int, now: int) -> Transition | Refused:
    """RUNNING whose lease is over → READY for the next worker, or FAILED if that was the last attempt."""
    step = _step_of(run, step_id)
    lease = None if step is None else lease_of(step)
    if lease is None or not lease.is_over(now):
        return Refused(NOT_EXPIRED, "the step does not run, or its lease still holds")
    return _next_attempt(step_id, lease, attempts_max, now)


def _next_attempt(step_id: str, lease: Lease, attempts_max: int, now: int) -> Transition:
    if lease.attempt >= attempts_max:
        return _exhausted(step_id, lease, now)
    return _returned(step_id, lease, lease.attempt, now)


def _claimed(run_id: str, step_id: str, step: Document, attempt: int, bid: Bid, now: int) -> Transition:
    at = timestamps.to_datetime(now)
    fields: Fields = {
        _path(step_id, "status"): RUNNING,
        _path(step_id, "startedAt"): at,
        _path(step_id, "claim"): {
            "owner": bid.owner,
            "token": bid.token,
            "attempt": attempt,
            "leaseUntil": timestamps.to_datetime(now + bid.lease_us),
            "idempotencyKey": runs.idempotency_key(run_id, step_id),
        },
    }
    # An earlier attempt's fields must not be taken for this one's.
    fields |= {
        _path(step_id, name): None for name in ("outputs", "error", "finishedAt") if step.get(name) is not None
    }
    return Transition(RUNNING, fields, attempt, bid.token)


def _finalised(
    run: Document | None, step_id: str, token: str, status: str, more: Document, now: int
) -> Transition | Refused:
    lease = _own_lease(run, step_id, token)
    if lease is None:
        step = _step_of(run, step_id)
        if step is not None and step["status"] == status and _token_of(step) == token:
            return Transition(status, {}, 0)
        return _claim_lost(run, step_id)
    fields: Fields = {_path(step_id, "status"): status, _path(step_id, "finishedAt"): timestamps.to_datetime(now)}
    return Transition(status, fields | {_path(step_id, name): value for name, value in more.items()}, lease.attempt)


def _exhausted(step_id: str, lease: Lease, now: int) -> Transition:
    message = f"claimed {lease.attempt} times, and never finished; the last worker was {lease.owner}"
    fields: Fields = {
        _path(step_id, "status"): FAILED,
        _path(step_id, "finishedAt"): timestamps.to_datetime(now),
        _path(step_id, "error"): {"code": EXHAUSTED, "message": message},
        # Fewer bytes than before, so that it fits into a run at the size limit.
        _path(step_id, "claim"): {"attempt": lease.attempt},
    }
    return Transition(FAILED, fields, lease.attempt)


def _returned(step_id: str, lease: Lease, attempts: int, now: int) -> Transition:
    # Without a token no worker can finalise the step. The number of attempts stays.
    claim = {"owner": lease.owner, "attempt": attempts, "returnedAt": timestamps.to_datetime(now)}
    return Transition(READY, {_path(step_id, "status"): READY, _path(step_id, "claim"): claim}, attempts)


def _attempts_before(step: Document) -> int:
    """Attempts that count towards the limit: none if a person made the step READY again."""
    claim = step.get("claim")
    if not isinstance(claim, dict) or "returnedAt" not in claim:
        return 0
    attempt = claim.get("attempt")
    return min(attempt, ATTEMPTS_BELIEVED) if type(attempt) is int and attempt > 0 else 0


def _own_lease(run: Document | None, step_id: str, token: str) -> Lease | None:
    step = _step_of(run, step_id)
    lease = None if step is None else lease_of(step)
    return lease if lease is not None and lease.token == token else None


def _claim_lost(run: Document | None, step_id: str) -> Refused:
    step = _step_of(run, step_id)
    now = "gone" if step is None else str(step["status"])
    return Refused(CLAIM_LOST, f"the claim is no longer ours: the step is {now}")


def _step_of(run: Document | None, step_id: str) -> Document | None:
    """The step; None if it is missing or cannot be read."""
    steps = None if run is None else run.get("steps")
    step = steps.get(step_id) if isinstance(steps, dict) else None
    return None if runs.step_fault(step) is not None else step


def _token_of(step: Mapping[str, Any]) -> Any:
    claim = step.get("claim")
    return claim.get("token") if isinstance(claim, dict) else None


def _path(step_id: str, *names: str) -> tuple[str, ...]:
    return ("steps", step_id, *names)


def _listed(waits_for: Mapping[str, str]) -> str:
    return ", ".join(f"{step_id} ({status})" for step_id, status in waits_for.items())
