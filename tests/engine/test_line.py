"""The line in front of a full waiting room: a short wait instead of a refusal, in order, and bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from millpond.core.ack import settle_push
from millpond.core.errors import Overloaded, Unavailable
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Delivery, Outcome, Result
from millpond.engine import admission as line
from tests.common.faulty_store import FaultyStore
from tests.common.pond import delivery, service
from tests.common.rig import Bench

FULL = "backpressure_queue_full"


class Crowd:
    """A bench whose store hangs, whose room is full, and who was answered what in which order."""

    def __init__(self, queue_size: int = 2, **settings: str) -> None:
        self.bench = Bench(FaultyStore(in_flight_max=1), CONSUMER_QUEUE_SIZE=str(queue_size), **settings)
        self.bench.store.gate.clear()
        self.answers: dict[str, Result] = {}

    async def begin(self, inside: Sequence[Delivery] = ()) -> None:
        """One message is being committed, and as many wait as may."""
        self.submit(message(0))
        await asyncio.sleep(0.01)
        for number, waiting in enumerate(inside or [message(n + 1) for n in range(2)]):
            self.submit(waiting)
            assert self.bench.engine.waiting == number + 1
        await asyncio.sleep(0.01)

    def submit(self, sent: Delivery, *, wait: bool = True) -> None:
        def done(result: Result) -> None:
            assert sent.message_id not in self.answers
            self.answers[sent.message_id] = result

        self.bench.engine.submit(sent, done, wait=wait)

    async def answered(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.answers) < count:  # noqa: ASYNC110 - a test may look
                await asyncio.sleep(0.001)

    def open(self) -> None:
        self.bench.store.gate.set()

    @property
    def reasons(self) -> dict[str, str]:
        return {message_id: result.reason for message_id, result in self.answers.items()}


def message(number: int) -> Delivery:
    return service(f"m{number}", number, "ok", number)


async def test_a_message_waits_for_room() -> None:
    """It finds the room full, and is applied as soon as a commit has made some: no refusal, no backoff."""
    crowd = Crowd()
    await crowd.begin()
    for number in range(3, 9):
        crowd.submit(message(number))
    assert crowd.bench.engine.waiting == 2
    crowd.open()
    await crowd.answered(9)
    assert set(crowd.reasons.values()) == {"applied"}
    assert list(crowd.answers) == [f"m{n}" for n in range(9)]


async def test_a_queue_that_stays_full_refuses_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with the usual reason; those in the room are not touched, and the next one has its own time."""
    monkeypatch.setattr(line, "ROOM_WAIT_S", 0.2)
    crowd = Crowd()
    await crowd.begin()
    began = time.monotonic()
    crowd.submit(message(3))
    await asyncio.sleep(0.1)
    crowd.submit(message(4))
    await crowd.answered(1)
    assert time.monotonic() - began > 0.18
    assert crowd.reasons == {"m3": FULL}
    assert settle_push(crowd.answers["m3"]).http_status == 429
    await crowd.answered(2)
    assert 0.28 < time.monotonic() - began < 5
    crowd.open()
    await crowd.answered(5)
    assert [crowd.reasons[f"m{n}"] for n in range(5)] == ["applied", "applied", "applied", FULL, FULL]


async def test_nobody_overtakes_the_line() -> None:
    """While others wait, there is no room for one that would not: it would take their turn."""
    crowd = Crowd()
    await crowd.begin()
    crowd.submit(message(3))
    with pytest.raises(Overloaded):
        crowd.submit(message(4), wait=False)
    crowd.open()
    await crowd.answered(4)
    assert "m4" not in crowd.answers


async def test_a_batch_takes_those_in_the_line_along() -> None:
    """The queue's size bounds who waits, not who is committed together: a slow store is not slowed down further."""
    crowd = Crowd()
    await crowd.begin()
    for number in range(3, 35):
        crowd.submit(message(number))
    crowd.open()
    await crowd.answered(35)
    assert len(crowd.bench.store.commits) <= 3
    assert set(crowd.reasons.values()) == {"applied"}


async def test_whoever_is_in_the_line_at_the_end_is_told_to_come_again() -> None:
    """They were not accepted: 503, at once, and everything accepted is finished."""
    crowd = Crowd()
    await crowd.begin()
    crowd.submit(message(3))
    draining = asyncio.ensure_future(crowd.bench.engine.drain())
    await crowd.answered(1)
    assert crowd.reasons == {"m3": "shutting_down"}
    crowd.open()
    await draining
    assert [crowd.reasons[f"m{n}"] for n in range(3)] == ["applied"] * 3


async def test_the_line_is_bounded_by_bytes() -> None:
    """What waits in front of the room costs memory, too: beyond the bound the answer comes at once."""
    crowd = Crowd()
    crowd.bench.limit(room_bytes_max=20_000)
    await crowd.begin()

    def big(name: str) -> Delivery:
        return delivery({"service": name, "timestamp": 1, "blob": "x" * 5_000}, name)

    crowd.submit(big("big-1"))
    with pytest.raises(Overloaded):
        crowd.submit(big("big-2"))
    crowd.open()
    await crowd.answered(4)
    # And its bytes were given back: there is a place again.
    crowd.bench.store.gate.clear()
    for number in range(10, 13):
        crowd.submit(message(number))
        await asyncio.sleep(0.01)
    crowd.submit(big("big-3"))
    crowd.open()
    await crowd.answered(8)
    assert set(crowd.reasons.values()) == {"applied"}


async def test_room_made_by_a_letter_is_taken() -> None:
    """Poison that is being buried counts as waiting; when it is done, the line moves."""
    crowd = Crowd(queue_size=1, POISON_POLICY="park")
    crowd.open()
    crowd.submit(delivery({"what": "is this"}, "poison"))
    for number in range(1, 6):
        crowd.submit(message(number))
    await crowd.answered(6)
    assert crowd.answers["poison"].outcome is Outcome.POISON
    assert {crowd.reasons[f"m{n}"] for n in range(1, 6)} == {"applied"}


async def test_room_made_by_a_letter_that_failed_is_taken() -> None:
    """The store is away for letters only: the poison is answered, and no message in the line waits for a timer."""

    async def away(item: Item) -> DeadLetter:
        await asyncio.sleep(0.02)
        raise Unavailable(f"no letter of {item.delivery.message_id}: {item.fault}")

    crowd = Crowd(queue_size=1, POISON_POLICY="park", FIRESTORE_RETRY_MAX_ATTEMPTS="1")
    crowd.open()
    crowd.bench.bury_with(away)
    crowd.submit(delivery({"what": "is this"}, "poison"))
    await asyncio.sleep(0.01)
    crowd.submit(message(1))
    began = time.monotonic()
    await crowd.answered(2)
    assert time.monotonic() - began < 0.5
    assert crowd.reasons == {"poison": "letter_not_stored", "m1": "applied"}


async def test_what_is_refused_by_time_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty line has no timer, and a new one gets its full time."""
    monkeypatch.setattr(line, "ROOM_WAIT_S", 0.05)
    crowd = Crowd()
    await crowd.begin()
    for number in range(3, 6):
        crowd.submit(message(number))
        await asyncio.sleep(0.06)
        assert crowd.reasons[f"m{number}"] == FULL
    crowd.open()
    await crowd.answered(6)
