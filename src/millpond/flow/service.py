"""Builds the flow-run worker from its parts: steps, claims, worker, local events, sweep.

The server, the Functions Framework target, `millpond flow` and the tests all build it here.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
from collections.abc import Callable
from typing import Any

from millpond.concurrency import Pauses
from millpond.core.model import Document
from millpond.core.ports import StoreWithCatalog
from millpond.flow import submit
from millpond.flow.assignment import Workplace
from millpond.flow.claims import Claims
from millpond.flow.event_filter import EventFilter, Filtered, FlowEvent
from millpond.flow.flow_log import FlowLines
from millpond.flow.local_events import LocalEvents
from millpond.flow.registry import Steps
from millpond.flow.results import FlowResult
from millpond.flow.run_document import type_of
from millpond.flow.step import Documents
from millpond.flow.step_documents import PatientDocuments
from millpond.flow.submit import SubmittedRun
from millpond.flow.sweep import Sweep, SweepReport
from millpond.flow.worker import FlowWorker
from millpond.settings import FIRESTORE, Settings
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics

# On shutdown a running step has this long to end. Giving back the others may take as long again.
GRACE_S = 3.0


class Flow:
    def __init__(
        self,
        settings: Settings,
        store: StoreWithCatalog,
        log: Log,
        metrics: Metrics,
        wall_clock: Callable[[], int],
        *,
        steps: Steps,
        documents: Documents | None = None,
        owner: str | None = None,
        new_token: Callable[[], str] = lambda: secrets.token_hex(16),
        jitter: random.Random | None = None,
    ) -> None:
        """`documents` is what steps read; by default it is `store`."""
        self.steps = steps
        on_firestore = settings.store == FIRESTORE
        self.filter = EventFilter(settings.firestore_collection_prefix if on_firestore else "")
        self._store = store
        self._wall_clock = wall_clock
        self._touch = on_firestore
        pauses = Pauses(settings.firestore_retry_initial_backoff_s, settings.firestore_retry_max_backoff_s)
        jitter = jitter or random.Random()  # noqa: S311 - spreads retries, no secret
        claims = Claims(store, pauses, wall_clock, jitter, self._changed)
        # As long as a lease holds that cannot be renewed.
        patience_s = max(settings.flow_lease_s, settings.firestore_retry_max_total_s)
        readable = PatientDocuments(documents or store, pauses, patience_s, jitter)
        self.worker = FlowWorker(
            place=Workplace(settings, claims, readable, wall_clock, asyncio.Event()),
            steps=self.steps,
            store=store,
            lines=FlowLines(log),
            metrics=metrics,
            owner=owner or _owner(),
            new_token=new_token,
        )
        self._local: LocalEvents | None = None
        if not on_firestore:
            self._local = LocalEvents(
                handle=self.worker.handle,
                store=store,
                log=log,
                types=self.steps,
                wall_clock=wall_clock,
                at_once=settings.flow_steps_at_once,
            )
        self._sweep = Sweep(
            store=store,
            claims=claims,
            log=log,
            types=self.steps,
            attempts_max=settings.flow_attempts_max,
            budget_s=settings.firestore_retry_max_total_s,
            wall_clock=wall_clock,
            raise_event=None if self._local is None else self._local.raise_event,
        )

    async def handle(self, event: FlowEvent | Filtered) -> FlowResult:
        return await self.worker.handle(event)

    async def submit(self, run: Any, run_id: str | None = None) -> SubmittedRun:
        """Store a new run and raise its event. Raises InvalidRun, RunExists, StoreError."""
        now = self._wall_clock()
        chosen, document = submit.check_run(run, run_id or submit.id_of(run), now)
        submitted = await submit.store_run(self._store, chosen, document, touch=self._touch)
        self._changed(chosen)
        return submitted

    def not_ours(self, run: Document) -> list[str]:
        """Step types of the run that this process does not do, and another worker must."""
        return sorted({type_of(step) for step in run["steps"].values()} - self.steps.keys())

    async def sweep(self) -> SweepReport:
        return await self._sweep.sweep()

    def start(self) -> None:
        if self._local is not None:
            self._local.start()

    async def drain(self) -> None:
        if self._local is not None:
            self._local.stop()
        await self.worker.drain(GRACE_S)

    async def close(self) -> None:
        if self._local is not None:
            await self._local.close()

    def _changed(self, run_id: str) -> None:
        if self._local is not None:
            self._local.raise_event(run_id)


def _owner() -> str:
    """The worker's name in claims, for people: revision or host, process id, and a random suffix."""
    host = os.environ.get("K_REVISION") or socket.gethostname()
    return f"{host}/{os.getpid()}/{secrets.token_hex(4)}"
