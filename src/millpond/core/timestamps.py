"""Times as whole microseconds since 1970, UTC, and their conversions. Pure.

The core compares and subtracts integers. Documents hold aware datetimes, which stores and people read. No other
module converts between the two.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from typing import Any

from millpond.core.errors import InvalidEvent, json_type

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
LATEST_US = int(dt.datetime(2200, 1, 1, tzinfo=dt.UTC).timestamp()) * SECOND_US

# The times of an event are converted several times while it is processed, and rarely after that.
_REMEMBERED = 1_024
_datetimes: dict[int, dt.datetime] = {}
# Epoch numbers from here on are milliseconds: as seconds they would be after the year 5000.
_MILLISECONDS_FROM = 1e11
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# With an offset: `+01:00`, or `+0100` as many producers write it. A time without an offset is naive.
RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:?[0-5]\d)", re.ASCII)
_NAIVE = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?", re.ASCII)
_DIGIT = re.compile(r"\d")


def to_datetime(us: int) -> dt.datetime:
    value = _datetimes.get(us)
    return value if value is not None else _remember(us, _EPOCH + dt.timedelta(microseconds=us))


def from_datetime(value: dt.datetime) -> int:
    delta = value - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * SECOND_US + delta.microseconds


def to_text(us: int) -> str:
    """RFC 3339 in UTC, with no fraction digits if the fraction is zero, else six."""
    return to_datetime(us).isoformat().removesuffix("+00:00") + "Z"


def parse(value: Any, name: str, *, naive_as_utc: bool = False) -> int:
    """Microseconds of an RFC 3339 time with offset, or of epoch seconds or milliseconds.

    An ambiguous time is refused: a naive time read in the wrong zone would give the document a wrong order for
    ever. `naive_as_utc` is for producers whose naive times are known to be UTC.
    """
    kind = type(value)
    if kind is str:
        us = _parse_text(value, name, naive_as_utc=naive_as_utc)
    elif kind is int or kind is float:
        scale = 1_000 if abs(value) >= _MILLISECONDS_FROM else SECOND_US
        us = value * scale if kind is int else _rounded(value * scale, name)
    else:
        raise InvalidEvent(f"{name} must be an RFC 3339 time or an epoch number, not {json_type(value)}")
    if not 0 <= us < LATEST_US:
        raise InvalidEvent(f"{name} is outside the years 1970 to 2200")
    return us


def is_no_time(value: Any) -> bool:
    """Whether this is text that cannot be a time ("n/a").

    Text with a digit may be a time in an unknown format. Using another time instead would make the order wrong.
    """
    return isinstance(value, str) and _DIGIT.search(value) is None


def _parse_text(value: str, name: str, *, naive_as_utc: bool) -> int:
    try:
        return _parse_rfc3339(f"{value}Z" if naive_as_utc and _NAIVE.fullmatch(value) else value)
    except ValueError:
        hint = "; NAIVE_TIMES=utc takes times without one as UTC" if _NAIVE.fullmatch(value) else ""
        raise InvalidEvent(
            f"{name} must be an RFC 3339 time with an offset, such as 2026-01-08T12:34:56Z{hint}"
        ) from None


@lru_cache(maxsize=_REMEMBERED)
def _parse_rfc3339(value: str) -> int:
    # fromisoformat alone also accepts week dates, compact forms and times without an offset.
    if not RFC3339.fullmatch(value):
        raise ValueError
    parsed = dt.datetime.fromisoformat(value.upper())
    us = from_datetime(parsed)
    if parsed.tzinfo is dt.UTC:
        _remember(us, parsed)
    return us


def _remember(us: int, value: dt.datetime) -> dt.datetime:
    if len(_datetimes) >= _REMEMBERED:
        _datetimes.clear()
    _datetimes[us] = value
    return value


def _rounded(value: float, name: str) -> int:
    try:
        return round(value)
    except (ValueError, OverflowError):
        raise InvalidEvent(f"{name} is not a finite number") from None
