"""What waits together is committed together, and batches of one process never get into each other's way."""

from __future__ import annotations

import asyncio
from typing import Any

from millpond.core.model import Outcome, Result
from tests.common.faulty_store import FaultyStore
from tests.common.pond import at, delivery, service, tick
from tests.common.rig import Bench
from tests.engine.support import outcomes


async def test_the_happy_path_is_one_commit_and_no_read_once_warm() -> None:
    """A hundred messages over ten documents share a few commits; warm documents are not read."""
    bench = Bench(FaultyStore(in_flight_max=1))
    await bench.send(*(delivery({"service": f"s{n}", "timestamp": at(0)}, f"a{n}") for n in range(10)))
    bench.store.reads.clear()
    bench.store.commits.clear()
    messages = [delivery({"service": f"s{n % 10}", "timestamp": at(n + 1)}, f"b{n}", n) for n in range(100)]
    assert set(outcomes(await bench.send(*messages))) == {"applied"}
    assert bench.store.reads == []
    assert len(bench.store.commits) == 1


async def test_a_hundred_ticks_for_one_symbol_are_one_document_write() -> None:
    """Each has its own outcome, as if applied one by one."""
    bench = Bench(FaultyStore(in_flight_max=1), TICK_HISTORY="off")
    results = await bench.send(*(tick(f"m{n}", n, n % 50, n) for n in range(100)))
    assert bench.store.writes_of("market_ticks_latest/SPY") == 1
    assert outcomes(results).count("applied") == 51
    assert (await bench.document("market_ticks_latest/SPY"))["price"] == 99


async def test_batches_of_one_process_never_share_a_document() -> None:
    """Eight commits may run at once, and still no message of ours conflicts with another."""
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


async def test_one_process_never_races_itself() -> None:
    """More than one batch waits for the same document: they follow each other, and no commit conflicts."""
    bench = Bench(FaultyStore(in_flight_max=8), CONSUMER_QUEUE_SIZE="5000")
    await bench.send(tick("m0", 0, 0, 1.0))
    bench.store.reads.clear()
    await bench.send(*(tick(f"m{n}", n, n, float(n)) for n in range(1, 1_500)))
    assert bench.service.metrics.conflicts == 0
    assert bench.store.reads == []
    assert (await bench.document("market_ticks_latest/SPY"))["price"] == 1_499.0


async def test_half_is_committed_while_the_other_half_is_planned() -> None:
    """Much waits for few documents: two commits at once, none of which gets into the other's way."""
    bench = Bench(FaultyStore(in_flight_max=8), CONSUMER_QUEUE_SIZE="5000")
    bench.store.commit_s = 0.01
    messages = [delivery({"service": f"s{n % 50}", "timestamp": at(n)}, f"m{n}", n) for n in range(600)]
    assert {result.outcome for result in await bench.send(*messages)} == {Outcome.APPLIED}
    assert bench.store.commits_at_once == 2
    assert bench.service.metrics.conflicts == 0
    assert len(bench.store.commits) <= 4


async def test_a_failing_answer_does_not_reach_the_others() -> None:
    """One caller's broken connection is reported; its neighbours in the batch hear their outcomes."""
    bench = Bench(FaultyStore(in_flight_max=1))
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

    def broken(_: Result) -> None:
        raise RuntimeError("gone")

    bench.engine.submit(service("m1", 1, "ok", 1), broken)
    (result,) = await bench.send(service("m2", 2, "ok", 2))
    assert result.outcome is Outcome.APPLIED
    assert len(reported) == 1
