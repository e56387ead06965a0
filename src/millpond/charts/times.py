"""Times of bars: whole microseconds since 1970, UTC. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Any

from millpond import parse_time

MINUTE_US = 60_000_000
DAY_US = 24 * 60 * MINUTE_US


def parse(value: Any, name: str) -> int:
    """Like `parse_time`, but also takes aware datetimes, which stores return for times in documents."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.isoformat()
    return parse_time(value, name)
