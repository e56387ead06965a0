"""Positions of each candle, gap and tick of a chart, in pixels and prices. Pure. Called by `draw.py`.

A slot is the space of one bar. Missing bars leave their slots empty. A gap longer than GAP_SLOTS_MAX becomes a
break of fixed width; otherwise a night would squeeze the day beside it into a line.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from millpond import to_datetime
from millpond.charts.bars import Bar
from millpond.charts.times import MINUTE_US

GAP_SLOTS_MAX = 12
# With fewer slots the candles would be drawn as blocks.
SLOTS_MIN = 24
PLOT_PX = 1_160
PLOT_PX_MAX = 2_400
BREAK_PX = 20
# The largest share of the width that breaks may take.
BREAKS_SHARE_MAX = 0.3
TIME_LABEL_PX = 92
PRICE_LABEL_PX = 46
VOLUME_TICKS_MAX = 5

# Smaller numbers are floating-point error, and their logarithm is meaningless.
_NOTHING = 1e-30
_DAY_MINUTES = 1_440
_TICK_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, _DAY_MINUTES)


class Slot(NamedTuple):
    """The space of one bar, which may be missing; `x` is its middle."""

    x: float
    start: int


class Break(NamedTuple):
    """A long gap: where it is drawn, and how long it lasts in microseconds."""

    left: float
    right: float
    length: int


class Layout(NamedTuple):
    """The time axis. `bar_slots` are those of the bars, in their order."""

    plot_px: int
    slot_px: float
    slots: list[Slot]
    bar_slots: list[Slot]
    breaks: list[Break]


class TimeTick(NamedTuple):
    """`has_date`: the day differs from the tick before; `has_zone`: the UTC offset does."""

    x: float
    at: dt.datetime
    has_time: bool
    has_date: bool
    has_zone: bool


class PriceScale(NamedTuple):
    """From `low` to `high`, with ticks a round number apart that has `decimals`."""

    low: float
    high: float
    ticks: list[float]
    decimals: int


def place(starts: Sequence[int], step: int) -> Layout:
    """The slots of bars that start at these times."""
    missing = [(later - earlier) // step - 1 for earlier, later in itertools.pairwise(starts)]
    breaks_count = sum(1 for gap in missing if gap > GAP_SLOTS_MAX)
    slots_count = len(starts) + sum(gap for gap in missing if gap <= GAP_SLOTS_MAX)
    slot_px = _slot_px(max(slots_count, SLOTS_MIN))
    bars_px = slot_px * max(slots_count, SLOTS_MIN)
    break_px = 0
    if breaks_count:
        room_px = bars_px * BREAKS_SHARE_MAX / (1 - BREAKS_SHARE_MAX)
        break_px = max(1, int(min(max(BREAK_PX, 1.5 * slot_px), room_px / breaks_count)))
    slots: list[Slot] = []
    bar_slots: list[Slot] = []
    breaks: list[Break] = []
    # A few bars are centred.
    left = slot_px * ((SLOTS_MIN - slots_count) // 2) if slots_count < SLOTS_MIN else 0.0
    for start, gap in zip(starts, [0, *missing], strict=True):
        if gap > GAP_SLOTS_MAX:
            breaks.append(Break(left, left + break_px, gap * step))
            left += break_px
        else:
            empty = [Slot(left + (n + 0.5) * slot_px, start - (gap - n) * step) for n in range(gap)]
            slots += empty
            left += gap * slot_px
        bar_slots.append(Slot(left + 0.5 * slot_px, start))
        slots.append(bar_slots[-1])
        left += slot_px
    return Layout(math.ceil(bars_px + break_px * breaks_count), slot_px, slots, bar_slots, breaks)


def _slot_px(slots: int) -> float:
    """Whole pixels if possible: all candles are equally wide, and none is blurred.

    Below four pixels a body looks like a wick, so the chart grows instead.
    """
    if slots > PLOT_PX_MAX:
        return PLOT_PX_MAX / slots
    return max(round(PLOT_PX / slots), min(4, PLOT_PX_MAX // slots))


def time_ticks(layout: Layout, step: int, zone: dt.tzinfo) -> list[TimeTick]:
    """Ticks at round local times and at the start of days, at least one label width apart."""
    slot_minutes = step // MINUTE_US
    tick_minutes = next(
        (m for m in _TICK_MINUTES if m >= slot_minutes and m / slot_minutes * layout.slot_px >= TIME_LABEL_PX),
        _DAY_MINUTES,
    )
    local = [to_datetime(slot.start).astimezone(zone) for slot in layout.slots]
    # The first slot of a chart is not the start of its day.
    days = [n for n in range(1, len(local)) if local[n].date() != local[n - 1].date()]
    round_times = [n for n, at in enumerate(local) if (at.hour * 60 + at.minute) % tick_minutes == 0]
    if not days and not round_times:
        round_times = [len(local) // 2]
    kept: list[int] = []
    for n in [*days, *round_times]:
        x = layout.slots[n].x
        if all(abs(x - layout.slots[other].x) >= TIME_LABEL_PX for other in kept):
            kept.append(n)
    kept.sort()
    before = [None, *(local[n] for n in kept)]
    return [
        TimeTick(
            layout.slots[n].x,
            local[n],
            has_time=tick_minutes < _DAY_MINUTES,
            has_date=earlier is None or earlier.date() != local[n].date(),
            has_zone=earlier is not None and earlier.utcoffset() != local[n].utcoffset(),
        )
        for n, earlier in zip(kept, before, strict=False)
    ]


def price_scale(bars: Sequence[Bar], height_px: float) -> PriceScale:
    """An axis that holds all bars, with a margin."""
    low = min(min(bar.low, bar.open, bar.close) for bar in bars)
    high = max(max(bar.high, bar.open, bar.close) for bar in bars)
    size = max(abs(low), abs(high))
    if high - low <= max(size * 1e-12, _NOTHING):
        # A flat line is centred, whatever its price.
        pad = size * 0.005 if size > _NOTHING else 1.0
    else:
        pad = (high - low) * 0.06
    return scale(low - pad, high + pad, max(2, int(height_px / PRICE_LABEL_PX)))


def volume_scale(highest: float) -> PriceScale:
    """From zero to a quarter above the highest volume, so that the text in the corner has room.

    There is no tick at the bottom, and none so high that its label would touch the lowest price's.
    """
    if highest <= _NOTHING:
        return PriceScale(0.0, 1.0, [], 0)
    found = scale(0.0, highest * 1.25, VOLUME_TICKS_MAX)
    return found._replace(ticks=[tick for tick in found.ticks if 0 < tick < found.high * 0.93])


def scale(low: float, high: float, ticks_max: int) -> PriceScale:
    """At most `ticks_max` ticks at multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / ticks_max
    exponent = math.floor(math.log10(rough))
    factor = next(f for f in (1, 2, 5, 10) if f * 10.0**exponent >= rough * (1 - 1e-9))
    if factor == 10:
        factor, exponent = 1, exponent + 1
    unit = factor * 10.0**exponent
    ticks = [n * unit for n in range(math.ceil(low / unit - 1e-9), math.floor(high / unit + 1e-9) + 1)]
    return PriceScale(low, high, ticks, max(0, -exponent))
