"""How much may wait: CONSUMER_QUEUE_SIZE messages and a bound in bytes, letters included."""

from __future__ import annotations

import asyncio

import pytest

from millpond.core.errors import Overloaded
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Outcome
from tests.common.faulty_store import FaultyStore
from tests.common.pond import at, delivery, service
from tests.common.rig import Bench
from tests.engine.support import outcomes


async def test_a_full_room_answers_at_once() -> None:
    """CONSUMER_QUEUE_SIZE counts those waiting; the next one hears 429 without waiting."""
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


async def test_the_room_is_bounded_by_bytes_too() -> None:
    """A few huge messages must not fill memory while they wait."""
    bench = Bench(FaultyStore(in_flight_max=1))
    bench.limit(room_bytes_max=10_000)
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


async def test_letters_that_are_being_made_take_room() -> None:
    """A topic for letters that hangs must not let poison pile up without end."""

    async def slowly(item: Item) -> DeadLetter:
        await asyncio.sleep(0.2)
        return DeadLetter(None, None, f"{item.faults[0].reason} of {item.delivery.message_id}")

    bench = Bench(FaultyStore(), CONSUMER_QUEUE_SIZE="2")
    bench.bury_with(slowly)
    poison = [asyncio.ensure_future(bench.send(delivery({"nothing": n}, f"p{n}"))) for n in range(2)]
    await asyncio.sleep(0.05)
    with pytest.raises(Overloaded):
        await bench.send(service("m", 1, "ok", 1))
    await asyncio.gather(*poison)
    assert outcomes(await bench.send(service("m", 1, "ok", 1))) == ["applied"]
