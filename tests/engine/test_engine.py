"""The engine under faults: nothing acknowledged is lost, nothing is applied twice, neighbours do not suffer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest

from millpond import Event, Latest, Tally
from millpond import views as views_module
from millpond.core.ack import settle_push
from millpond.core.errors import AccessDenied, Overloaded, StoreError, Unavailable
from millpond.core.model import (
    Committed,
    Conflict,
    Delete,
    Delivery,
    Document,
    LogEntry,
    Outcome,
    Ref,
    Result,
    Snapshot,
    Write,
)
from millpond.core.route import Fault, Item, Letter
from millpond.engine.cache import SnapshotCache
from millpond.reprocess.jobs import Job
from millpond.stores.clock_agreement import ClockAgreement
from millpond.stores.memory import MemoryStore
from tests.common.faulty import Bench, FaultyStore
from tests.common.pond import NOW, SECOND, Orders, at, delivery, order, service, signal, tick


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def outcomes(results: list[Result]) -> list[str]:
    return [result.reason for result in results]


def test_the_happy_path_is_one_commit_and_no_read_once_warm() -> None:
    """A hundred messages over ten documents share a few commits; warm documents are not read."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=1))
        await bench.send(*(delivery({"service": f"s{n}", "timestamp": at(0)}, f"a{n}") for n in range(10)))
        bench.store.reads.clear()
        bench.store.commits.clear()
        messages = [delivery({"service": f"s{n % 10}", "timestamp": at(n + 1)}, f"b{n}", n) for n in range(100)]
        assert set(outcomes(await bench.send(*messages))) == {"applied"}
        assert bench.store.reads == []
        assert len(bench.store.commits) == 1

    run(scenario)


def test_a_hundred_ticks_for_one_symbol_are_one_document_write() -> None:
    """Each has its own outcome, as if applied one by one."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=1), TICK_HISTORY="off")
        results = await bench.send(*(tick(f"m{n}", n, n % 50, n) for n in range(100)))
        assert bench.store.writes_of("market_ticks_latest/SPY") == 1
        assert outcomes(results).count("applied") == 51
        assert (await bench.document("market_ticks_latest/SPY"))["price"] == 99

    run(scenario)


def test_batches_of_one_process_never_share_a_document() -> None:
    """Eight commits may run at once, and still no message of ours conflicts with another."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        messages = [delivery({"service": f"s{n % 3}", "timestamp": at(n)}, f"m{n}", n) for n in range(60)]
        bench.store.commit_s = 0.003
        waves = []
        for message in messages:
            waves.append(asyncio.ensure_future(bench.send(message)))
            await asyncio.sleep(0.0005)
        await asyncio.gather(*waves)
        assert bench.service.metrics.conflicts == 0
        assert bench.store.commits_at_once > 1

    run(scenario)


@pytest.mark.parametrize("applied", [False, True], ids=["before applying", "after applying"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_store_that_fails_for_a_while_loses_and_doubles_nothing(applied: bool, times: int) -> None:
    """A lost reply and a lost request look the same; reading again tells them apart, tallies included."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        bench.use(*bench.service.views, Orders())
        faults = bench.store.after if applied else bench.store.before
        faults.extend([Unavailable("the reply got lost", code="UNAVAILABLE")] * times)
        results = await bench.send(order("m1", 10, 0), order("m2", 5, -1), service("m3", 1, "ok", 1))
        assert all(settle_push(result).http_status == 200 for result in results)
        sales = await bench.document("sales/d1")
        assert (sales["count"], sales["sum"]) == (2, 15)
        assert (await bench.document("ops_services/dev__api"))["status"] == "ok"
        again = await bench.send(order("m1", 10, 0), order("m2", 5, -1), service("m3", 1, "ok", 1))
        assert {result.outcome for result in again} == {Outcome.DUPLICATE}
        assert (await bench.document("sales/d1"))["sum"] == 15

    run(scenario)


def test_a_store_that_stays_away_is_answered_as_retry() -> None:
    """503, logged with its error, and nothing acknowledged."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        bench.store.before.extend([Unavailable("away", code="UNAVAILABLE")] * 100)
        (result,) = await bench.send(service("m1", 1, "ok", 1))
        settlement = settle_push(result)
        assert (result.outcome, result.reason) == (Outcome.RETRY, "store_unavailable")
        assert (settlement.http_status, settlement.severity, settlement.retryable) == (503, "ERROR", True)
        assert len(bench.store.commits) == 6, "FIRESTORE_RETRY_MAX_ATTEMPTS"

    run(scenario)


def test_the_retry_budget_counts_from_arrival() -> None:
    """FIRESTORE_RETRY_MAX_TOTAL_S ends the tries, however many are left."""

    async def scenario() -> None:
        bench = Bench(
            FaultyStore(),
            FIRESTORE_RETRY_MAX_TOTAL_S="0.1",
            FIRESTORE_RETRY_INITIAL_BACKOFF_S="0.04",
            FIRESTORE_RETRY_MAX_BACKOFF_S="0.04",
            FIRESTORE_RETRY_MAX_ATTEMPTS="100",
        )
        bench.store.before.extend([Unavailable("away")] * 100)
        began = asyncio.get_running_loop().time()
        (result,) = await bench.send(service("m1", 1, "ok", 1))
        assert result.reason == "store_unavailable"
        assert asyncio.get_running_loop().time() - began < 0.3

    run(scenario)


def test_a_call_goes_on_for_the_last_message_of_its_batch() -> None:
    """One whose time is nearly up shares a batch with one that has just come: the call that hangs ends in time."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=1), FIRESTORE_RETRY_MAX_TOTAL_S="1.5")
        bench.store.gate.clear()
        ahead = asyncio.ensure_future(bench.send(service("m0", 0, "ok", 0)))
        await asyncio.sleep(0.05)
        old = asyncio.ensure_future(bench.send(service("m1", 1, "ok", 1)))
        await asyncio.sleep(0.9)
        new = asyncio.ensure_future(bench.send(service("m2", 2, "ok", 2)))
        await asyncio.sleep(0.05)
        bench.store.gate.set()
        await ahead
        bench.store.gate.clear()
        await asyncio.sleep(0.8)
        bench.store.gate.set()
        assert outcomes([*await old, *await new]) == ["applied", "applied"]
        assert [len(writes) for writes in bench.store.commits] == [2, 3], "a document, and a receipt for each"

    run(scenario)


def test_denied_access_is_retried_by_the_broker_and_pages_somebody() -> None:
    """It will not heal by itself, so the budget is not spent on it."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        bench.store.before.append(AccessDenied("no", code="PERMISSION_DENIED"))
        (result,) = await bench.send(service("m1", 1, "ok", 1))
        settlement = settle_push(result)
        assert (result.reason, settlement.http_status, settlement.severity) == ("access_denied", 503, "CRITICAL")
        assert len(bench.store.commits) == 1

    run(scenario)


def test_one_process_never_races_itself() -> None:
    """More than one batch waits for the same document: they follow each other, and no commit conflicts."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=8), CONSUMER_QUEUE_SIZE="5000")
        await bench.send(tick("m0", 0, 0, 1.0))
        bench.store.reads.clear()
        await bench.send(*(tick(f"m{n}", n, n, float(n)) for n in range(1, 1_500)))
        assert bench.service.metrics.conflicts == 0
        assert bench.store.reads == []
        assert (await bench.document("market_ticks_latest/SPY"))["price"] == 1_499.0

    run(scenario)


def test_half_is_committed_while_the_other_half_is_planned() -> None:
    """Much waits for few documents: two commits at once, none of which gets into the other's way."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=8), CONSUMER_QUEUE_SIZE="5000")
        bench.store.commit_s = 0.01
        messages = [delivery({"service": f"s{n % 50}", "timestamp": at(n)}, f"m{n}", n) for n in range(600)]
        assert {result.outcome for result in await bench.send(*messages)} == {Outcome.APPLIED}
        assert bench.store.commits_at_once == 2
        assert bench.service.metrics.conflicts == 0
        assert len(bench.store.commits) <= 4

    run(scenario)


def test_draining_begins_no_try_it_cannot_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that takes long to fail must not hold up the end beyond the drain's own limit."""
    monkeypatch.setattr("millpond.engine.queue.DRAIN_S", 0.5)

    async def scenario() -> None:
        bench = Bench(FaultyStore(), FIRESTORE_RETRY_MAX_TOTAL_S="30")
        bench.store.commit_s = 0.3
        bench.store.before.extend([Unavailable("away")] * 100)
        answered = asyncio.ensure_future(bench.send(service("m1", 1, "ok", 1)))
        await asyncio.sleep(0.05)
        await bench.engine.drain()
        (result,) = await answered
        assert result.reason == "store_unavailable"
        assert len(bench.store.commits) == 1

    run(scenario)


def test_denied_access_with_letters_elsewhere_is_buried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """002's reading: published, ALERT, 200. What cannot be published is not acknowledged."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")

    async def scenario() -> None:
        bench = Bench(FaultyStore(), DLQ_TOPIC="projects/p/topics/letters", ACCESS_DENIED="dlq")
        posted: list[str] = []

        async def publish(item: Item, fault: Fault) -> Letter:
            if item.delivery.message_id == "m2":
                raise Unavailable("the topic is gone")
            posted.append(item.delivery.message_id)
            return Letter(None, None, fault.reason)

        bench.engine.dead_letter_sink.write_letter = publish  # type: ignore[method-assign]
        bench.store.before.extend([AccessDenied("no", code="PERMISSION_DENIED")] * 5)
        denied, unpublished = await bench.send(service("m1", 1, "ok", 1), service("m2", 2, "ok", 2))
        settlement = settle_push(denied)
        assert (denied.reason, settlement.http_status, settlement.severity) == ("access_denied", 200, "ALERT")
        assert posted == ["m1"]
        settlement = settle_push(unpublished)
        assert (unpublished.reason, settlement.http_status) == ("letter_not_stored", 503)
        assert "the topic is gone" in str(unpublished.error)
        assert "AccessDenied: no" in str(unpublished.error)
        assert bench.service.metrics.letters_buried == 1

    run(scenario)


def test_what_only_the_denied_store_could_keep_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred attributes leave no room for ours on the topic, and the store takes no letter either."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")

    async def scenario() -> None:
        bench = Bench(FaultyStore(), DLQ_TOPIC="projects/p/topics/letters", ACCESS_DENIED="dlq")
        bench.store.before.extend([AccessDenied("no", code="PERMISSION_DENIED")] * 5)
        many = {f"a{n}": "x" for n in range(100)}
        (result,) = await bench.send(delivery({"service": "x", "timestamp": at(0)}, "m1", attributes=many))
        assert (result.reason, result.settled, settle_push(result).http_status) == ("access_denied", False, 503)
        assert await bench.store.collections() == []

    run(scenario)


def test_a_published_letter_is_durable_whatever_the_store_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poison whose letter lies on the topic is acknowledged also where its log entry cannot be kept."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")

    async def scenario() -> None:
        bench = Bench(FaultyStore(), DLQ_TOPIC="projects/p/topics/letters", FIRESTORE_RETRY_MAX_TOTAL_S="0.1")
        posted: list[str] = []

        async def publish(item: Item, fault: Fault) -> Letter:
            posted.append(item.delivery.message_id)
            return Letter(None, None, fault.reason)

        bench.engine.dead_letter_sink.write_letter = publish  # type: ignore[method-assign]
        bench.store.before.extend([Unavailable("away")] * 100)
        (result,) = await bench.send(delivery({"service": "x", "timestamp": "?"}, "m1"))
        assert (result.outcome, result.reason, result.settled) == (Outcome.POISON, "invalid_event", True)
        assert posted == ["m1"]

    run(scenario)


def test_a_slow_letter_holds_up_nobody() -> None:
    """What a batch has made durable is answered before the batch's letters are made."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        bench.use(Orders())
        write_letter = bench.engine.dead_letter_sink.write_letter
        order_of_answers: list[str] = []

        async def slowly(item: Item, fault: Fault) -> Letter:
            await asyncio.sleep(0.1)
            return await write_letter(item, fault)

        bench.engine.dead_letter_sink.write_letter = slowly  # type: ignore[method-assign]

        async def sent(message: Delivery) -> None:
            await bench.engine.handle(message)
            order_of_answers.append(message.message_id)

        month = 30 * 86_400
        old = [order(f"old{n}", 1, -month, -month) for n in range(20)]
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(sent(message) for message in [*old, order("new", 1, 0)]))
        assert order_of_answers[0] == "new"
        assert asyncio.get_running_loop().time() - began < 1.0

    run(scenario)


def test_letters_that_are_being_made_take_room() -> None:
    """A topic for letters that hangs must not let poison pile up without end."""

    class Hanging:
        async def write_letter(self, item: Item, fault: Fault) -> Letter:
            await asyncio.sleep(0.2)
            return Letter(None, None, f"{fault.reason} of {item.delivery.message_id}")

        async def close(self) -> None:
            """Nothing is open."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(), CONSUMER_QUEUE_SIZE="2")
        bench.engine.dead_letter_sink = Hanging()
        poison = [asyncio.ensure_future(bench.send(delivery({"nothing": n}, f"p{n}"))) for n in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(Overloaded):
            await bench.send(service("m", 1, "ok", 1))
        await asyncio.gather(*poison)
        assert outcomes(await bench.send(service("m", 1, "ok", 1))) == ["applied"]

    run(scenario)


def test_everything_that_has_expired_is_swept_bite_by_bite() -> None:
    """Once a minute a sweep begins, and ends when the store has nothing more to delete."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        bites = [1_000, 1_000, 7, 0]
        asked: list[tuple[int, int | None]] = []

        async def sweep(now: int, events_before: int | None) -> int:
            asked.append((now, events_before))
            return bites.pop(0)

        bench.store.sweep = sweep  # type: ignore[method-assign]
        bench.service._clocks = ClockAgreement(lambda: NOW, agreed_s=0)
        assert (await bench.service.sweep(), bites) == (2_007, [])
        assert asked == [(NOW, None)] * 4

    run(scenario)


def test_a_rebuild_ends_with_the_service() -> None:
    """It is dropped before what was accepted is finished: both work on the same store, which is closed next."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        bench.service.rebuilds.job = job = cast("Job", Stopping(bench))
        await bench.service.drain()
        assert cast("Stopping", job).stopped_while_accepting
        assert bench.service.rebuilds.job is None

    run(scenario)


class Stopping:
    """A rebuild that notes whether it was stopped in time."""

    stopped_while_accepting = False

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def stop(self) -> None:
        self.stopped_while_accepting = self._bench.engine.accepting


def test_an_expired_letter_does_not_count() -> None:
    """It may be deleted any moment; a message that comes again then must be buried again."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(), LETTER_TTL_DAYS="1")
        poison = delivery({"service": "x", "timestamp": "?"}, "m1")
        await bench.send(poison)
        (first,) = await bench.store.list_documents("dead_letters", 9, None)
        await bench.send(poison)
        assert await bench.store.list_documents("dead_letters", 9, None) == [first]
        bench.now += 86_400 * SECOND
        await bench.send(poison)
        (again,) = await bench.store.list_documents("dead_letters", 9, None)
        assert again.data is not None
        assert first.data is not None
        assert again.data["expireAt"] > first.data["expireAt"]

    run(scenario)


def test_contention_without_culprits_does_not_fan_out() -> None:
    """Two halves, not a commit for every message: that would make it worse."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=1))
        conflicts = iter([Conflict(), Conflict()])
        commit = bench.store.commit

        async def contended(writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
            return next(conflicts, None) or await commit(writes, log)

        bench.store.commit = contended  # type: ignore[method-assign]
        messages = [delivery({"service": f"s{n}", "timestamp": at(0)}, f"m{n}") for n in range(100)]
        assert {result.outcome for result in await bench.send(*messages)} == {Outcome.APPLIED}
        assert len(bench.store.commits) == 2

    run(scenario)


def test_what_its_sender_keeps_is_never_buried() -> None:
    """A message of a dead-letter subscription stays there when it fails again: poison, a bug, a refused write."""

    class Buggy(Latest):
        topics = ("buggy",)
        collection = "buggy"
        key = "id"

        def document(self, event: Event) -> Document:
            raise RuntimeError(event.topic)

    async def scenario() -> None:
        bench = Bench(FaultyStore(), POISON_POLICY="park", VIEW_ERROR_PARK_AFTER_S="0")
        bench.use(*bench.service.views, Buggy())
        bench.store.refused.add("refused")
        replay = bench.service.replay_delivery
        poison = await replay(delivery({"service": "x", "timestamp": "?"}, "m1"))
        bug = await replay(delivery({"topic": "buggy", "id": "x"}, "m2"))
        refused = await replay(service("m3", 1, "refused", 1))
        fine = await replay(service("m4", 1, "ok", 1))
        assert outcomes([poison, bug, refused, fine]) == ["invalid_event", "view_error", "write_refused", "applied"]
        assert [result.settled for result in (poison, bug, refused, fine)] == [False, False, False, True]
        assert await bench.store.list_documents("dead_letters", 10, None) == []

    run(scenario)


def test_a_refused_write_is_isolated_and_buried() -> None:
    """Its batch is halved until it is alone; the rest commits, the culprit lies in the letters, and we alert."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=1))
        bench.store.refused = {"bad"}
        messages = [
            delivery({"service": f"s{n}", "timestamp": at(1), "status": "bad" if n == 5 else "ok"}, f"m{n}")
            for n in range(16)
        ]
        results = await bench.send(*messages)
        assert outcomes(results) == ["applied"] * 5 + ["write_refused"] + ["applied"] * 10
        settlement = settle_push(results[5])
        assert (settlement.http_status, settlement.severity) == (200, "ALERT")
        letter = await bench.document("dead_letters/s__m5")
        assert (letter["reason"], letter["messageId"]) == ("write_refused", "m5")
        assert await bench.document("ops_services/dev__s5") is None
        assert (await bench.store.count_events())["system.events"] == {"applied": 15, "poison": 1}

    run(scenario)


def test_another_writer_is_met_with_fresh_reads() -> None:
    """A conflict reads the culprit again and plans again; the greater stamp wins whoever wrote first."""

    async def scenario() -> None:
        store = FaultyStore()
        ours, theirs = Bench(store), Bench(store)
        await ours.send(service("m1", 1, "one", 1))
        await theirs.send(service("m2", 2, "two", 2))
        (newer,) = await ours.send(service("m3", 3, "three", 3))
        (older,) = await theirs.send(service("m0", 0, "zero", 0))
        assert (newer.reason, older.reason) == ("applied", "stale_event_ignored")
        assert (await ours.document("ops_services/dev__api"))["status"] == "three"
        assert ours.service.metrics.conflicts == 1

    run(scenario)


def test_contention_splits_the_batch_into_groups() -> None:
    """A document somebody else keeps changing delays only those who share it."""

    async def scenario() -> None:
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

    run(scenario)


def test_a_verdict_from_an_old_cache_entry_is_checked_by_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator deleted the document meanwhile: the event is news, not stale."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        await bench.send(service("m1", 1, "ok", 5))
        ref = Ref("ops_services", "dev__api")
        (found,) = await MemoryStore.read(bench.store, [ref])
        assert found.version is not None
        await MemoryStore.commit(bench.store, [Delete(ref, found.version)])
        monkeypatch.setattr("millpond.engine.committer.CACHE_TRUST_S", -1.0)
        (result,) = await bench.send(service("m2", 2, "back", 3))
        assert result.reason == "applied"
        assert (await bench.document("ops_services/dev__api"))["status"] == "back"

    run(scenario)


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


def test_a_full_room_answers_at_once() -> None:
    """CONSUMER_QUEUE_SIZE counts those waiting; the next one hears 429 without waiting."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=1), CONSUMER_QUEUE_SIZE="3")
        bench.store.gate.clear()
        first = asyncio.ensure_future(bench.engine.handle(service("m0", 0, "ok", 0)))
        await asyncio.sleep(0.01)
        waiting = [asyncio.ensure_future(bench.engine.handle(service(f"m{n}", n, "ok", n))) for n in range(1, 4)]
        await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await bench.engine.handle(service("m9", 9, "ok", 9))
        bench.store.gate.set()
        assert {result.outcome for result in await asyncio.gather(first, *waiting)} == {Outcome.APPLIED}

    run(scenario)


def test_the_room_is_bounded_by_bytes_too() -> None:
    """A few huge messages must not fill memory while they wait."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=1))
        bench.engine.rules = msgspec.structs.replace(bench.engine.rules, room_bytes_max=10_000)
        bench.store.gate.clear()
        big = {"service": "api", "timestamp": at(0), "blob": "x" * 5_000}
        started = []
        for number in range(2):
            started.append(asyncio.ensure_future(bench.engine.handle(delivery(big, f"m{number}"))))
            await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await bench.engine.handle(delivery(big, "m9"))
        bench.store.gate.set()
        await asyncio.gather(*started)

    run(scenario)


def test_draining_finishes_what_was_accepted_and_refuses_the_rest() -> None:
    """After SIGTERM nothing is cut off half way and nothing new begins."""

    async def scenario() -> None:
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

    run(scenario)


POISON = delivery({"no": "topic"}, "p1")
POISON_AGAIN = delivery({"no": "topic"}, "p1", attempt=2)


@pytest.mark.parametrize(
    ("policy", "message", "status", "buried"),
    [
        ("auto", POISON, 200, True),
        ("auto", POISON_AGAIN, 400, False),
        ("park", POISON_AGAIN, 200, True),
        ("native", POISON, 400, False),
    ],
)
def test_poison_follows_its_policy(policy: str, message: Delivery, status: int, buried: bool) -> None:
    """400 only where a native dead-letter policy will end the redeliveries; otherwise buried first, then 200."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(), POISON_POLICY=policy)
        (result,) = await bench.send(message)
        assert (result.outcome, result.reason) == (Outcome.POISON, "unroutable_payload")
        assert settle_push(result).http_status == status
        assert (await bench.document("dead_letters/s__p1") is not None) == buried

    run(scenario)


def test_a_letter_that_cannot_be_stored_is_not_acknowledged() -> None:
    """Burying failed means the broker keeps the message."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        bench.store.before.extend([Unavailable("away")] * 100)
        (result,) = await bench.send(POISON)
        assert settle_push(result).http_status == 503

    run(scenario)


def test_a_failing_view_is_retried_and_parked_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deploy may heal it; a message that stays ill is buried as view_error, with what was raised."""

    def broken(_: Any, event: Any) -> Any:
        raise RuntimeError("boom " + event.get("status"))

    monkeypatch.setattr(views_module.ops.OpsServices, "document", broken)

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        good = tick("t1", 0, 0, 1)
        result, fine = await bench.send(service("m1", 0, "ok", 0), good)
        assert (result.outcome, result.reason, fine.reason) == (Outcome.RETRY, "view_error", "applied")
        assert "boom" not in str(result.error)
        bench.now = NOW + 3_601 * SECOND
        (result,) = await bench.send(service("m1", 0, "ok", 0))
        assert (result.outcome, result.reason, settle_push(result).http_status) == (
            Outcome.POISON,
            "view_error",
            200,
        )
        letter = await bench.document("dead_letters/s__m1")
        assert "boom ok" in letter["error"]
        assert letter["view"] == "ops_services"

    run(scenario)


def test_replaying_a_letter_never_undoes_newer_state() -> None:
    """It keeps its message id and publish time: twice is a duplicate, after newer events it is stale."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        lost = delivery({"service": "api", "status": "old", "producedAt": at(1)}, "m1", 1)
        (buried,) = await bench.send(lost)
        assert buried.reason == "unroutable_payload"
        healed = Bench(bench.store, SOURCE_TOPIC="system.events")
        first = await healed.service.replay_letter("s__m1")
        second = await healed.service.replay_letter("s__m1")
        assert first is not None
        assert second is not None
        assert (first.reason, second.reason) == ("applied", "duplicate_message_noop")
        letter = await healed.document("dead_letters/s__m1")
        assert (letter["replays"], letter["replayReason"]) == (2, "duplicate_message_noop")
        assert await healed.store.count_events() == {"system.events": {"applied": 1}}
        assert await healed.service.replay_letter("nobody") is None

    run(scenario)


def test_a_letter_too_big_for_one_document_comes_in_parts() -> None:
    """Incompressible megabytes are kept whole, and purged whole."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        data = os.urandom(2_500_000)
        message = Delivery(message_id="big", publish_time=NOW, data=data, subscription="s")
        (result,) = await bench.send(message)
        assert (result.reason, result.buried) == ("invalid_json", True)
        opened = await bench.service.letters.open_letter(Ref("dead_letters", "s__big"))
        assert opened is not None
        assert opened[1] == message
        assert await bench.service.letters.purge(Ref("dead_letters", "s__big"))
        assert await bench.store.collections() == []

    run(scenario)


def test_an_unexpected_error_is_answered_as_retry_and_reported() -> None:
    """A bug of ours acknowledges nothing, and does not stop the engine."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        bench.store.before.append(RuntimeError("a bug"))
        (result,) = await bench.send(service("m1", 1, "ok", 1))
        await asyncio.sleep(0)
        assert (result.outcome, result.reason) == (Outcome.RETRY, "internal_error")
        assert reported
        (result,) = await bench.send(service("m1", 1, "ok", 1))
        assert result.reason == "applied"

    run(scenario)


class Hours(Tally):
    """A tally whose bug makes a document nobody can store."""

    name = collection = "hours"
    topics = ("orders",)
    key = "day"
    time = "ts"

    def fold(self, event: Event, current: Document) -> Document:
        return {**current, **({14: 1} if event.get("amount") == 13 else {"n": current.get("n", 0) + 1})}  # type: ignore[dict-item]


def test_what_no_store_takes_is_buried_and_its_neighbours_applied() -> None:
    """A field name that is no text is a fault of that document alone."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=1))
        bench.use(Hours())
        results = await bench.send(order("m1", 1, 0), order("m2", 13, -1), order("m3", 1, -2))
        assert outcomes(results) == ["applied", "write_refused", "applied"]
        assert (await bench.document("hours/d1"))["n"] == 2

    run(scenario)


class Clumsy(Latest):
    """A view whose shape test fails."""

    name = collection = "clumsy"
    topics = ("clumsy",)
    key = "id"

    def matches(self, payload: Mapping[str, Any]) -> bool:
        return bool(payload["no such field"])

    def document(self, event: Event) -> Document:
        return dict(event.payload)


def test_a_failing_shape_test_is_a_view_error() -> None:
    """It is retried, and buried in time, like every other bug of a view."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        bench.use(Clumsy())
        (result,) = await bench.send(POISON)
        assert (result.outcome, result.reason) == (Outcome.RETRY, "view_error")

    run(scenario)


class Anywhere(Latest):
    """A view whose bug names no collection."""

    name = "anywhere"
    topics = ("orders",)
    key = "day"

    def collection_of(self, event: Event) -> str:
        return ["a", event.topic]  # type: ignore[return-value]

    def document(self, event: Event) -> Document:
        return {"amount": event.get("amount")}


def test_a_collection_that_is_no_text_is_a_view_error() -> None:
    """And not a batch that nobody ever answers."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=8))
        bench.use(Anywhere())
        (result,) = await asyncio.wait_for(bench.send(order("m1", 10, 1)), 2)
        assert (result.outcome, result.reason) == (Outcome.RETRY, "view_error")

    run(scenario)


def test_a_refused_event_cannot_hide_behind_a_later_one() -> None:
    """Its own content decides, so that one batch and two end with the same document."""
    big = signal("m1", 1, updatedAt=at(1), symbol="SPY", targets="x" * 600_000)
    small = signal("m2", 2, updatedAt=at(2), state="new", targets=[])

    async def scenario() -> None:
        together, alone = Bench(FaultyStore(in_flight_max=1)), Bench(FaultyStore(in_flight_max=1))
        batch = await together.send(big, small)
        single = [*await alone.send(big), *await alone.send(small)]
        assert outcomes(batch) == outcomes(single) == ["write_refused", "applied"]
        assert "symbol" not in await together.document("trade_signals/s1")

    run(scenario)


def test_a_purged_letter_is_written_again() -> None:
    """Poison that comes back is acknowledged for a letter that is there, not for one remembered."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        await bench.send(POISON)
        await bench.service.letters.purge(Ref("dead_letters", "s__p1"))
        (result,) = await bench.send(POISON)
        assert result.buried
        assert await bench.document("dead_letters/s__p1") is not None

    run(scenario)


def test_letters_without_a_subscription_are_told_apart_by_content() -> None:
    """Two topics may use one message id; neither message may be lost in the other's letter."""

    async def scenario() -> None:
        bench = Bench(FaultyStore())
        for number in (0, 1, 1):
            await bench.send(delivery({"no": number}, "1", subscription=""))
        assert await bench.store.collections() == [("dead_letters", 2)]

    run(scenario)


def test_an_old_duplicate_of_a_tally_is_a_duplicate() -> None:
    """Its receipt is alive: an instance that has not seen it must look before it calls the event too old."""

    async def scenario() -> None:
        store = FaultyStore()
        first, second = Bench(store), Bench(store)
        for bench in (first, second):
            bench.use(Orders())
        old = order("m1", 10, -6.9 * 86_400)
        assert outcomes(await first.send(old)) == ["applied"]
        second.now = NOW + 12 * 3_600 * SECOND
        assert outcomes(await second.send(old)) == ["duplicate_message_noop"]

    run(scenario)


def test_a_failing_answer_does_not_reach_the_others() -> None:
    """One caller's broken connection is reported; its neighbours in the batch hear their outcomes."""

    async def scenario() -> None:
        bench = Bench(FaultyStore(in_flight_max=1))
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

        def broken(_: Result) -> None:
            raise RuntimeError("gone")

        bench.engine.submit(service("m1", 1, "ok", 1), broken)
        (result,) = await bench.send(service("m2", 2, "ok", 2))
        assert result.outcome is Outcome.APPLIED
        assert len(reported) == 1

    run(scenario)


def test_store_errors_are_all_answered() -> None:
    """Every kind in the tree has a settlement; a new kind must be given one."""
    assert {kind.__name__ for kind in StoreError.__subclasses__()} == {
        "Unavailable",
        "AccessDenied",
        "WriteRefused",
    }
