"""Other writers of the same documents: read again, plan again, and delay only who shares the document."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.core.ack import settle_push
from millpond.core.model import Committed, Conflict, LogEntry, Outcome, Write
from tests.common.faulty_store import FaultyStore
from tests.common.pond import at, delivery, service
from tests.common.rig import Bench
from tests.engine.support import outcomes


async def test_another_writer_is_met_with_fresh_reads() -> None:
    """A conflict reads the culprit again and plans again; the greater stamp wins, in any order."""
    store = FaultyStore()
    ours, theirs = Bench(store), Bench(store)
    await ours.send(service("m1", 1, "one", 1))
    await theirs.send(service("m2", 2, "two", 2))
    (newer,) = await ours.send(service("m3", 3, "three", 3))
    (older,) = await theirs.send(service("m0", 0, "zero", 0))
    assert (newer.reason, older.reason) == ("applied", "stale_event_ignored")
    assert (await ours.document("ops_services/dev__api"))["status"] == "three"
    assert ours.service.metrics.conflicts == 1


async def test_contention_splits_the_batch_into_groups() -> None:
    """A document that another writer keeps changing delays only the messages about it."""
    store = FaultyStore(in_flight_max=1)
    bench = Bench(store, FIRESTORE_RETRY_MAX_TOTAL_S="0.2")
    real = store.commit

    async def contended(writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        if any(write.ref.path == "ops_services/dev__hot" for write in writes):
            store.commits.append(writes)
            return Conflict()
        return await real(writes, log)

    store.commit = contended  # type: ignore[method-assign]
    hot = delivery({"service": "hot", "timestamp": at(1)}, "h1")
    cold = [delivery({"service": f"s{n}", "timestamp": at(1)}, f"m{n}") for n in range(5)]
    results = await bench.send(hot, *cold)
    assert outcomes(results) == ["contention"] + ["applied"] * 5
    assert settle_push(results[0]).http_status == 503


async def test_contention_without_culprits_does_not_fan_out() -> None:
    """Two halves, not a commit for every message: that would make it worse."""
    bench = Bench(FaultyStore(in_flight_max=1))
    conflicts = iter([Conflict(), Conflict()])
    commit = bench.store.commit

    async def contended(writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        return next(conflicts, None) or await commit(writes, log)

    bench.store.commit = contended  # type: ignore[method-assign]
    messages = [delivery({"service": f"s{n}", "timestamp": at(0)}, f"m{n}") for n in range(100)]
    assert {result.outcome for result in await bench.send(*messages)} == {Outcome.APPLIED}
    assert len(bench.store.commits) == 2
