"""Finds the bars a request asks for: all of a window, the first N from a time, or the last N before a time.

Stores list documents by ascending id only, so the last bars are searched in windows that grow. Called by `step.py`.
"""

from __future__ import annotations

from contextlib import aclosing

from millpond.charts.bars import BarFold, Found
from millpond.charts.request import BARS_DEFAULT, Request
from millpond.charts.sources import PAGE_DOCUMENTS, BarSource
from millpond.charts.times import DAY_US, MINUTE_US

# How far back the search for the last bars goes.
REACH_US = 400 * DAY_US


async def find_bars(source: BarSource, request: Request, now: int) -> Found:
    """The request's bars, by time."""
    if request.start is not None and request.end is not None:
        return await between(source, request.start, request.end, request.step)
    if request.start is not None:
        return await first(source, request.start, request.step, BARS_DEFAULT)
    # The bar of the current time counts, though it may still change.
    end = now - now % request.step + request.step if request.end is None else request.end
    return await last(source, end, request.step, BARS_DEFAULT)


async def between(source: BarSource, start: int, end: int, step: int) -> Found:
    """Every bar that starts in `[start, end)`."""
    fold = BarFold(step)
    await _read(source, start, end, fold)
    return fold.all()


async def first(source: BarSource, start: int, step: int, count: int) -> Found:
    """The first `count` bars from `start` on."""
    fold = BarFold(step)
    # One minute more than these bars can hold: if it belongs to the next bar, the last one is complete.
    limit = min(PAGE_DOCUMENTS, count * step // MINUTE_US + 1)
    async with aclosing(source.pages(start, start + REACH_US, limit)) as pages:
        async for page in pages:
            for minute in page:
                fold.add(minute)
            if len(fold) > count:
                break
    return fold.first(count)


async def last(source: BarSource, end: int, step: int, count: int) -> Found:
    """The last `count` bars that start before `end`."""
    fold = BarFold(step)
    oldest, span = end - REACH_US, count * step
    upper = await _newest(source, end, span, oldest)
    while len(fold) < count and upper > oldest:
        lower = max(upper - span, oldest)
        await _read(source, lower, upper, fold)
        upper, span = lower, span * 2
    return fold.last(count)


async def _newest(source: BarSource, end: int, span: int, oldest: int) -> int:
    """The upper end of a window of `span` that holds the newest document; `oldest` if there is none.

    Each probe reads one document: windows double until one is not empty, then that window is halved. After a
    weekend, reading the wide window whole would cost ten times as much.
    """
    upper, width, is_inside = end, span, False
    while upper > oldest:
        if await source.has_any(max(upper - width, oldest), upper):
            if width == span:
                return upper
            is_inside, width = True, width // 2
        else:
            upper -= width
            # If the newer half is empty, the document is in the older one.
            width = max(span, width // 2) if is_inside else width * 2
    return oldest


async def _read(source: BarSource, lower: int, upper: int, fold: BarFold) -> None:
    async for page in source.pages(lower, upper):
        for minute in page:
            fold.add(minute)
