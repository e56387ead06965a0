"""The texts on a chart: prices, volumes, times, gap lengths. Pure, and independent of the locale."""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Callable, Sequence

from millpond.charts.layout import TimeTick
from millpond.charts.times import MINUTE_US

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DECIMALS_MAX = 12
_MINUS = "\N{MINUS SIGN}"
_DASH = "\N{EN DASH}"
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_BOX = "\N{WHITE SQUARE}"


def price_text(value: float, decimals: int) -> str:
    """With thousands separators; in scientific notation if it needs too many decimals."""
    if decimals > _DECIMALS_MAX and value:
        return f"{value:.{max(0, math.floor(math.log10(abs(value))) + decimals)}e}".replace("-", _MINUS)
    text = f"{value:,.{min(decimals, _DECIMALS_MAX)}f}"
    # Rounding turns a tick that is a float error below zero into -0.00.
    return text.replace("-", _MINUS) if text.strip("-0.,") else text.removeprefix("-")


def decimals_of(prices: Sequence[float], axis_decimals: int) -> int:
    """How many decimals to write for prices: up to two more than the axis needs."""
    for decimals in (axis_decimals, axis_decimals + 1):
        if all(math.isclose(round(price, decimals), price, rel_tol=1e-12) for price in prices):
            return decimals
    return axis_decimals + 2


def change_text(first: float, last: float) -> str:
    """How far `last` is from `first`, in per cent; empty if that has no meaning."""
    if first <= 0:
        return ""
    percent = (last - first) / first * 100
    if abs(percent) >= 1e6:
        return ""
    text = f"{abs(percent):,.2f}"
    sign = "" if text == "0.00" else "+" if percent > 0 else _MINUS
    return f"{sign}{text} %"


def volume_text(value: float) -> str:
    """Short: 950, 1.5k, 20M."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def time_text(tick: TimeTick, year_before: int) -> str:
    """The label of a tick: the time, and below it the day or the zone if it changed."""
    lines = [f"{tick.at:%H:%M}"] if tick.has_time else []
    below = []
    if tick.has_date:
        below.append(date_text(tick.at) if tick.at.year != year_before else _day_text(tick.at))
    if tick.has_zone and tick.has_time:
        below.append(tick.at.tzname() or "")
    return "\n".join([*lines, " ".join(below)] if below else lines)


def _day_text(at: dt.datetime) -> str:
    return f"{at.day} {_MONTHS[at.month - 1]}"


def date_text(at: dt.datetime) -> str:
    return f"{_day_text(at)} {at.year}"


def window_text(start: dt.datetime, end: dt.datetime) -> str:
    """From the first bar's start to the last bar's end, with one date if both are on the same day."""
    until = f"{end:%H:%M}" if start.date() == end.date() else f"{date_text(end)} {end:%H:%M}"
    return f"{date_text(start)} {start:%H:%M} {_DASH} {until}"


def zone_text(zone: str, times: Sequence[dt.datetime]) -> str:
    """The zone's name and the abbreviations in use, in order: America/New_York (EST, EDT)."""
    names = list(dict.fromkeys(at.tzname() or "" for at in times))
    return zone if names in ([zone], [""]) else f"{zone} ({', '.join(names)})"


def length_text(us: int) -> str:
    """How long a gap lasts, in its two biggest units: 17 h 30 min."""
    minutes = us // MINUTE_US
    parts = ((minutes // 1_440, "d"), (minutes // 60 % 24, "h"), (minutes % 60, "min"))
    first = next(n for n, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def printable(text: str, chars_max: int, has_glyph: Callable[[str], bool]) -> str:
    """One line of at most `chars_max` characters; those the font lacks become a box."""
    line = " ".join(unicodedata.normalize("NFC", text).split())
    shown = [c for c in line if unicodedata.category(c)[0] != "C"]
    drawn = "".join(c if has_glyph(c) else _BOX for c in shown[: chars_max + 1])
    return drawn if len(drawn) <= chars_max else drawn[: chars_max - 1] + _ELLIPSIS
