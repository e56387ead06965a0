"""From a message's arrival to its batch: what comes together is committed together, and soon."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from millpond.core.errors import Overloaded
from millpond.core.item import Item
from millpond.core.model import Delivery, Outcome, Result
from millpond.engine.queue import GATHER_S
from tests.common.faulty_store import FaultyStore
from tests.common.pond import delivery, service
from tests.common.rig import Bench


async def in_turns(bench: Bench, messages: list[Delivery]) -> list[Result]:
    """Send one message in each turn of the event loop."""
    futures = []
    for message in messages:
        futures.append(asyncio.ensure_future(bench.engine.handle(message)))
        await asyncio.sleep(0)
    return list(await asyncio.gather(*futures))


def never_in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the event loop may take as long as a busy machine makes it, and ends no gathering."""
    monkeypatch.setattr("millpond.engine.queue.GATHER_S", 60.0)


def break_routing(bench: Bench, message_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours that one message meets."""
    right = bench.engine.router.route

    def wrong(message: Delivery, arrived_at: int, **more: Any) -> Item:
        if message.message_id == message_id:
            raise RuntimeError("a bug")
        return right(message, arrived_at, **more)

    monkeypatch.setattr(bench.engine.router, "route", wrong)


async def test_what_comes_in_turns_of_the_loop_shares_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as each turn brings more, they are waited for: a commit costs as much for one as for many."""
    never_in_a_hurry(monkeypatch)
    bench = Bench(FaultyStore(in_flight_max=1))
    results = await in_turns(bench, [service(f"m{n}", n, "ok", n) for n in range(20)])
    assert {result.outcome for result in results} == {Outcome.APPLIED}
    assert len(bench.store.commits) == 1


async def test_nobody_waits_for_more_than_a_batch_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that keep coming do not keep the first ones from being committed."""
    never_in_a_hurry(monkeypatch)
    bench = Bench(FaultyStore(in_flight_max=1))
    bench.limit(batch_count_max=5)
    begun = []

    async def endless() -> None:
        for number in range(30):
            bench.engine.submit(service(f"m{number}", number, "ok", number), lambda _: None)
            await asyncio.sleep(0)
            begun.append(len(bench.store.commits))

    await endless()
    assert begun[4] == 0
    assert begun[9] > 0


@pytest.mark.parametrize("bound", ["time", "bytes"])
async def test_a_commit_is_put_off_within_bounds(bound: str) -> None:
    """For a few milliseconds, and not for more than a commit may hold."""
    bench = Bench(FaultyStore(in_flight_max=1))
    if bound == "bytes":
        bench.limit(batch_bytes_max=5_000)
    for number in range(8):
        bench.engine.submit(service(f"m{number}", number, "ok", number), lambda _: None)
        if bound == "time":
            time.sleep(GATHER_S / 3)  # noqa: ASYNC251 - a turn of the event loop that takes its time
        await asyncio.sleep(0)
    assert bench.store.commits


async def test_one_turn_brings_no_more_than_the_room_holds() -> None:
    """They are not decoded yet, and still they count."""
    bench = Bench(FaultyStore(in_flight_max=1), CONSUMER_QUEUE_SIZE="3")
    bench.store.gate.clear()
    results: list[Result] = []
    bench.engine.submit(service("m0", 0, "ok", 0), results.append)
    await asyncio.sleep(0.01)
    for number in range(1, 4):
        bench.engine.submit(service(f"m{number}", number, "ok", number), results.append)
    with pytest.raises(Overloaded, match="3 waiting"):
        bench.engine.submit(service("m4", 4, "ok", 4), results.append)
    bench.store.gate.set()
    await bench.engine.drain()
    assert [result.outcome for result in results] == [Outcome.APPLIED] * 4


async def test_poison_is_answered_while_the_store_hangs() -> None:
    """What cannot succeed needs no commit where its sender keeps it, and waits for none."""
    bench = Bench(FaultyStore(in_flight_max=1), POISON_POLICY="native")
    bench.store.gate.clear()
    good = asyncio.ensure_future(bench.engine.handle(service("m1", 1, "ok", 1)))
    await asyncio.sleep(0.01)
    poison = await asyncio.wait_for(bench.engine.handle(delivery({"what": "is this"}, "m2")), 1)
    assert (poison.outcome, poison.reason, good.done()) == (Outcome.POISON, "unroutable_payload", False)
    bench.store.gate.set()
    assert (await good).outcome is Outcome.APPLIED


async def test_a_bug_in_routing_reaches_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message it met comes again, those that came along are applied, and the bug is reported."""
    bench = Bench(FaultyStore(in_flight_max=1))
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    break_routing(bench, "m2", monkeypatch)
    results = await bench.send(*(service(f"m{n}", n, "ok", n) for n in range(1, 4)))
    assert [result.reason for result in results] == ["applied", "internal_error", "applied"]
    assert results[1].outcome is Outcome.RETRY
    assert len(reported) == 1


async def test_a_bug_after_routing_reaches_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to one of them, all that came along are answered, and none is left in the room."""
    bench = Bench(FaultyStore(in_flight_max=1))
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)

    def wrong(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("millpond.engine.queue.refuse_or_bury", wrong)
    poison = delivery({"what": "is this"}, "m2")
    results = await bench.send(service("m1", 1, "ok", 1), poison, service("m3", 3, "ok", 3))
    assert [result.reason for result in results] == ["applied", "internal_error", "applied"]
    assert (bench.engine.waiting, bench.engine.waiting_bytes) == (0, 0)


async def test_an_empty_room_weighs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever became of them, messages take their weight along, or the room would fill up."""
    bench = Bench(FaultyStore(in_flight_max=1))
    break_routing(bench, "bug", monkeypatch)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    refused = delivery({"what": "is this"}, "refused", attempt=1)
    buried = delivery({"what": "is this"}, "buried")
    results = await bench.send(service("m1", 1, "ok", 1), refused, buried, service("bug", 2, "ok", 2))
    assert [result.outcome for result in results] == ["applied", "poison", "poison", "retry"]
    assert [result.buried for result in results] == [False, False, True, False]
    await asyncio.sleep(0)
    assert (bench.engine.waiting, bench.engine.waiting_bytes) == (0, 0)
