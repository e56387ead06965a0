"""Ranges of time that people filter by."""

from __future__ import annotations

import pytest

from millpond.core import timestamps
from millpond.core.time_range import ALL_TIME, TimeRange, parse_range

NOW = timestamps.parse("2026-03-01T12:00:00Z", "now")
HOUR = 3_600 * timestamps.SECOND_US


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("30s", NOW - 30 * timestamps.SECOND_US),
        ("15m", NOW - HOUR // 4),
        ("2h", NOW - 2 * HOUR),
        ("7d", NOW - 7 * 24 * HOUR),
        ("999999d", 0),
        ("2026-03-01T11:00:00Z", NOW - HOUR),
        ("2026-03-01T12:00:00+01:00", NOW - HOUR),
    ],
)
def test_a_bound_is_a_time_or_an_age(text: str, us: int) -> None:
    """An age counts back from now; a time has an offset."""
    assert parse_range(text, None, NOW) == TimeRange(us, None)
    assert parse_range(None, text, NOW) == TimeRange(None, us)


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-03-01", "2026-03-01T11:00:00", "-5m", "5w", "5 m", "1h\n", "\u0665m"]
)
def test_a_text_that_is_neither_is_refused(text: str) -> None:
    """The error names the bound, and what is allowed."""
    with pytest.raises(ValueError, match=r"^until must be a time such as .*, or an age such as 15m, 2h or 7d$"):
        parse_range("", text, NOW)


def test_an_empty_range_is_refused() -> None:
    """A range that can hold nothing is a mistake."""
    with pytest.raises(ValueError, match=r"^since must be before until$"):
        parse_range("1h", "2h", NOW)


def test_the_first_moment_is_inside_and_the_last_is_not() -> None:
    """Adjacent ranges share no moment and leave none out; an unknown time is in no bounded range."""
    bounded = TimeRange(NOW - HOUR, NOW)
    assert [bounded.holds(us) for us in (NOW - HOUR - 1, NOW - HOUR, NOW - 1, NOW, None)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert ALL_TIME.holds(None)
    assert ALL_TIME.holds(NOW)
