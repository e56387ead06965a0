"""One-minute bars → `market_bars_1m`: one document per symbol and minute, the newest revision wins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.producers.cases import Case, check_in_core, load
from tests.views.examples import BAR, T0
from tests.views.support import Viewed, check_adopted, check_example, check_order_times

TOPIC = "market-bars-1m"


def test_every_field() -> None:
    """All its fields; the id is the symbol and the minute the bar is about."""
    check_example(BAR)


@pytest.mark.parametrize(
    ("strategy", "more", "path", "doc_id"),
    [
        ("event", {"eventId": "b/1"}, "market_bars_1m/b%2F1", "b%2F1"),
        ("event", {}, "market_bars_1m/bar-1", "bar-1"),
        ("nested", {"symbol": "a/b"}, "market_bars_1m_by_symbol/A%2FB/days/20260108/minutes/0905", "0905"),
    ],
)
def test_ids(strategy: str, more: dict[str, Any], path: str, doc_id: str) -> None:
    """BARS_ID: `event` keys bars by eventId, else messageId; `nested` puts them below their symbol and day."""
    pond = Viewed(BARS_ID=strategy)
    bar = {"symbol": "spy", "ts": "2026-01-08T09:05:30Z", "close": 1, **more}
    assert pond.applied(bar, message_id="bar-1", topic=TOPIC) == [path]
    assert pond.shown(path)["docId"] == doc_id


def test_order_times() -> None:
    """producedAt, then the envelope's ts; never the minute the bar is about."""
    bar = {"symbol": "ORD", "start": "2026-01-08T11:00:00Z"}
    check_order_times(("producedAt", "envelope"), TOPIC, bar, "revisionAt")


@pytest.mark.parametrize("strategy", ["natural", "event", "nested"])
def test_old_bars(strategy: str) -> None:
    """A backfill is told by the minute it is about; by default every bar is welcome."""

    def bar(pond: Viewed, minute: str) -> str:
        return pond.reason({"symbol": "BACK", "ts": minute, "producedAt": T0}, topic=TOPIC)

    assert bar(Viewed(BARS_ID=strategy), "2001-01-01T00:00:00Z") == "applied"
    limited = Viewed(BARS_ID=strategy, BARS_MAX_BACKFILL_DAYS="7")
    assert bar(limited, "2026-01-01T12:00:00Z") == "applied"
    assert bar(limited, "2026-01-01T11:59:59Z") == "too_old_ignored"


@pytest.mark.parametrize(
    "times",
    [
        {"eventTime": T0, "producedAt": T0, "source": {"revisionAt": "2026-01-08T12:20:00Z"}},
        {"eventTime": "2026-01-08T12:20:00Z", "producedAt": T0, "source": {}},
        {"producedAt": T0, "publishedAt": "2026-01-08T12:20:00Z"},
    ],
)
def test_adoption(times: dict[str, Any]) -> None:
    """By its last revision, else by the latest time it shows. Under BARS_ID=event: test_event_time_order.py."""
    bar = {"topic": TOPIC, "symbol": "SPY", "ts": "2026-01-08T11:00:00Z"}
    check_adopted(
        {"close": 1, **times},
        "market_bars_1m/SPY__2026-01-08T11:00:00Z",
        {**bar, "producedAt": "2026-01-08T12:19:59Z"},
        {**bar, "producedAt": "2026-01-08T12:20:01Z"},
    )


@pytest.mark.parametrize("case", load("views/bars.json"), ids=lambda case: case.name)
def test_a_case(case: Case) -> None:
    """Symbols, minutes, times, sequences and copies, as producers send them."""
    check_in_core(case)
