"""The sweep: finds steps whose worker went silent, and READY steps whose event was lost.

The former go back to READY, or to FAILED after the last attempt. The latter are announced again. Each is a change
of the run, so it is an event that a worker takes up; the sweep never works on a step. Called by `millpond flow
sweep` and the API.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection

import msgspec

from millpond.core import timestamps
from millpond.core.answers import Count
from millpond.core.collections import FLOW_RUNS
from millpond.core.errors import StoreError
from millpond.core.model import Document, Ref
from millpond.core.ports import StoreWithCatalog
from millpond.flow import run_document as runs
from millpond.flow import statuses, transitions
from millpond.flow.claims import Applied, Claims
from millpond.flow.run_document import Survey
from millpond.flow.submit import touch_run
from millpond.flow.transitions import Refused, Transition
from millpond.telemetry.log import Log

_PAGE = 200


class SweepReport(msgspec.Struct):
    """Step types, runs examined, and changes made; `left` are runs that could not be repaired."""

    types: list[str]
    runs: Count = 0
    reclaimed: Count = 0
    failed: Count = 0
    announced: Count = 0
    left: Count = 0


async def each_run(store: StoreWithCatalog) -> AsyncIterator[tuple[str, Document]]:
    after: str | None = None
    while page := await store.list_documents(FLOW_RUNS, _PAGE, after):
        for snapshot in page:
            if snapshot.data is not None:
                yield snapshot.ref.id, snapshot.data
        after = page[-1].ref.id


class Sweep:
    def __init__(
        self,
        *,
        store: StoreWithCatalog,
        claims: Claims,
        log: Log,
        types: Collection[str],
        attempts_max: int,
        budget_s: float,
        wall_clock: Callable[[], int],
        # Raises the event if there is no Eventarc; None if touching the run is enough.
        raise_event: Callable[[str], None] | None,
    ) -> None:
        self._store = store
        self._claims = claims
        self._log = log
        self._types = types
        self._attempts_max = attempts_max
        self._budget_s = budget_s
        self._wall_clock = wall_clock
        self._raise_event = raise_event

    async def sweep(self) -> SweepReport:
        """Look at every run once. Raises StoreError if the runs cannot be listed; changes made before stay."""
        report = SweepReport(types=sorted(self._types))
        async for run_id, run in each_run(self._store):
            report.runs += 1
            found = runs.survey(run, self._types, self._wall_clock())
            if isinstance(found, Survey):
                try:
                    await self._mend(run_id, found, report)
                except StoreError as error:
                    # This run only: go on with the next ones.
                    report.left += 1
                    self._log.note(
                        "ERROR", f"the run could not be swept: {error}", runId=run_id, reason="sweep_failed"
                    )
        return report

    async def _mend(self, run_id: str, found: Survey, report: SweepReport) -> None:
        changed = 0
        for step_id in found.expired:
            applied = await self._reclaim(run_id, step_id)
            if isinstance(applied, Applied):
                changed += 1
                report.failed += applied.change.status == statuses.FAILED
                report.reclaimed += applied.change.status == statuses.READY
        if found.ready and not changed and await self._announce(run_id):
            report.announced += 1

    async def _reclaim(self, run_id: str, step_id: str) -> Applied | Refused:
        def decide(run: Document | None, now: int) -> Transition | Refused:
            return transitions.reclaim(run, step_id, self._attempts_max, now)

        return await self._claims.apply(run_id, decide, self._budget_s)

    async def _announce(self, run_id: str) -> bool:
        if self._raise_event is not None:
            self._raise_event(run_id)
            return True
        at = timestamps.to_datetime(self._wall_clock())
        return await touch_run(self._store, Ref(FLOW_RUNS, run_id), at)
