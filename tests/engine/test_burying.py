"""Dead letters: which messages are buried, when a letter counts, and what a failed letter means."""

from __future__ import annotations

import asyncio

import pytest

from millpond.core.ack import settle_push
from millpond.core.errors import AccessDenied, Unavailable
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Delivery, Outcome, Ref
from millpond.core.severity import severity_of
from millpond.dead_letters.store import StoredLetters
from tests.common.faulty_store import FaultyStore
from tests.common.pond import SECOND, Orders, at, delivery, order, service
from tests.common.rig import Bench
from tests.engine.support import POISON

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
async def test_poison_follows_its_policy(policy: str, message: Delivery, status: int, buried: bool) -> None:
    """400 only where a native dead-letter policy will end the redeliveries; otherwise buried first, then 200."""
    bench = Bench(FaultyStore(), POISON_POLICY=policy)
    (result,) = await bench.send(message)
    assert (result.outcome, result.reason) == (Outcome.POISON, "unroutable_payload")
    assert settle_push(result).http_status == status
    assert (await bench.document("dead_letters/s__p1") is not None) == buried


async def test_a_letter_that_cannot_be_stored_is_not_acknowledged() -> None:
    """Burying failed means the broker keeps the message."""
    bench = Bench(FaultyStore())
    bench.store.before.extend([Unavailable("away")] * 100)
    (result,) = await bench.send(POISON)
    assert settle_push(result).http_status == 503


async def test_a_purged_letter_is_written_again() -> None:
    """Poison that comes back is acknowledged for a letter that is there, not for one remembered."""
    bench = Bench(FaultyStore())
    await bench.send(POISON)
    await bench.service.letters.purge(Ref("dead_letters", "s__p1"))
    (result,) = await bench.send(POISON)
    assert result.buried
    assert await bench.document("dead_letters/s__p1") is not None


async def test_an_expired_letter_does_not_count() -> None:
    """It may be deleted any moment; a message that comes again then must be buried again."""
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


async def test_letters_without_a_subscription_are_told_apart_by_content() -> None:
    """Two topics may use one message id; neither message may be lost in the other's letter."""
    bench = Bench(FaultyStore())
    for number in (0, 1, 1):
        await bench.send(delivery({"no": number}, "1", subscription=""))
    assert await bench.store.collections() == [("dead_letters", 2)]


async def test_a_slow_letter_holds_up_no_message() -> None:
    """What a batch has made durable is answered before the batch's letters are made."""
    bench = Bench(FaultyStore())
    bench.use(Orders())
    letters = StoredLetters(bench.store, keep=10**15, wall_clock=lambda: bench.now)
    order_of_answers: list[str] = []

    async def slowly(item: Item) -> DeadLetter:
        await asyncio.sleep(0.1)
        return await letters.write_letter(item)

    bench.bury_with(slowly)

    async def sent(message: Delivery) -> None:
        await bench.engine.handle(message)
        order_of_answers.append(message.message_id)

    month = 30 * 86_400
    old = [order(f"old{n}", 1, -month, -month) for n in range(20)]
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(sent(message) for message in [*old, order("new", 1, 0)]))
    assert order_of_answers[0] == "new"
    assert asyncio.get_running_loop().time() - began < 1.0


def publishing_bench(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Bench:
    """Its letters go to a topic, of a broker where nothing listens."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
    return Bench(FaultyStore(), DLQ_TOPIC="projects/p/topics/letters", **environment)


async def test_denied_access_with_letters_elsewhere_is_buried_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Published, ALERT, 200. What cannot be published is not acknowledged."""
    bench = publishing_bench(monkeypatch, ACCESS_DENIED="dlq")
    posted: list[str] = []

    async def publish(item: Item) -> DeadLetter:
        if item.delivery.message_id == "m2":
            raise Unavailable("the topic is gone")
        posted.append(item.delivery.message_id)
        return DeadLetter(None, None, item.faults[0].reason)

    bench.bury_with(publish)
    bench.store.before.extend([AccessDenied("no", code="PERMISSION_DENIED")] * 5)
    denied, unpublished = await bench.send(service("m1", 1, "ok", 1), service("m2", 2, "ok", 2))
    settlement = settle_push(denied)
    assert (denied.reason, settlement.http_status, severity_of(denied)) == ("access_denied", 200, "ALERT")
    assert posted == ["m1"]
    settlement = settle_push(unpublished)
    assert (unpublished.reason, settlement.http_status) == ("letter_not_stored", 503)
    assert "the topic is gone" in str(unpublished.error)
    assert "AccessDenied: no" in str(unpublished.error)
    assert bench.service.metrics.letters_buried == 1


async def test_what_only_the_denied_store_could_keep_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred attributes leave no room for ours on the topic, and the store takes no letter either."""
    bench = publishing_bench(monkeypatch, ACCESS_DENIED="dlq")
    bench.store.before.extend([AccessDenied("no", code="PERMISSION_DENIED")] * 5)
    many = {f"a{n}": "x" for n in range(100)}
    (result,) = await bench.send(delivery({"service": "x", "timestamp": at(0)}, "m1", attributes=many))
    assert (result.reason, result.settled, settle_push(result).http_status) == ("access_denied", False, 503)
    assert await bench.store.collections() == []


async def test_a_published_letter_is_durable_whatever_the_store_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poison whose letter lies on the topic is acknowledged also where its log entry cannot be kept."""
    bench = publishing_bench(monkeypatch, FIRESTORE_RETRY_MAX_TOTAL_S="0.1")
    posted: list[str] = []

    async def publish(item: Item) -> DeadLetter:
        posted.append(item.delivery.message_id)
        return DeadLetter(None, None, item.faults[0].reason)

    bench.bury_with(publish)
    bench.store.before.extend([Unavailable("away")] * 100)
    (result,) = await bench.send(delivery({"service": "x", "timestamp": "?"}, "m1"))
    assert (result.outcome, result.reason, result.settled) == (Outcome.POISON, "invalid_event", True)
    assert posted == ["m1"]
