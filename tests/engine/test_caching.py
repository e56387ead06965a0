"""What is remembered of the store: snapshots and receipts written lately, how long, and how much."""

from __future__ import annotations

import pytest

from millpond.core.model import Delete, Ref, Snapshot
from millpond.engine.cache import RecentWrites, SnapshotCache
from millpond.stores.memory import MemoryStore
from tests.common.faulty_store import FaultyStore
from tests.common.pond import NOW, SECOND, Orders, order, service
from tests.common.rig import Bench
from tests.engine.support import outcomes


async def test_a_verdict_from_an_old_cache_entry_is_checked_by_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator deleted the document meanwhile: the event is news, not stale."""
    bench = Bench(FaultyStore())
    await bench.send(service("m1", 1, "ok", 5))
    ref = Ref("ops_services", "dev__api")
    (found,) = await MemoryStore.read(bench.store, [ref])
    assert found.version is not None
    await MemoryStore.commit(bench.store, [Delete(ref, found.version)])
    monkeypatch.setattr("millpond.engine.reader.TRUSTED_FOR_S", -1.0)
    (result,) = await bench.send(service("m2", 2, "back", 3))
    assert result.reason == "applied"
    assert (await bench.document("ops_services/dev__api"))["status"] == "back"


async def test_an_old_duplicate_of_a_tally_is_a_duplicate() -> None:
    """Its receipt is alive: an instance that has not seen it must look before it calls the event too old."""
    store = FaultyStore()
    first, second = Bench(store), Bench(store)
    for bench in (first, second):
        bench.use(Orders())
    old = order("m1", 10, -6.9 * 86_400)
    assert outcomes(await first.send(old)) == ["applied"]
    second.now = NOW + 12 * 3_600 * SECOND
    assert outcomes(await second.send(old)) == ["duplicate_message_noop"]


def test_the_cache_is_bounded_by_count_and_bytes() -> None:
    """What was not touched for a generation goes; what is used stays."""
    cache = SnapshotCache(entries_max=8, bytes_max=1_000)

    def put(name: str, size: int = 1) -> None:
        cache.put(Snapshot(Ref("c", name), 1, {}), 0.0, size)

    put("kept")
    for number in range(20):
        put(f"n{number}")
        assert cache.get(Ref("c", "kept")) is not None
    assert cache.get(Ref("c", "n0")) is None
    put("big", 2_000)
    put("big too", 2_000)
    assert cache.get(Ref("c", "n19")) is None


def test_what_is_dropped_from_the_cache_is_gone() -> None:
    """From both generations: what was used again after a while is in each of them."""
    cache = SnapshotCache(entries_max=4, bytes_max=1_000)
    old, used_again = Ref("c", "old"), Ref("c", "used again")
    for ref in (old, used_again):
        cache.put(Snapshot(ref, 1, {}), 0.0, 1)
    assert cache.get(used_again) is not None
    cache.drop([old, used_again])
    assert (cache.get(old), cache.get(used_again)) == (None, None)


def sightings_bench(store: FaultyStore | None = None) -> Bench:
    bench = Bench(store or FaultyStore(in_flight_max=1))
    bench.use(Orders())
    return bench


async def test_a_receipt_written_lately_is_read_before_it_is_in_the_way() -> None:
    """So a duplicate costs one read, not a commit that conflicts and takes the whole batch along."""
    bench = sightings_bench()
    await bench.send(order("m1", 10, 1))
    bench.store.reads.clear()
    bench.store.commits.clear()
    (again,) = await bench.send(order("m1", 10, 1))
    assert again.reason == "duplicate_message_noop"
    assert [ref.collection for refs in bench.store.reads for ref in refs] == ["ops_dedupe"]
    assert bench.service.metrics.conflicts == 0
    (other,) = await bench.send(order("m2", 10, 2))
    assert other.reason == "applied"
    assert len(bench.store.reads) == 1, "what was never seen is not read"


async def test_a_receipt_of_another_instance_is_in_the_way_once() -> None:
    """The conflict tells that it exists; after that it is known, and read."""
    first = sightings_bench()
    second = sightings_bench(first.store)
    await first.send(order("m1", 10, 1))
    for conflicts in (1, 1):
        (again,) = await second.send(order("m1", 10, 1))
        assert again.reason == "duplicate_message_noop"
        assert second.service.metrics.conflicts == conflicts


async def test_what_was_read_of_receipts_is_not_kept() -> None:
    """Only that they exist: thousands of duplicates must not push documents out of the cache."""
    bench = sightings_bench()
    await bench.send(order("m1", 10, 1))
    for _ in range(2):
        bench.store.reads.clear()
        await bench.send(order("m1", 10, 1))
        assert len(bench.store.reads) == 1


def test_sightings_are_forgotten_by_generations() -> None:
    """A bounded number of them, the latest surely among them."""
    seen = RecentWrites(entries_max=8)
    refs = [Ref("c", f"{number}") for number in range(100)]
    for ref in refs:
        seen.add([ref])
        assert ref in seen
    assert sum(ref in seen for ref in refs) <= 8
    assert all(ref in seen for ref in refs[-4:])
