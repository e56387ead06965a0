"""Bar documents → bars, and one-minute bars → longer bars. Pure. Called by `sources.py` and `find.py`.

Prices may be numbers or decimal text, and documents of an earlier consumer may lack fields. A minute that cannot be
drawn is counted; its values are never guessed.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from millpond import Document, InvalidEvent
from millpond.charts import times

# Larger numbers leave a float no digits for cents, and do not fit on the axis.
_NUMBER_MAX = 1e15


class Bar(NamedTuple):
    """`start` in microseconds; `volume` is None if the document has none."""

    start: int
    open: float
    high: float
    low: float
    close: float
    volume: float | None


class Minute(NamedTuple):
    """What a document says: `bar` is None if it cannot be drawn."""

    start: int
    bar: Bar | None


class Found(NamedTuple):
    """Bars by time, and how many minutes among them could not be used."""

    bars: list[Bar]
    skipped: int


def minute_of(document: Document) -> int | None:
    """The minute a document is about, by its `ts`."""
    try:
        us = times.parse(document.get("ts"), "ts")
    except InvalidEvent:
        return None
    return us - us % times.MINUTE_US


def bar_of(document: Document, start: int) -> Bar | None:
    """The bar in a document, or None if a price is missing or no number, or high is below low."""
    prices = [_number(document.get(name)) for name in ("open", "high", "low", "close")]
    volume = _number(document.get("volume"))
    if volume is not None and volume < 0:
        volume = None
    match prices:
        case [float(first), float(high), float(low), float(last)] if low <= high:
            return Bar(start, first, high, low, last, volume)
    return None


class BarFold:
    """Minutes folded into bars of `step` microseconds, whose starts are multiples of it in UTC.

    The minutes of one bar must be added in time order; the bars may come in any order.
    """

    def __init__(self, step: int) -> None:
        self._step = step
        self._bars: dict[int, Bar] = {}
        self._skipped: list[int] = []

    def __len__(self) -> int:
        return len(self._bars)

    def add(self, minute: Minute) -> None:
        if minute.bar is None:
            self._skipped.append(minute.start)
            return
        start = minute.start - minute.start % self._step
        before = self._bars.get(start)
        self._bars[start] = minute.bar._replace(start=start) if before is None else _joined(before, minute.bar)

    def first(self, count: int) -> Found:
        bars = self._sorted()[:count]
        # With fewer bars than asked for, every skipped minute belongs to the result.
        end = bars[-1].start + self._step if len(bars) == count else math.inf
        return Found(bars, sum(1 for start in self._skipped if start < end))

    def last(self, count: int) -> Found:
        bars = self._sorted()[-count:]
        begin = bars[0].start if len(bars) == count else -math.inf
        return Found(bars, sum(1 for start in self._skipped if start >= begin))

    def all(self) -> Found:
        return Found(self._sorted(), len(self._skipped))

    def _sorted(self) -> list[Bar]:
        return [self._bars[start] for start in sorted(self._bars)]


def _joined(one: Bar, later: Bar) -> Bar:
    volumes = [bar.volume for bar in (one, later) if bar.volume is not None]
    return Bar(
        one.start,
        one.open,
        max(one.high, later.high),
        min(one.low, later.low),
        later.close,
        sum(volumes) if volumes else None,
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < _NUMBER_MAX else None
