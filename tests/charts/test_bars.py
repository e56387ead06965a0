"""Documents → bars, and minutes → longer bars."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.charts.bars import Bar, BarFold, Minute, bar_of, minute_of
from millpond.charts.request import TIMEFRAMES
from millpond.charts.times import MINUTE_US
from tests.charts.market import DAY_US, OPEN

GOOD: dict[str, Any] = {"open": 10, "high": 12.5, "low": "9.75", "close": "11", "volume": 100}

PRICES = st.integers(1, 1_000)
MINUTES = st.dictionaries(
    st.integers(0, 200), st.tuples(PRICES, PRICES, PRICES, PRICES, st.none() | st.integers(0, 99)), min_size=1
)


def test_prices_are_numbers_or_decimals_as_text() -> None:
    """As the view stores them: the way they were sent."""
    assert bar_of(GOOD, OPEN) == Bar(OPEN, 10.0, 12.5, 9.75, 11.0, 100.0)


@pytest.mark.parametrize("name", ["open", "high", "low", "close"])
@pytest.mark.parametrize(
    "value", [None, "", "x", "nan", "inf", True, [1], float("nan"), float("inf"), 1e15, "1e999"]
)
def test_a_bar_with_a_bad_price_is_no_bar(name: str, value: Any) -> None:
    """Nothing is guessed, and nothing breaks the axis."""
    assert bar_of({**GOOD, name: value}, OPEN) is None
    assert bar_of({k: v for k, v in GOOD.items() if k != name}, OPEN) is None


def test_a_bar_whose_high_is_below_its_low_is_no_bar() -> None:
    """It cannot have happened."""
    assert bar_of({**GOOD, "high": 9, "low": 10}, OPEN) is None
    assert bar_of({**GOOD, "high": 10, "low": 10}, OPEN) is not None


@pytest.mark.parametrize("value", [None, "", "many", -1, True, float("nan")])
def test_a_bad_volume_is_no_volume(value: Any) -> None:
    """The candle is drawn without."""
    bar = bar_of({**GOOD, "volume": value}, OPEN)
    assert bar is not None
    assert bar.volume is None


@pytest.mark.parametrize(
    "ts",
    [
        dt.datetime(2026, 1, 8, 14, 30, tzinfo=dt.UTC),
        dt.datetime(2026, 1, 8, 14, 30, 59, 999_999, tzinfo=dt.UTC),
        "2026-01-08T14:30:00Z",
        OPEN // 1_000_000,
    ],
)
def test_ts_is_the_minute_in_any_form(ts: Any) -> None:
    """Also as an earlier consumer may have written it."""
    assert minute_of({"ts": ts}) == OPEN


@pytest.mark.parametrize("ts", [None, "soon", {}, dt.datetime(2026, 1, 8)])  # noqa: DTZ001
def test_a_document_without_a_minute_has_none(ts: Any) -> None:
    """A naive time could be any."""
    assert minute_of({"ts": ts}) is None


def test_five_minutes_are_one_bar() -> None:
    """Open of the first, highest high, lowest low, close of the last, volumes added; they begin at :00 and :05."""
    fold = BarFold(TIMEFRAMES["5m"])
    for minute, (first, high, low, last), volume in (
        (4, (1.0, 9.0, 1.0, 2.0), 1.0),
        (5, (3.0, 5.0, 2.0, 4.0), 10.0),
        (7, (4.0, 8.0, 3.0, 7.0), None),
        (9, (7.0, 7.0, 1.0, 2.0), 5.0),
        (10, (6.0, 6.0, 6.0, 6.0), None),
    ):
        start = OPEN + minute * MINUTE_US
        fold.add(Minute(start, Bar(start, first, high, low, last, volume)))
    assert fold.all().bars == [
        Bar(OPEN, 1.0, 9.0, 1.0, 2.0, 1),
        Bar(OPEN + 5 * MINUTE_US, 3.0, 8.0, 1.0, 2.0, 15),
        Bar(OPEN + 10 * MINUTE_US, 6.0, 6.0, 6.0, 6.0, None),
    ]


@given(MINUTES, st.sampled_from(sorted(TIMEFRAMES)))
def test_longer_bars_say_what_their_minutes_say(minutes: dict[int, Any], timeframe: str) -> None:
    """For every set of minutes: starts in UTC, no minute lost or used twice, in order."""
    step = TIMEFRAMES[timeframe]
    fold = BarFold(step)
    given_bars = [
        Bar(OPEN + n * MINUTE_US, float(a), float(max(a, b, c, d)), float(min(a, b, c, d)), float(d), volume)
        for n, (a, b, c, d, volume) in sorted(minutes.items())
    ]
    for bar in given_bars:
        fold.add(Minute(bar.start, bar))
    bars = fold.all().bars
    assert [bar.start for bar in bars] == sorted({bar.start // step * step for bar in given_bars})
    for bar in bars:
        parts = [part for part in given_bars if bar.start <= part.start < bar.start + step]
        volumes = [part.volume for part in parts if part.volume is not None]
        assert bar.open == parts[0].open
        assert bar.close == parts[-1].close
        assert bar.high == max(part.high for part in parts)
        assert bar.low == min(part.low for part in parts)
        assert bar.volume == (sum(volumes) if volumes else None)
    assert sum(bar.volume or 0 for bar in bars) == sum(bar.volume or 0 for bar in given_bars)


def test_the_first_and_the_last_bars_count_only_what_was_skipped_among_them() -> None:
    """Bad minutes outside the chart are none of its business."""
    fold = BarFold(MINUTE_US)
    for n in range(10):
        start = OPEN + n * MINUTE_US
        fold.add(Minute(start, None if n in {1, 8} else Bar(start, 1, 1, 1, 1, None)))
    assert [(b.start - OPEN) // MINUTE_US for b in fold.first(3).bars] == [0, 2, 3]
    assert [(b.start - OPEN) // MINUTE_US for b in fold.last(3).bars] == [6, 7, 9]
    assert (fold.first(3).skipped, fold.last(3).skipped, fold.all().skipped) == (1, 1, 2)
    assert fold.last(1).skipped == 0
    assert (fold.first(20).skipped, fold.last(20).skipped) == (2, 2)
    assert BarFold(DAY_US).last(3) == ([], 0)
