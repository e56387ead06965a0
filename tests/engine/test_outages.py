"""A store that fails: nothing acknowledged is lost, nothing is applied twice, and the tries have an end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from millpond.core.ack import settle_push
from millpond.core.errors import AccessDenied, StoreError, Unavailable
from millpond.core.model import Outcome
from millpond.core.severity import severity_of
from tests.common.faulty_store import FaultyStore
from tests.common.pond import Orders, order, service
from tests.common.rig import Bench
from tests.engine.support import outcomes


@pytest.mark.parametrize("applied", [False, True], ids=["before applying", "after applying"])
@pytest.mark.parametrize("times", [1, 3])
async def test_a_store_that_fails_for_a_while_loses_and_doubles_nothing(applied: bool, times: int) -> None:
    """A lost reply and a lost request look the same; reading again tells them apart, tallies included."""
    bench = Bench(FaultyStore())
    bench.add(Orders())
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


async def test_a_store_that_stays_away_is_answered_as_retry() -> None:
    """503, logged with its error, and nothing acknowledged."""
    bench = Bench(FaultyStore())
    bench.store.before.extend([Unavailable("away", code="UNAVAILABLE")] * 100)
    (result,) = await bench.send(service("m1", 1, "ok", 1))
    settlement = settle_push(result)
    assert (result.outcome, result.reason) == (Outcome.RETRY, "store_unavailable")
    assert (settlement.http_status, severity_of(result), settlement.retryable) == (503, "ERROR", True)
    assert len(bench.store.commits) == 6, "FIRESTORE_RETRY_MAX_ATTEMPTS"


async def test_the_retry_budget_counts_from_arrival() -> None:
    """FIRESTORE_RETRY_MAX_TOTAL_S ends the tries, however many are left."""
    bench = Bench(
        FaultyStore(),
        FIRESTORE_RETRY_MAX_TOTAL_S="0.1",
        FIRESTORE_RETRY_INITIAL_BACKOFF_S="0.04",
        FIRESTORE_RETRY_MAX_BACKOFF_S="0.04",
        FIRESTORE_RETRY_MAX_ATTEMPTS="100",
    )
    bench.store.before.extend([Unavailable("away")] * 100)
    assert bench.engine.accepting
    began = asyncio.get_running_loop().time()
    (result,) = await bench.send(service("m1", 1, "ok", 1))
    assert result.reason == "store_unavailable"
    # A hundred tries would take two seconds at least.
    assert asyncio.get_running_loop().time() - began < 1.5


async def test_a_call_goes_on_for_the_last_message_of_its_batch() -> None:
    """One whose time is nearly up shares a batch with one that has just come: the call that hangs ends in time."""
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


async def test_denied_access_is_retried_by_the_broker_and_pages_somebody() -> None:
    """It will not heal by itself, so the budget is not spent on it."""
    bench = Bench(FaultyStore())
    bench.store.before.append(AccessDenied("no", code="PERMISSION_DENIED"))
    (result,) = await bench.send(service("m1", 1, "ok", 1))
    settlement = settle_push(result)
    assert (result.reason, settlement.http_status, severity_of(result)) == ("access_denied", 503, "CRITICAL")
    assert len(bench.store.commits) == 1


async def test_an_unexpected_error_is_answered_as_retry_and_reported() -> None:
    """A bug of ours acknowledges nothing, and does not stop the engine."""
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


def test_store_errors_are_all_answered() -> None:
    """Every kind in the tree has a settlement; a new kind must be given one."""
    assert {kind.__name__ for kind in StoreError.__subclasses__()} == {
        "Unavailable",
        "AccessDenied",
        "WriteRefused",
    }
