"""Other writers of the same documents: read again, plan again, and delay only who shares the document."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from millpond.core.ack import settle_push
from millpond.core.model import Committed, Conflict, LogEntry, Outcome, Write
from millpond.engine import engine
from millpond.engine.contention import OtherWriters
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


async def test_contention_delays_only_who_shares_the_document() -> None:
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
    """All are tried together again, not each by itself: that would make it worse."""
    bench = Bench(FaultyStore(in_flight_max=1))
    conflicts = iter([Conflict(), Conflict()])
    commit = bench.store.commit

    async def contended(writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        return next(conflicts, None) or await commit(writes, log)

    bench.store.commit = contended  # type: ignore[method-assign]
    messages = [delivery({"service": f"s{n}", "timestamp": at(0)}, f"m{n}") for n in range(100)]
    assert {result.outcome for result in await bench.send(*messages)} == {Outcome.APPLIED}
    assert len(bench.store.commits) == 1


async def test_a_lane_and_other_messages_alternate_on_a_store_with_one_writer() -> None:
    """Neither waits until the other has nothing left: one slot is shared."""
    store = FaultyStore(in_flight_max=1)
    ours, theirs = Bench(store), Bench(store)
    await ours.send(service("m1", 1, "one", 1))
    await theirs.send(service("m2", 2, "two", 2))
    order: list[str] = []
    commit = store.commit

    async def noted(writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        answer = await commit(writes, log)
        if isinstance(answer, Committed):
            order.extend(write.ref.id for write in writes if write.ref.collection == "ops_services")
            if len(order) < 8:
                # Each commit of another document is followed by the next message.
                n = len(order)
                other = delivery({"service": f"s{n}", "timestamp": at(1)}, f"o{n}")
                ours.engine.submit(other, lambda _: None)
        return answer

    store.commit = noted  # type: ignore[method-assign]
    other = delivery({"service": "s", "timestamp": at(1)}, "o")
    results = await ours.send(service("m3", 3, "three", 3), other)
    assert outcomes(results) == ["applied", "applied"]
    assert "dev__api" in order[:4], order


async def test_a_receipt_in_the_way_is_no_contention() -> None:
    """A redelivered message that this process has forgotten costs a read and one more commit, and no turn."""
    store = FaultyStore(in_flight_max=1)
    first, again = Bench(store), Bench(store)
    await first.send(service("m1", 1, "one", 5), service("m0", 0, "zero", 1))
    store.commits.clear()
    results = await again.send(service("m0", 0, "zero", 1))
    assert outcomes(results) == ["duplicate_message_noop"]
    assert len(store.commits) <= 2


async def test_others_are_forgotten_when_only_new_documents_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """They show nothing of cached documents, so the instance would go on with few batches for ever."""
    others = OtherWriters()
    monkeypatch.setattr(engine, "OtherWriters", lambda: others)
    bench = Bench(FaultyStore())
    others.compared(100, 50)
    assert others.write_much
    for number in range(200):
        event = {"service": f"s{number}", "timestamp": at(number), "topic": "system.events"}
        await bench.send(delivery(event, f"m{number}"))
    assert not others.write_much
