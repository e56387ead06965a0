"""The flow-run worker: takes one event, and claims, works on and finalises at most one step.

The stages are filter, pick, claim, work, finalise. Repeated, reordered and concurrent events are safe: the claim is
decided on the run as the store holds it, and only the holder of the claim's token can finalise the step. The worker
never acknowledges an event while a READY step that the event showed may depend on it. Built by `flow/service.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator

from millpond.core.collections import FLOW_RUNS
from millpond.core.errors import Overloaded, StoreError
from millpond.core.model import Document, Ref
from millpond.core.ports import Store
from millpond.flow import run_document as runs
from millpond.flow import statuses, transitions
from millpond.flow.assignment import SHUTTING_DOWN, Assignment, Workplace
from millpond.flow.event_filter import Filtered, FlowEvent
from millpond.flow.flow_log import FlowLines
from millpond.flow.registry import Steps
from millpond.flow.results import FlowOutcome, FlowResult
from millpond.flow.transitions import Bid, Refused, Transition
from millpond.flow.undecided import UndecidedClaims
from millpond.telemetry.metrics import Metrics


class FlowWorker:
    def __init__(
        self,
        *,
        place: Workplace,
        steps: Steps,
        store: Store,
        lines: FlowLines,
        metrics: Metrics,
        owner: str,
        new_token: Callable[[], str],
    ) -> None:
        self._place = place
        self._steps = steps
        self._store = store
        self._lines = lines
        self._metrics = metrics
        self._owner = owner
        self._new_token = new_token
        self._slots = asyncio.Semaphore(place.settings.flow_steps_at_once)
        self._waiting = 0
        self.running = 0
        self._undecided = UndecidedClaims()
        self._draining: asyncio.Task[None] | None = None
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self.accepting = True

    async def handle(self, event: FlowEvent | Filtered) -> FlowResult:
        """Do what the event asks for, at most one step, and return the result. Never raises an error."""
        began = time.perf_counter()
        result = await self._handle(event)
        latency_s = time.perf_counter() - began
        self._metrics.count_flow_event(result.outcome, result.reason, latency_s)
        self._lines.result(event, result, latency_s)
        return result

    async def drain(self, grace_s: float) -> None:
        """Take no more events. What runs has `grace_s` to end; what does not is given back. May be asked twice."""
        if self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drain(grace_s))
        await asyncio.shield(self._draining)

    async def _drain(self, grace_s: float) -> None:
        self.accepting = False
        for _ in range(self._waiting):
            # No event gets a slot any more. Those that wait for one are answered RETRY at once.
            self._slots.release()
        await self._rest(grace_s)
        self._place.stopping.set()
        await self._rest(grace_s)

    async def _rest(self, patience_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._at_rest.wait()

    async def _handle(self, event: FlowEvent | Filtered) -> FlowResult:
        result = FlowResult(outcome=FlowOutcome.FILTERED, reason="event_filtered", text="", run_id=event.run_id)
        try:
            if isinstance(event, Filtered):
                return result.ends(FlowOutcome.FILTERED, "event_filtered", event.text)
            document = event.document
            if document is None:
                (snapshot,) = await self._store.read([Ref(FLOW_RUNS, event.run_id)])
                if snapshot.data is None:
                    return result.ends(FlowOutcome.FILTERED, "event_filtered", "there is no such run")
                document = snapshot.data
            result = self._pick(event, document)
            if result.step_id is None:
                return result
            async with self._slot():
                if not self.accepting:
                    return result.ends(FlowOutcome.RETRY, SHUTTING_DOWN, "the server is shutting down")
                with self._at_work():
                    return await self._claim(event, result)
        except Exception as error:  # noqa: BLE001 - whatever it is, the event must be answered, and come again
            result = result.undone_by(error)
            if result.reason == "internal_error":
                self._lines.bug(error)
            return result

    def _pick(self, event: FlowEvent, run: Document) -> FlowResult:
        """The step to claim, as a result that names it; or why there is none."""
        key = run.get("flowKey")
        flow_key = key if isinstance(key, str) else None
        text = "no READY step of a type this worker does"
        result = FlowResult(
            outcome=FlowOutcome.NOOP, reason="no_ready_step", text=text, run_id=event.run_id, flow_key=flow_key
        )
        found = runs.survey(run, self._steps, self._place.wall_clock())
        if isinstance(found, str):
            return result.ends(FlowOutcome.FILTERED, "invalid_steps", found)
        self._lines.steps(event, found, flow_key)
        # Steps that no worker has begun come before steps that a silent worker left unfinished.
        for step_id in (*found.ready, *found.expired):
            return result.of_step(step_id)
        if found.blocked:
            result = result.ends(result.outcome, result.reason, "every READY step waits for others")
        if found.invalid:
            text = f"{len(found.invalid)} of its steps cannot be read, and there is nothing else to do"
            result = result.ends(FlowOutcome.FILTERED, "invalid_steps", text)
        return result.ends(result.outcome, result.reason, result.text, look_again_at=found.next_lease_end)

    @contextlib.asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Taken before the claim, so that work on a claimed step begins at once."""
        if self._waiting >= self._place.settings.consumer_queue_size:
            raise Overloaded(f"{self._waiting} events wait for one of the running steps to end")
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slots.release()

    async def _claim(self, event: FlowEvent, picked: FlowResult) -> FlowResult:
        place, run_id, step_id = self._place, event.run_id, str(picked.step_id)
        lease_us = round(place.settings.flow_lease_s * 1e6)
        earlier = self._undecided.take(run_id, step_id)
        bid = Bid(self._owner, self._new_token(), lease_us, place.settings.flow_attempts_max, earlier)

        def decide(run: Document | None, now: int) -> Transition | Refused:
            return transitions.claim(run, run_id, step_id, self._steps, bid, now)

        asked_at = place.wall_clock()
        try:
            claimed = await place.claims.apply(run_id, decide, place.settings.firestore_retry_max_total_s)
        except StoreError:
            # The commit may have been applied. On redelivery the token identifies the claim as ours.
            self._undecided.remember(run_id, step_id, (*earlier, bid.token))
            raise
        if isinstance(claimed, Refused):
            if claimed.reason != transitions.LOST_RACE:
                return picked.ends(FlowOutcome.NOOP, claimed.reason, claimed.text)
            look = asked_at + lease_us
            return picked.ends(FlowOutcome.LOST_RACE, claimed.reason, claimed.text, look_again_at=look)
        change = claimed.change
        if change.status == statuses.FAILED:
            return picked.exhausted(change.attempt)
        if change.status == statuses.READY:
            return picked.ends(FlowOutcome.NOOP, "no_ready_step", "the step's type was changed to one of others")
        self._lines.claimed(event, picked, change.attempt)
        bid = bid._replace(token=change.token)
        function = self._steps[runs.type_of(claimed.run["steps"][step_id])]
        return await Assignment(place, picked, bid, claimed, asked_at).carry_out(function)

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        self.running += 1
        self._at_rest.clear()
        try:
            yield
        finally:
            self.running -= 1
            if not self.running:
                self._at_rest.set()
