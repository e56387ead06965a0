"""A range of time that people filter by: times, or ages such as `15m`. Pure.

Used by the filters of letters, events and documents, on the command line and over HTTP. Never decides an outcome.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from millpond.core import timestamps
from millpond.core.errors import InvalidEvent

_AGE = re.compile(r"(\d{1,6})([smhd])", re.ASCII)
_UNIT_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
ALLOWED = "a time such as 2026-01-08T12:34:56Z, or an age such as 15m, 2h or 7d"


class TimeRange(NamedTuple):
    """From `since` on, and before `until`, in microseconds; None is no bound."""

    since: int | None = None
    until: int | None = None

    @property
    def is_bounded(self) -> bool:
        return self.since is not None or self.until is not None

    def holds(self, us: int | None) -> bool:
        """Whether a time is in the range. An unknown time is in no range that has a bound."""
        if us is None:
            return not self.is_bounded
        return (self.since is None or us >= self.since) and (self.until is None or us < self.until)


ALL_TIME = TimeRange()


def parse_range(since: str | None, until: str | None, now: int) -> TimeRange:
    """The range between two texts, which are missing or empty if there is no bound. Raises ValueError."""
    found = TimeRange(_bound("since", since, now), _bound("until", until, now))
    if found.since is not None and found.until is not None and found.since >= found.until:
        raise ValueError("since must be before until")
    return found


def _bound(name: str, text: str | None, now: int) -> int | None:
    if not text:
        return None
    age = _AGE.fullmatch(text)
    if age is not None:
        return max(0, now - int(age[1]) * _UNIT_S[age[2]] * timestamps.SECOND_US)
    try:
        return timestamps.parse(text, name)
    except InvalidEvent:
        raise ValueError(f"{name} must be {ALLOWED}") from None
