"""One claimed step, from the claim to its end: the step's context, its lease, and the finalise.

The worker creates an assignment after each successful claim, and calls `carry_out` once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from millpond.core.errors import WriteRefused
from millpond.core.model import Document
from millpond.flow import run_document as runs
from millpond.flow import statuses, transitions
from millpond.flow.artifact_paths import folder_name
from millpond.flow.claims import Applied, Claims
from millpond.flow.lease_keeper import LeaseKeeper
from millpond.flow.results import FlowOutcome, FlowResult
from millpond.flow.step import Documents, StepContext, StepFunction
from millpond.flow.step_work import Failed, Interrupted, Lost, Succeeded, work
from millpond.flow.transitions import Bid, Refused, Transition
from millpond.settings import Settings

OUTPUTS_REFUSED = "OUTPUTS_REFUSED"
SHUTTING_DOWN = "shutting_down"
# A process that ends has little time left. A step that is not given back is taken over when its lease ends.
GIVE_BACK_S = 2.5


class Workplace(NamedTuple):
    """What every assignment of a worker shares."""

    settings: Settings
    claims: Claims
    documents: Documents
    wall_clock: Callable[[], int]
    # Set when the process must end soon.
    stopping: asyncio.Event


class Assignment:
    def __init__(self, place: Workplace, picked: FlowResult, bid: Bid, claimed: Applied, asked_at: int) -> None:
        self._place = place
        self._picked = picked
        self._run_id = str(picked.run_id)
        self._step_id = str(picked.step_id)
        self._bid = bid
        self._claimed = claimed
        self._lease_s = place.settings.flow_lease_s
        # Counted from before the claim was sent: our own deadline is never later than the lease in the store.
        self._keeper = LeaseKeeper(self._renew, self._lease_s, asked_at, place.wall_clock)

    async def carry_out(self, function: StepFunction) -> FlowResult:
        place = self._place
        ending = await work(function, self._context(), self._keeper, place.settings.flow_step_max_s, place.stopping)
        if isinstance(ending, Lost):
            return await self._leave(ending.text)
        if isinstance(ending, Interrupted):
            return await self._give_back()
        return await self._finalise(ending)

    def _context(self) -> StepContext:
        place, run = self._place, self._claimed.run
        step = run["steps"][self._step_id]
        return StepContext(
            run_id=self._run_id,
            step_id=self._step_id,
            step_type=runs.type_of(step),
            run=run,
            step=step,
            attempt=self._claimed.change.attempt,
            token=self._bid.token,
            idempotency_key=runs.idempotency_key(self._run_id, self._step_id),
            artifacts=Path(place.settings.artifacts_dir) / folder_name(self._run_id) / folder_name(self._step_id),
            documents=place.documents,
            settings=place.settings.by_name(),
            wall_clock=place.wall_clock,
            is_lost=lambda: self._keeper.is_lost,
        )

    async def _renew(self) -> Refused | None:
        def decide(run: Document | None, now: int) -> Transition | Refused:
            return transitions.renew(run, self._step_id, self._bid, now)

        renewed = await self._place.claims.apply(self._run_id, decide, self._lease_s / 6, announce=False)
        return renewed if isinstance(renewed, Refused) else None

    async def _finalise(self, ending: Succeeded | Failed) -> FlowResult:
        try:
            written = await self._write(ending)
        except WriteRefused as refusal:
            # The outputs make the run too big for a document, or hold a value that no document can hold.
            if isinstance(ending, Succeeded):
                return await self._finalise(Failed(OUTPUTS_REFUSED, f"the store refused the outputs: {refusal}"))
            if not ending.message:
                # The error does not fit either. Leaving the step frees room; the last attempt makes it FAILED.
                return await self._leave("the run has no room for how the step ended")
            return await self._finalise(ending._replace(message=""))
        if isinstance(written, Refused):
            return self._lost(written.text)
        if isinstance(ending, Failed):
            place = f" ({ending.place})" if ending.place else ""
            text = f"step {self._step_id} failed: {ending.code}{place}"
            return self._picked.ends(FlowOutcome.FAILED, "step_failed", text, severity="WARNING")
        return self._picked.ends(FlowOutcome.SUCCEEDED, "step_succeeded", f"step {self._step_id} succeeded")

    async def _write(self, ending: Succeeded | Failed) -> Applied | Refused:
        step_id, token = self._step_id, self._bid.token

        def decide(run: Document | None, now: int) -> Transition | Refused:
            if isinstance(ending, Succeeded):
                return transitions.succeed(run, step_id, token, ending.outputs, now)
            return transitions.fail(run, step_id, token, ending.code, ending.message, now)

        # No other worker can take the step before its lease ends, so a retry is useful until then.
        budget_s = max(self._lease_s, self._place.settings.firestore_retry_max_total_s)
        return await self._place.claims.apply(self._run_id, decide, budget_s)

    async def _give_back(self) -> FlowResult:
        given = await self._return(counts=False)
        if isinstance(given, Refused):
            return self._lost(given.text)
        text = f"the process stops: step {self._step_id} is READY again"
        return self._picked.ends(FlowOutcome.RETRY, SHUTTING_DOWN, text, severity="WARNING")

    async def _leave(self, why: str) -> FlowResult:
        """Stop without a result. If the step is still ours, it is READY again at once; the attempt counts."""
        given = await self._return(counts=True)
        if isinstance(given, Refused):
            return self._lost(given.text)
        if given.change.status == statuses.FAILED:
            return self._picked.exhausted(given.change.attempt)
        return self._lost(f"{why}: step {self._step_id} is READY again")

    async def _return(self, *, counts: bool) -> Applied | Refused:
        def decide(run: Document | None, now: int) -> Transition | Refused:
            return transitions.give_back(run, self._step_id, self._bid, now, counts=counts)

        budget_s = min(self._place.settings.firestore_retry_max_total_s, GIVE_BACK_S)
        return await self._place.claims.apply(self._run_id, decide, budget_s)

    def _lost(self, text: str) -> FlowResult:
        return self._picked.ends(FlowOutcome.LOST_RACE, transitions.CLAIM_LOST, text, severity="WARNING")
