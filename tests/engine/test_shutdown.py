"""Draining: what was accepted is finished, nothing new begins, and the end comes in time."""

from __future__ import annotations

import asyncio

import pytest

from millpond.core.ack import settle_push
from millpond.core.errors import Unavailable
from millpond.core.model import Outcome, Result
from tests.common.faulty_store import FaultyStore
from tests.common.pond import service
from tests.common.rig import Bench


async def test_draining_finishes_what_was_accepted_and_refuses_the_rest() -> None:
    """After SIGTERM nothing is cut off half way and nothing new begins."""
    bench = Bench(FaultyStore(in_flight_max=1))
    bench.store.gate.clear()
    accepted = [asyncio.ensure_future(bench.engine.handle(service(f"m{n}", n, "ok", n))) for n in range(4)]
    await asyncio.sleep(0.01)
    draining = asyncio.ensure_future(bench.engine.drain())
    await asyncio.sleep(0.01)
    late = await bench.engine.handle(service("m9", 9, "ok", 9))
    assert (late.reason, settle_push(late).http_status) == ("shutting_down", 503)
    bench.store.gate.set()
    await draining
    assert [task.result().outcome for task in accepted] == [Outcome.APPLIED] * 4


async def test_draining_begins_no_try_it_cannot_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that takes long to fail must not hold up the end beyond the drain's own limit."""
    monkeypatch.setattr("millpond.engine.queue.DRAIN_S", 0.5)
    bench = Bench(FaultyStore(), FIRESTORE_RETRY_MAX_TOTAL_S="30")
    bench.store.commit_s = 0.3
    bench.store.before.extend([Unavailable("away")] * 100)
    answered = asyncio.ensure_future(bench.send(service("m1", 1, "ok", 1)))
    await asyncio.sleep(0.05)
    await bench.engine.drain()
    (result,) = await answered
    assert result.reason == "store_unavailable"
    assert len(bench.store.commits) == 1


async def test_draining_takes_along_what_has_just_arrived() -> None:
    """What was accepted in the very turn that ends the process is finished like the rest."""
    bench = Bench(FaultyStore(in_flight_max=1))
    results: list[Result] = []
    bench.engine.submit(service("m1", 1, "ok", 1), results.append)
    await bench.engine.drain()
    assert [result.outcome for result in results] == [Outcome.APPLIED]
