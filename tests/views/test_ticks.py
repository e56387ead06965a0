"""Market ticks → `market_ticks_latest`, one document per symbol, and `market_ticks`, one per tick."""

from __future__ import annotations

import re
from typing import Any

import pytest

from millpond import InvalidEvent
from tests.producers.cases import Case, check_in_core, load
from tests.views.examples import PUBLISHED, T0, T1, TICK, source
from tests.views.support import Viewed, check_adopted, check_example, check_order_times

NOON = "2026-01-08T12:00:00Z"


def test_every_field() -> None:
    """The latest tick and the history of ticks, both from one message."""
    check_example(TICK)


def test_a_tick_with_nothing_but_a_symbol() -> None:
    """What the payload does not name is not in the document; the message id and publish time stand in."""
    pond = Viewed()
    latest, history = pond.applied({"symbol": "least"}, message_id="tick-least", topic="market-ticks")
    assert pond.plain(latest) == {
        "symbol": "LEAST",
        "lastTickAt": PUBLISHED,
        "source": source("market-ticks", "tick-least"),
    }
    assert pond.plain(history) == {
        "docId": "tick-least",
        "symbol": "LEAST",
        "eventTime": PUBLISHED,
        "data": {"symbol": "least"},
        "expireAt": "2026-01-15T12:00:00Z",
        "source": source("market-ticks", "tick-least", order="eventTime"),
    }


def test_the_history_says_when_it_was_written() -> None:
    """By our own clock, as a time; the latest tick, which is written often, does not."""
    pond = Viewed()
    latest, history = pond.applied({"symbol": "SPY", "ts": T0}, topic="market-ticks")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", pond.shown(history)["ingestedAt"])
    assert "ingestedAt" not in pond.shown(latest)


def test_order_times_of_the_latest_tick() -> None:
    """ts, timestamp, time, at, the envelope's, then producedAt."""
    names = ("ts", "timestamp", "time", "at", "envelope", "producedAt")
    check_order_times(names, "market-ticks", {"symbol": "ORD"}, "lastTickAt")


@pytest.mark.parametrize(
    ("limit", "too_old", "in_time"),
    [
        (None, "2026-01-08T11:44:59.999999Z", "2026-01-08T11:45:00Z"),
        ("60", "2026-01-08T11:58:59Z", "2026-01-08T11:59:00Z"),
        ("0", None, "1999-01-01T00:00:00Z"),
    ],
)
def test_late_ticks(limit: str | None, too_old: str | None, in_time: str) -> None:
    """Later than TICKS_MAX_LATE_S before publish time is too old; the limit itself is not, and 0 is no limit."""
    pond = Viewed(**({} if limit is None else {"TICKS_MAX_LATE_S": limit}))
    if too_old is not None:
        late = pond.sent({"symbol": "LATE", "ts": too_old}, published=NOON, topic="market-ticks")
        assert [view.reason for view in late.views] == ["too_old_ignored", "applied"]
        # The history takes it all the same, and so the message was applied.
        assert late.outcome == "applied"
        assert "market_ticks_latest/LATE" not in pond.state()
    assert pond.reason({"symbol": "LATE", "ts": in_time}, published=NOON, topic="market-ticks") == "applied"


def test_without_a_history() -> None:
    """TICK_HISTORY=off: a late tick's own outcome is too_old_ignored."""
    result = Viewed(TICK_HISTORY="off").sent({"symbol": "OLD", "ts": "2026-01-01T00:00:00Z"}, topic="market-ticks")
    assert (result.outcome, result.reason) == ("too_old_ignored", "too_old_ignored")
    assert [view.view for view in result.views] == ["market_ticks_latest"]


@pytest.mark.parametrize(("days", "expires"), [("7", "2026-01-15T12:00:00Z"), ("0.5", "2026-01-09T00:00:00Z")])
def test_retention(days: str, expires: str) -> None:
    """TICK_HISTORY_TTL_DAYS counts from publish time, so that every replica and every replay says the same."""
    pond = Viewed(TICK_HISTORY_TTL_DAYS=days)
    _, history = pond.applied({"symbol": "KEEP", "ts": T0}, topic="market-ticks")
    assert pond.shown(history)["expireAt"] == expires


def test_ticks_leave_no_receipts() -> None:
    """Receipts are off for ticks: their stamps alone keep them right."""
    pond = Viewed()
    result = pond.sent({"symbol": "SPY", "ts": T0}, topic="market-ticks")
    assert result.receipt is None
    assert {ref.collection for ref in pond.documents} == {"market_ticks_latest", "market_ticks"}


def test_the_latest_tick_is_adopted_by_its_time() -> None:
    """The history is adopted by event time: test_event_time_order.py."""
    tick: dict[str, Any] = {"topic": "market-ticks", "symbol": "SPY"}
    check_adopted(
        {"price": 1, "lastTickAt": "2026-01-08T12:20:00Z", "source": {}},
        "market_ticks_latest/SPY",
        {**tick, "ts": "2026-01-08T12:19:59Z"},
        {**tick, "ts": "2026-01-08T12:20:01Z"},
        TICK_HISTORY="off",
    )


def test_latest_and_history_have_an_outcome_each() -> None:
    """The message's is the first by rank: applied in one view counts, whatever happened in the other."""
    pond = Viewed()
    pond.applied({"symbol": "TWO", "ts": T1}, topic="market-ticks")
    older = pond.sent({"symbol": "TWO", "ts": T0}, message_id="older", topic="market-ticks")
    assert [view.reason for view in older.views] == ["stale_event_ignored", "applied"]
    assert (older.outcome, older.reason) == ("applied", "applied")
    again = pond.sent({"symbol": "TWO", "ts": T0}, message_id="older", topic="market-ticks")
    assert [view.reason for view in again.views] == ["stale_event_ignored", "duplicate_message_noop"]
    assert (again.outcome, again.reason) == ("duplicate", "duplicate_message_noop")


def test_poison_in_one_view_means_applied_in_none() -> None:
    """A tick without a price is fine for history and latest; one with a broken price is poison for both."""
    pond = Viewed()
    with pytest.raises(InvalidEvent, match="price"):
        pond.sent({"symbol": "SPY", "price": "cheap", "ts": T1}, topic="market-ticks")
    assert pond.state() == {}


@pytest.mark.parametrize("case", load("views/ticks.json"), ids=lambda case: case.name)
def test_a_case(case: Case) -> None:
    """Symbols, prices, times, sequences and copies, as producers send them."""
    check_in_core(case)
