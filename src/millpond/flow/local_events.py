"""Local events, for stores without Eventarc: on the embedded store each change of a run becomes an event.

At start every run is examined once, so that work a crash left is resumed. After that each writer of a run in this
process raises an event for it. A run with a step under a lease is examined again when the lease ends. Started and
stopped by `flow/service.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container

from millpond.concurrency import doubled_s
from millpond.core.collections import FLOW_RUNS
from millpond.core.errors import StoreError
from millpond.core.ports import StoreWithCatalog
from millpond.flow import run_document as runs
from millpond.flow.event_filter import UPDATED_TYPE, FlowEvent
from millpond.flow.results import FlowOutcome, FlowResult
from millpond.flow.sweep import each_run
from millpond.telemetry.log import Log

_RETRY_FIRST_S = 0.5
_RETRY_MAX_S = 30.0
# Added to the end of a lease: just before it, the lease still holds.
_AFTER_LEASE_S = 0.05


class LocalEvents:
    def __init__(
        self,
        *,
        handle: Callable[[FlowEvent], Awaitable[FlowResult]],
        store: StoreWithCatalog,
        log: Log,
        types: Container[str],
        wall_clock: Callable[[], int],
        at_once: int,
    ) -> None:
        self._handle = handle
        self._types = types
        self._store = store
        self._log = log
        self._wall_clock = wall_clock
        self._at_once = at_once
        # Run ids that wait to be handled, once each, oldest first.
        self._waiting: dict[str, None] = {}
        self._some = asyncio.Event()
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}
        self._number = 0
        self._tasks: list[asyncio.Task[None]] = []

    def raise_event(self, run_id: str) -> None:
        """Queue an event: a run was changed, or should be examined."""
        self._waiting[run_id] = None
        self._some.set()

    def start(self) -> None:
        """Begin, on the running event loop."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._look_at_all())]
        self._tasks += [loop.create_task(self._serve()) for _ in range(self._at_once)]

    def stop(self) -> None:
        """Raise no more events; what is being handled goes on."""
        for timer in self._later.values():
            timer.cancel()
        self._waiting.clear()
        for task in self._tasks[:1]:
            task.cancel()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look_at_all(self) -> None:
        while True:
            try:
                async for run_id, run in each_run(self._store):
                    if runs.is_unfinished(run, self._types, self._wall_clock()):
                        self.raise_event(run_id)
            except StoreError as error:
                self._log.note("WARNING", f"the flow runs could not be listed, and will be: {error}")
            except Exception as bug:  # noqa: BLE001 - runs that a crash left must still be found
                self._log.unexpected(bug)
            else:
                return
            await asyncio.sleep(_RETRY_MAX_S)

    async def _serve(self) -> None:
        while True:
            while not self._waiting:
                self._some.clear()
                await self._some.wait()
            run_id = next(iter(self._waiting))
            del self._waiting[run_id]
            try:
                await self._serve_one(run_id)
            except Exception as bug:  # noqa: BLE001 - the next event must still be served
                self._log.unexpected(bug)
                self._look_later(run_id, _RETRY_MAX_S)

    async def _serve_one(self, run_id: str) -> None:
        self._number += 1
        event = FlowEvent(
            run_id=run_id,
            id=f"local-{self._number}",
            type=UPDATED_TYPE,
            subject=f"documents/{FLOW_RUNS}/{run_id}",
        )
        self._follow_up(run_id, await self._handle(event))

    def _follow_up(self, run_id: str, result: FlowResult) -> None:
        """No broker redelivers local events, so the runs to examine again are scheduled here."""
        if result.outcome is FlowOutcome.RETRY:
            failures = self._failures.get(run_id, 0)
            self._failures[run_id] = failures + 1
            self._look_later(run_id, doubled_s(_RETRY_FIRST_S, failures, _RETRY_MAX_S))
            return
        self._failures.pop(run_id, None)
        if result.look_again_at is not None:
            left_us = result.look_again_at - self._wall_clock()
            self._look_later(run_id, max(left_us / 1e6, 0) + _AFTER_LEASE_S)

    def _look_later(self, run_id: str, delay_s: float) -> None:
        def look() -> None:
            del self._later[run_id]
            self.raise_event(run_id)

        loop = asyncio.get_running_loop()
        known = self._later.get(run_id)
        if known is None or known.when() > loop.time() + delay_s:
            if known is not None:
                known.cancel()
            self._later[run_id] = loop.call_later(delay_s, look)
