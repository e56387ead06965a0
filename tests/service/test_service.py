"""What the service does beside answering: it sweeps, and it ends what it began."""

from __future__ import annotations

from typing import cast

from millpond.reprocess.jobs import Job
from millpond.stores.clock_agreement import ClockAgreement
from millpond.stores.sweeper import Sweeper
from tests.common.faulty_store import FaultyStore
from tests.common.pond import NOW
from tests.common.rig import Bench


async def test_everything_that_has_expired_is_swept_bite_by_bite() -> None:
    """Once a minute a sweep begins, and ends when the store has nothing more to delete."""
    bench = Bench(FaultyStore())
    bites = [1_000, 1_000, 7, 0]
    asked: list[tuple[int, int | None]] = []

    async def sweep(now: int, events_before: int | None) -> int:
        asked.append((now, events_before))
        return bites.pop(0)

    bench.store.sweep = sweep  # type: ignore[method-assign]
    sweeper = Sweeper(bench.store, ClockAgreement(lambda: NOW, agreed_s=0), bench.service.log, None)
    assert (await sweeper.sweep(), bites) == (2_007, [])
    assert asked == [(NOW, None)] * 4


async def test_a_rebuild_ends_with_the_service() -> None:
    """It is dropped before what was accepted is finished: both work on the same store, which is closed next."""
    bench = Bench(FaultyStore())
    bench.service.rebuilds.job = job = cast("Job", Stopping(bench))
    await bench.service.drain()
    assert cast("Stopping", job).stopped_while_accepting
    assert bench.service.rebuilds.job is None


class Stopping:
    """A rebuild that notes whether it was stopped in time."""

    stopped_while_accepting = False

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def stop(self) -> None:
        self.stopped_while_accepting = self._bench.engine.accepting
