"""Changes one step of a run atomically while other workers may change the same run.

A pure function (`flow/transitions.py`) decides on the run as it was read. Only the fields it names are patched,
under the version it decided on, so other writers' fields are never touched. After a conflict or a lost reply it
decides again (`stores/update.py`) and then sees what its first commit did. Called by the worker and the sweep.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from millpond.concurrency import Pauses
from millpond.core.collections import FLOW_RUNS
from millpond.core.errors import Unavailable
from millpond.core.model import Conflict, Document, Patch, Ref, Snapshot
from millpond.core.ports import Store
from millpond.flow.transitions import Refused, Transition
from millpond.stores.update import Budget, Decided, update

# Decides, given the current run and the time.
Decide = Callable[[Document | None, int], Transition | Refused]
CONTENTION = "CONTENTION"


class Applied(NamedTuple):
    """The change was committed. `run` is the run it was decided on."""

    change: Transition
    run: Document


class Claims:
    def __init__(
        self,
        store: Store,
        pauses: Pauses,
        wall_clock: Callable[[], int],
        jitter: random.Random,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`pauses` are those between tries while the store is unavailable."""
        self._store = store
        self._pauses = pauses
        self._wall_clock = wall_clock
        self._on_change = on_change
        self._jitter = jitter

    async def apply(
        self, run_id: str, decide: Decide, budget_s: float, *, announce: bool = True
    ) -> Applied | Refused:
        """Commit the change that `decide` returns, retrying for `budget_s`, and report that the run was changed.

        Raises Unavailable if the time was too short (the outcome is then unknown), AccessDenied, and
        WriteRefused if the store will never take it.
        """

        def decide_patch(found: Sequence[Snapshot]) -> Decided[Applied | Refused]:
            (run,) = found
            decided = decide(run.data, self._wall_clock())
            if isinstance(decided, Refused):
                return Decided(decided)
            if run.data is None or run.version is None:
                raise AssertionError("nothing can be changed in a run that is not there")
            writes = [Patch(run.ref, run.version, decided.fields)] if decided.fields else []
            return Decided(Applied(decided, run.data), writes)

        applied = await update(
            self._store,
            [Ref(FLOW_RUNS, run_id)],
            decide_patch,
            Budget(seconds=budget_s, away=self._pauses),
            jitter=self._jitter,
        )
        if isinstance(applied, Conflict):
            raise Unavailable("others kept changing the run", code=CONTENTION)
        if announce and isinstance(applied, Applied):
            self._on_change(run_id)
        return applied
