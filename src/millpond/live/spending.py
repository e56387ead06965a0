"""What the instances spent on a store with a bill, hour by hour: how it is added, and stored with the hour. Pure.

One text in each hour's document of `ops_history`. `day` fills and stores it; `cost` makes a bill of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec

from millpond.live.minutes import Minutes
from millpond.stores.operations import COLLECTIONS_MAX, NAME_CHARS_MAX, SpentByCollection, add_spent

FIELD = "operations"
# The largest hour is below it, with OTHER: a name may have six characters in JSON for each of its own.
TEXT_CHARS_MAX = (COLLECTIONS_MAX + 1) * (6 * NAME_CHARS_MAX + 200)

_Minute = Annotated[int, msgspec.Meta(ge=0, le=59)]


class HourSpent(msgspec.Struct, rename={"since": "from"}):
    """`since` is the first minute of the hour in which anything was counted."""

    since: _Minute
    collections: SpentByCollection = {}

    def add(self, other: HourSpent) -> None:
        self.since = min(self.since, other.since)
        add_spent(self.collections, other.collections)


# By the hour since 1970. An hour without an entry is unknown.
Hours = dict[int, HourSpent]


class Spending(NamedTuple):
    """What all instances spent, and the minutes with the messages they did it for."""

    hours: Hours
    minutes: Minutes
    # False if more instances ran than are read.
    complete: bool
    # False if HISTORY is off: this is what one process counted since its start.
    kept: bool
    # Documents that were read for it.
    read: int


def add_hours(into: Hours, more: Mapping[int, HourSpent]) -> None:
    for hour, spent in more.items():
        into.setdefault(hour, HourSpent(spent.since)).add(spent)


def to_text(spent: HourSpent) -> str:
    return msgspec.json.encode(spent).decode()


def from_text(text: Any) -> HourSpent | None:
    """None if there is none, as earlier builds wrote, or if it is none of ours."""
    if not isinstance(text, str) or len(text) > TEXT_CHARS_MAX:
        return None
    try:
        return msgspec.json.decode(text, type=HourSpent)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None
