"""Where things go and what is written beside them: gaps, ticks, scales, labels."""

from __future__ import annotations

import datetime as dt
import itertools
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.charts import labels
from millpond.charts.bars import Bar
from millpond.charts.layout import (
    BREAK_PX,
    BREAKS_SHARE_MAX,
    GAP_SLOTS_MAX,
    PLOT_PX_MAX,
    TIME_LABEL_PX,
    Layout,
    place,
    price_scale,
    scale,
    time_ticks,
    volume_scale,
)
from millpond.charts.times import MINUTE_US
from millpond.core import timestamps
from tests.charts.market import DAY_US, HOUR_US, OPEN

NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def minutes(*numbers: int) -> list[int]:
    return [OPEN + n * MINUTE_US for n in numbers]


def ascii_text(text: str) -> str:
    """With the minus that is on every keyboard."""
    return text.replace("\N{MINUS SIGN}", "-")


def tick_texts(layout: Layout, step: int, zone: dt.tzinfo) -> list[str]:
    ticks = time_ticks(layout, step, zone)
    years = [ticks[0].at.year, *(tick.at.year for tick in ticks)]
    return [labels.time_text(tick, year) for tick, year in zip(ticks, years, strict=False)]


def test_bars_without_gaps_stand_side_by_side() -> None:
    """Whole pixels, each slot as wide as the next."""
    layout = place(minutes(*range(120)), MINUTE_US)
    assert layout.slot_px == 10
    assert layout.plot_px == 1_200
    assert [slot.x for slot in layout.bar_slots] == [5 + 10 * n for n in range(120)]
    assert layout.slots == layout.bar_slots
    assert layout.breaks == []


def test_missing_bars_leave_their_slots_empty() -> None:
    """A gap of up to twelve is drawn to scale."""
    layout = place(minutes(*range(60), *range(60 + GAP_SLOTS_MAX, 120)), MINUTE_US)
    assert layout.breaks == []
    assert layout.bar_slots[60].x - layout.bar_slots[59].x == (GAP_SLOTS_MAX + 1) * layout.slot_px
    assert [slot.start for slot in layout.slots] == minutes(*range(120))
    steps = {later.x - earlier.x for earlier, later in itertools.pairwise(layout.slots)}
    assert steps == {layout.slot_px}


def test_a_longer_gap_is_a_break_with_its_length() -> None:
    """The night between two sessions: 17 h 30 min, in a few pixels between the candles beside it."""
    layout = place([*minutes(*range(60)), *(s + DAY_US for s in minutes(*range(-330, -270)))], MINUTE_US)
    (gap,) = layout.breaks
    assert labels.length_text(gap.length) == "17 h 30 min"
    assert gap.right - gap.left == BREAK_PX
    half = layout.slot_px / 2
    assert layout.bar_slots[59].x + half == gap.left
    assert layout.bar_slots[60].x - half == gap.right
    assert len(layout.slots) == 120


@given(st.lists(st.integers(1, 40), max_size=400), st.sampled_from([MINUTE_US, HOUR_US]))
def test_every_layout_is_in_order_and_inside(gaps: list[int], step: int) -> None:
    """No slot is over another or outside the plot, and breaks never take more than their share."""
    starts = [OPEN + n * step for n in itertools.accumulate(gaps, initial=0)]
    layout = place(starts, step)
    assert [slot.start for slot in layout.bar_slots] == starts
    half = layout.slot_px / 2
    edges = sorted([(s.x - half, s.x + half) for s in layout.slots] + [(b.left, b.right) for b in layout.breaks])
    assert edges[0][0] >= 0
    assert edges[-1][1] <= layout.plot_px + 1e-6
    assert all(later[0] >= earlier[1] - 1e-6 for earlier, later in itertools.pairwise(edges))
    assert sum(b.right - b.left for b in layout.breaks) <= max(
        BREAKS_SHARE_MAX * layout.plot_px, len(layout.breaks)
    )
    assert all(b.length > GAP_SLOTS_MAX * step for b in layout.breaks)


@pytest.mark.parametrize(
    ("count", "slot_px"), [(1, 48), (24, 48), (120, 10), (290, 4), (600, 4), (800, 3), (1_200, 2), (2_400, 1)]
)
def test_slots_are_whole_pixels(count: int, slot_px: int) -> None:
    """A few bars are no blocks, and many make the chart wider before they become lines."""
    layout = place(minutes(*range(count)), MINUTE_US)
    assert layout.slot_px == slot_px
    assert layout.plot_px <= PLOT_PX_MAX


def test_one_bar_stands_in_the_middle() -> None:
    """And five thousand fit."""
    layout = place(minutes(0), MINUTE_US)
    assert abs(layout.bar_slots[0].x - layout.plot_px / 2) <= layout.slot_px
    assert place(minutes(*range(5_000)), MINUTE_US).plot_px == PLOT_PX_MAX


def test_times_are_those_of_the_zone() -> None:
    """Round in local time, whatever UTC says; the day is written at the first."""
    layout = place(minutes(*range(60)), MINUTE_US)
    assert tick_texts(layout, MINUTE_US, NEW_YORK)[:3] == ["09:30\n8 Jan", "09:35", "09:40"]
    assert tick_texts(layout, MINUTE_US, dt.UTC)[:2] == ["14:30\n8 Jan", "14:35"]
    assert tick_texts(layout, MINUTE_US, zoneinfo.ZoneInfo("Asia/Kathmandu"))[:2] == ["20:15\n8 Jan", "20:20"]


def test_the_day_is_written_where_it_changes() -> None:
    """At midnight, at the open after a night, and with the year where that changes too."""
    start = timestamps.parse("2025-12-31T18:00:00Z", "t")
    texts = tick_texts(place([start + n * 5 * MINUTE_US for n in range(120)], 5 * MINUTE_US), 5 * MINUTE_US, dt.UTC)
    assert "00:00\n1 Jan 2026" in texts
    assert texts[0] == "18:00\n31 Dec"
    sessions = place([*minutes(*range(60)), *(s + DAY_US for s in minutes(*range(60)))], MINUTE_US)
    assert [t for t in tick_texts(sessions, MINUTE_US, NEW_YORK) if "\n" in t] == ["09:30\n8 Jan", "09:30\n9 Jan"]


def test_the_hour_that_comes_twice_is_told_apart() -> None:
    """When clocks go back there are two 01:00; the second one names its zone."""
    start = timestamps.parse("2026-11-01T03:00:00Z", "t")
    layout = place([start + n * 5 * MINUTE_US for n in range(60)], 5 * MINUTE_US)
    texts = tick_texts(layout, 5 * MINUTE_US, NEW_YORK)
    assert [text for text in texts if text.startswith("01:00")] == ["01:00", "01:00\nEST"]


def test_the_hour_that_is_missing_is_told() -> None:
    """When clocks go forward, 02:00 does not exist and the next tick names its zone; nothing is out of order."""
    start = timestamps.parse("2026-03-29T00:00:00Z", "t")
    layout = place([start + n * MINUTE_US for n in range(120)], MINUTE_US)
    texts = tick_texts(layout, MINUTE_US, BERLIN)
    assert texts[0] == "01:00\n29 Mar"
    assert not any(text.startswith("02:") for text in texts)
    assert "03:00\nCEST" in texts


@given(
    st.lists(st.integers(1, 30), min_size=0, max_size=300),
    st.sampled_from([MINUTE_US, 5 * MINUTE_US, 15 * MINUTE_US, HOUR_US]),
    st.integers(0, 400),
    st.sampled_from([dt.UTC, NEW_YORK, BERLIN, zoneinfo.ZoneInfo("Australia/Lord_Howe")]),
)
def test_time_labels_have_room(gaps: list[int], step: int, day: int, zone: dt.tzinfo) -> None:
    """At least one tick, always a label's width apart, in the order of time."""
    first = (OPEN + day * DAY_US) // step * step
    layout = place([first + n * step for n in itertools.accumulate(gaps, initial=0)], step)
    ticks = time_ticks(layout, step, zone)
    assert ticks
    assert ticks[0].has_date
    assert all(later.x - earlier.x >= TIME_LABEL_PX for earlier, later in itertools.pairwise(ticks))


@pytest.mark.parametrize(
    ("low", "high", "texts"),
    [
        (0.00001234, 0.00001259, ["0.00001235", "0.00001240", "0.00001245", "0.00001250", "0.00001255"]),
        (1.0801, 1.0899, ["1.080", "1.082", "1.084", "1.086", "1.088", "1.090"]),
        (41_900, 42_400, ["41,900", "42,000", "42,100", "42,200", "42,300", "42,400"]),
        (99.2, 101.4, ["99.5", "100.0", "100.5", "101.0", "101.5"]),
        (-40, 20, ["-40", "-20", "0", "20"]),
        (1.2e12, 1.23e12, ["1,200,000,000,000", "1,210,000,000,000", "1,220,000,000,000"]),
        (1e-20, 2e-20, ["1.0e-20", "1.2e-20", "1.4e-20", "1.6e-20", "1.8e-20", "2.0e-20"]),
        (100, 100, ["99.6", "99.8", "100.0", "100.2", "100.4"]),
        (0, 0, ["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
        (1e-320, 1e-319, ["-1.0", "-0.5", "0.0", "0.5", "1.0"]),
    ],
)
def test_prices_have_the_decimals_their_size_needs(low: float, high: float, texts: list[str]) -> None:
    """From 0.00001234 to 42,000, flat or not."""
    found = price_scale([Bar(OPEN, low, high, low, high, None)], 300)
    written = [ascii_text(labels.price_text(tick, found.decimals)) for tick in found.ticks]
    assert written[: len(texts)] == texts
    assert len(set(written)) == len(written)
    assert found.low <= low <= high <= found.high


@given(st.floats(-1e14, 1e14), st.floats(0, 1e14), st.integers(300, 600))
def test_every_price_scale_has_ticks_that_can_be_told_apart(low: float, size: float, height_px: int) -> None:
    """Some, and no more than there is room for, all different as text, and inside."""
    bar = Bar(OPEN, low, low + size, low, low + size, None)
    found = price_scale([bar], height_px)
    assert found.low < found.high
    texts = [labels.price_text(tick, found.decimals) for tick in found.ticks]
    assert 2 <= len(texts) <= height_px // 46 + 1
    assert len(set(texts)) == len(texts)
    spacing = (found.high - found.low) * 1e-6
    assert all(found.low - spacing <= tick <= found.high + spacing for tick in found.ticks)


def test_the_axis_holds_what_lies_outside_high_and_low() -> None:
    """A feed's close may be above its own high; the candle is still inside."""
    found = price_scale([Bar(OPEN, 10, 12, 9, 13, None), Bar(OPEN, 8, 12, 9, 10, None)], 400)
    assert found.low < 8
    assert found.high > 13


@pytest.mark.parametrize(
    ("highest", "texts"),
    [
        (950.0, ["500", "1k"]),
        (34_000.0, ["10k", "20k", "30k"]),
        (0.0004, ["0.0001", "0.0002", "0.0003", "0.0004"]),
        (3e9, ["1B", "2B", "3B"]),
    ],
)
def test_volumes_are_short(highest: float, texts: list[str]) -> None:
    """In thousands, millions and so on."""
    assert [labels.volume_text(tick) for tick in volume_scale(highest).ticks] == texts
    assert volume_scale(0.0) == (0.0, 1.0, [], 0)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (13 * MINUTE_US, "13 min"),
        (HOUR_US, "1 h"),
        (17 * HOUR_US + 30 * MINUTE_US, "17 h 30 min"),
        (2 * DAY_US + 17 * HOUR_US + 30 * MINUTE_US, "2 d 17 h"),
        (3 * DAY_US + 5 * MINUTE_US, "3 d"),
        (400 * DAY_US, "400 d"),
    ],
)
def test_lengths_have_two_units(us: int, text: str) -> None:
    """The biggest two."""
    assert labels.length_text(us) == text


@pytest.mark.parametrize(
    ("prices", "axis", "decimals"),
    [((600.0, 601.22), 0, 2), ((600.0, 601.5), 0, 1), ((600.0,), 0, 0), ((1.08425,), 3, 5), ((0.1 + 0.2,), 1, 1)],
)
def test_written_prices_have_the_decimals_they_have(prices: tuple[float, ...], axis: int, decimals: int) -> None:
    """All the same, up to two more than the axis, and no dust of floats."""
    assert labels.decimals_of(prices, axis) == decimals


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (100, 101.5, "+1.50 %"),
        (100, 99, "-1.00 %"),
        (100, 100.001, "0.00 %"),
        (0, 5, ""),
        (-1, 5, ""),
        (1e-9, 1, ""),
    ],
)
def test_the_change_is_in_per_cent_where_that_means_something(first: float, last: float, text: str) -> None:
    """Not from zero, not from below it."""
    assert ascii_text(labels.change_text(first, last)) == text


def test_the_window_and_its_zone_are_written_out() -> None:
    """The date once where it is the same, and every name the zone's clocks had."""
    start = dt.datetime(2026, 1, 8, 9, 30, tzinfo=NEW_YORK)
    end = dt.datetime(2026, 1, 8, 16, 0, tzinfo=NEW_YORK)
    summer = dt.datetime(2026, 7, 8, 16, 0, tzinfo=NEW_YORK)
    assert labels.window_text(start, end) == "8 Jan 2026 09:30 \N{EN DASH} 16:00"
    assert labels.window_text(start, summer) == "8 Jan 2026 09:30 \N{EN DASH} 8 Jul 2026 16:00"
    assert labels.zone_text("America/New_York", [start, end]) == "America/New_York (EST)"
    assert labels.zone_text("America/New_York", [start, summer]) == "America/New_York (EST, EDT)"
    assert labels.zone_text("UTC", [start.astimezone(dt.UTC)]) == "UTC"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SPY", "SPY"),
        ("A\nB\tC", "A B C"),
        ("A\x00\x07\u202eB", "AB"),
        ("日本", "□□"),
        ("x" * 500, "x" * 9 + "…"),
        ("x" * 10, "x" * 10),
        ("\ud800", ""),
    ],
)
def test_text_from_outside_is_one_short_line(text: str, shown: str) -> None:
    """Without control characters, and with boxes for what the font has not."""
    assert labels.printable(text, 10, lambda character: character.isascii()) == shown


def test_ticks_are_multiples_of_one_two_or_five() -> None:
    """Never 0.3, and never more than there is room for."""
    for n in range(1, 400):
        found = scale(0.0, n / 7, 5)
        assert 2 <= len(found.ticks) <= 6
        mantissa = f"{found.ticks[1]:e}"[0:3]
        assert mantissa in {"1.0", "2.0", "5.0"}
