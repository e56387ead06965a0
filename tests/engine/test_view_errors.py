"""A bug of a view is retried for that event alone, and buried in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from millpond import Event, Latest
from millpond.core.ack import settle_push
from millpond.core.model import Document, Outcome
from millpond.views.services import OpsServices
from tests.common.faulty_store import FaultyStore
from tests.common.pond import NOW, SECOND, order, service, tick
from tests.common.rig import Bench
from tests.engine.support import POISON


async def test_a_failing_view_is_retried_and_parked_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deploy may heal it; a message that stays ill is buried as view_error, with what was raised."""

    def broken(_: Any, event: Any) -> Any:
        raise RuntimeError("boom " + event.get("status"))

    monkeypatch.setattr(OpsServices, "document", broken)
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


class Clumsy(Latest):
    """A view whose shape test fails."""

    name = collection = "clumsy"
    topics = ("clumsy",)
    key = "id"

    def matches(self, payload: Mapping[str, Any]) -> bool:
        return bool(payload["no such field"])

    def document(self, event: Event) -> Document:
        return dict(event.payload)


async def test_a_failing_shape_test_is_a_view_error() -> None:
    """It is retried, and buried in time, like every other bug of a view."""
    bench = Bench(FaultyStore())
    bench.use(Clumsy())
    (result,) = await bench.send(POISON)
    assert (result.outcome, result.reason) == (Outcome.RETRY, "view_error")


class Anywhere(Latest):
    """A view whose bug names no collection."""

    name = "anywhere"
    topics = ("orders",)
    key = "day"

    def collection_of(self, event: Event) -> str:
        return ["a", event.topic]  # type: ignore[return-value]

    def document(self, event: Event) -> Document:
        return {"amount": event.get("amount")}


async def test_a_collection_that_is_no_text_is_a_view_error() -> None:
    """And not a batch that is never answered."""
    bench = Bench(FaultyStore(in_flight_max=8))
    bench.use(Anywhere())
    (result,) = await asyncio.wait_for(bench.send(order("m1", 10, 1)), 2)
    assert (result.outcome, result.reason) == (Outcome.RETRY, "view_error")
