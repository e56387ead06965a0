"""One step of one run, changed atomically, whoever else is changing the run at the same time.

Read the run, let a pure function decide (`flow/transitions.py`), patch the fields it names under the version it
decided on. A conflict means: read again, decide again. A lost reply means the same: the second decision sees what
the first one did. Nothing else of the run is ever written, so what others own in it stays theirs.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple

from millpond.concurrency import doubled_s
from millpond.core.errors import Unavailable
from millpond.core.model import Committed, Document, Patch, Ref
from millpond.core.ports import Store
from millpond.flow.run import COLLECTION
from millpond.flow.transitions import Refused, Transition

# What decides, given the run as it is and the time.
Decide = Callable[[Document | None, int], Transition | Refused]
CONTENTION = "CONTENTION"
_CONFLICT_PAUSE_S = 0.01
_CONFLICT_PAUSE_MAX_S = 0.5


class Applied(NamedTuple):
    """The change was made, and the run it was decided on."""

    change: Transition
    run: Document


class Pauses(NamedTuple):
    """How to wait for a store that is away."""

    first_s: float
    max_s: float


class Claims:
    def __init__(
        self,
        store: Store,
        pauses: Pauses,
        wall_clock: Callable[[], int],
        jitter: random.Random,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._pauses = pauses
        self._wall_clock = wall_clock
        self._on_change = on_change
        self._jitter = jitter

    async def apply(
        self, run_id: str, decide: Decide, budget_s: float, *, announce: bool = True
    ) -> Applied | Refused:
        """Make the change that `decide` asks for, tried for `budget_s`, and say that the run was changed.

        Raises Unavailable where that was not long enough (nobody can say whether it was made), AccessDenied, and
        WriteRefused where the store will never take it.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + budget_s
        conflicts = failures = 0
        error = Unavailable("others kept changing the run", code=CONTENTION)
        try:
            while True:
                try:
                    async with asyncio.timeout_at(give_up_at):
                        decided = await self._try(run_id, decide)
                except TimeoutError:
                    raise (
                        error if conflicts or failures else Unavailable("the store did not answer in time")
                    ) from None
                except Unavailable as away:
                    error = away
                    pause_s = doubled_s(self._pauses.first_s, failures, self._pauses.max_s)
                    failures += 1
                else:
                    if decided is not None:
                        if announce and isinstance(decided, Applied):
                            self._on_change(run_id)
                        return decided
                    pause_s = doubled_s(_CONFLICT_PAUSE_S, conflicts, _CONFLICT_PAUSE_MAX_S)
                    conflicts += 1
                pause_s *= self._jitter.uniform(0.5, 1.0)
                if loop.time() + pause_s >= give_up_at:
                    raise error
                await asyncio.sleep(pause_s)
        finally:
            # Its traceback leads to this frame: with the error in it, only the cyclic collector would free both.
            del error

    async def _try(self, run_id: str, decide: Decide) -> Applied | Refused | None:
        """Once; None where somebody else changed the run meanwhile."""
        ref = Ref(COLLECTION, run_id)
        (snapshot,) = await self._store.read([ref])
        decided = decide(snapshot.data, self._wall_clock())
        if isinstance(decided, Refused):
            return decided
        run = snapshot.data
        if run is None or snapshot.version is None:
            raise AssertionError("nothing can be changed in a run that is not there")
        if decided.fields:
            committed = await self._store.commit([Patch(ref, snapshot.version, decided.fields)])
            if not isinstance(committed, Committed):
                return None
        return Applied(decided, run)
