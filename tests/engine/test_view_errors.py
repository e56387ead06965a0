"""A bug of a view is retried for that event alone, and buried in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import UNSET

from millpond import Event, InvalidEvent, Latest
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


class Fussy(Latest):
    """A view with a bug that quotes the payload."""

    name = collection = "fussy"
    topics = ("orders",)
    key = "day"

    def document(self, event: Event) -> Document:
        raise LookupError(f"no such day: {event.get('day')}")


@pytest.mark.parametrize(
    ("environment", "in_full"),
    [
        ({}, True),
        ({"HOST": "localhost"}, True),
        ({"HOST": "0.0.0.0"}, False),  # noqa: S104 - nothing listens
        ({"VIEW_ERRORS": "brief"}, False),
        ({"HOST": "0.0.0.0", "VIEW_ERRORS": "full"}, True),  # noqa: S104
    ],
    ids=str,
)
async def test_a_letter_quotes_what_a_view_raised_only_if_it_may(
    environment: dict[str, str], in_full: bool
) -> None:
    """Text and traceback on an embedded store on loopback, else the type and the line, unless asked for."""
    bench = Bench(FaultyStore(), **{"VIEW_ERROR_PARK_AFTER_S": "0", **environment})
    bench.use(Fussy())
    (result,) = await bench.send(order("m1", 10, 1))
    assert (result.outcome, result.buried) == (Outcome.POISON, True)
    letter = await bench.document("dead_letters/s__m1")
    assert letter["error"].startswith("the view fussy raised LookupError at test_view_errors.py:")
    assert ("no such day: d1" in letter["error"]) is in_full
    assert ("trace" in letter) is in_full
    if in_full:
        assert letter["trace"].splitlines()[-1] == "LookupError: no such day: d1"
        assert "in Fussy.document" in letter["trace"]
    (previewed,) = (await bench.service.preview_replay(["s__m1"])).letters
    assert (previewed.error, previewed.trace) == (letter["error"], letter.get("trace", UNSET))


async def test_a_replay_renews_what_a_letter_shows() -> None:
    """The error of the last try, with its trace, or without if it has none."""
    bench = Bench(FaultyStore(), VIEW_ERROR_PARK_AFTER_S="0")
    bench.use(Fussy())
    await bench.send(order("m1", 10, 1))
    before = await bench.document("dead_letters/s__m1")

    def poison(*_: object) -> Document:
        raise InvalidEvent("the day is over")

    Fussy.document, broken = poison, Fussy.document  # type: ignore[method-assign, assignment]
    try:
        await bench.service.replay_letter("s__m1")
    finally:
        Fussy.document = broken  # type: ignore[method-assign]
    after = await bench.document("dead_letters/s__m1")
    assert ("trace" in before, after["error"], "trace" in after) == (True, "the day is over", False)
    await bench.service.replay_letter("s__m1")
    assert (await bench.document("dead_letters/s__m1"))["trace"] == before["trace"]
