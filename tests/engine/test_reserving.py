"""Reserved documents: their messages wait while another task works on them, and no others do."""

from __future__ import annotations

import asyncio

from millpond.core.model import Delivery, Outcome, Ref
from tests.common.faulty_store import FaultyStore
from tests.common.pond import at, delivery
from tests.common.rig import Bench


def heartbeat(service: str, number: int) -> Delivery:
    return delivery({"service": service, "timestamp": at(number)}, f"{service}-{number}", number)


async def test_messages_of_reserved_documents_wait_and_others_do_not() -> None:
    bench = Bench(FaultyStore(in_flight_max=1))
    async with bench.engine.reserve([Ref("ops_services", "dev__api")]):
        kept = asyncio.ensure_future(bench.engine.handle(heartbeat("api", 1)))
        assert (await bench.engine.handle(heartbeat("billing", 1))).outcome is Outcome.APPLIED
        await asyncio.sleep(0.02)
        assert not kept.done()
        assert bench.engine.waiting == 1
    assert (await asyncio.wait_for(kept, 1)).outcome is Outcome.APPLIED


async def test_what_is_being_committed_ends_first() -> None:
    bench = Bench(FaultyStore(in_flight_max=1))
    bench.store.gate.clear()
    under_way = asyncio.ensure_future(bench.engine.handle(heartbeat("api", 1)))
    await asyncio.sleep(0.01)

    async def reserve() -> bool:
        async with bench.engine.reserve([Ref("ops_services", "dev__api")]):
            return under_way.done()

    reserving = asyncio.ensure_future(reserve())
    await asyncio.sleep(0.02)
    assert not reserving.done()
    bench.store.gate.set()
    assert await reserving, "reserved only once the commit of the same document was over"


async def test_forgotten_documents_are_read_again() -> None:
    bench = Bench(FaultyStore(in_flight_max=1))
    await bench.engine.handle(heartbeat("api", 1))
    bench.store.reads.clear()
    await bench.engine.handle(heartbeat("api", 2))
    assert bench.store.reads == []
    bench.engine.forget([Ref("ops_services", "dev__api")])
    await bench.engine.handle(heartbeat("api", 3))
    assert len(bench.store.reads) == 1


async def test_draining_answers_what_is_reserved() -> None:
    """When it is given back in time it is finished; nothing is left without an answer."""
    bench = Bench(FaultyStore(in_flight_max=1))
    async with bench.engine.reserve([Ref("ops_services", "dev__api")]):
        kept = asyncio.ensure_future(bench.engine.handle(heartbeat("api", 1)))
        await asyncio.sleep(0.01)
        draining = asyncio.ensure_future(bench.engine.drain())
        await asyncio.sleep(0.05)
        assert not draining.done()
    await asyncio.wait_for(draining, 2)
    assert kept.result().outcome is Outcome.APPLIED
