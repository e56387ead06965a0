"""A write that no store takes is a fault of that event alone."""

from __future__ import annotations

from millpond import Event, Tally
from millpond.core.ack import settle_push
from millpond.core.model import Document
from millpond.core.severity import severity_of
from tests.common.faulty_store import FaultyStore
from tests.common.pond import at, delivery, order, signal
from tests.common.rig import Bench
from tests.engine.support import outcomes


async def test_a_refused_write_is_isolated_and_buried() -> None:
    """Its batch is halved until it is alone; the rest commits, the culprit lies in the letters, and we alert."""
    bench = Bench(FaultyStore(in_flight_max=1))
    bench.store.refused = {"bad"}
    messages = [
        delivery({"service": f"s{n}", "timestamp": at(1), "status": "bad" if n == 5 else "ok"}, f"m{n}")
        for n in range(16)
    ]
    results = await bench.send(*messages)
    assert outcomes(results) == ["applied"] * 5 + ["write_refused"] + ["applied"] * 10
    settlement = settle_push(results[5])
    assert (settlement.http_status, severity_of(results[5])) == (200, "ALERT")
    letter = await bench.document("dead_letters/s__m5")
    assert (letter["reason"], letter["messageId"]) == ("write_refused", "m5")
    assert await bench.document("ops_services/dev__s5") is None
    assert (await bench.store.count_events())["system.events"] == {"applied": 15, "poison": 1}


class Hours(Tally):
    """A tally whose bug makes a document that no store takes."""

    name = collection = "hours"
    topics = ("orders",)
    key = "day"
    time = "ts"

    def fold(self, event: Event, current: Document) -> Document:
        return {**current, **({14: 1} if event.get("amount") == 13 else {"n": current.get("n", 0) + 1})}  # type: ignore[dict-item]


async def test_what_no_store_takes_is_buried_and_its_neighbours_applied() -> None:
    """A field name that is no text is a fault of that document alone."""
    bench = Bench(FaultyStore(in_flight_max=1))
    bench.use(Hours())
    results = await bench.send(order("m1", 1, 0), order("m2", 13, -1), order("m3", 1, -2))
    assert outcomes(results) == ["applied", "write_refused", "applied"]
    assert (await bench.document("hours/d1"))["n"] == 2


async def test_a_refused_event_cannot_hide_behind_a_later_one() -> None:
    """Its own content decides, so that one batch and two end with the same document."""
    big = signal("m1", 1, updatedAt=at(1), symbol="SPY", targets="x" * 600_000)
    small = signal("m2", 2, updatedAt=at(2), state="new", targets=[])
    together, alone = Bench(FaultyStore(in_flight_max=1)), Bench(FaultyStore(in_flight_max=1))
    batch = await together.send(big, small)
    single = [*await alone.send(big), *await alone.send(small)]
    assert outcomes(batch) == outcomes(single) == ["write_refused", "applied"]
    assert "symbol" not in await together.document("trade_signals/s1")
