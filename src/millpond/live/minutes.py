"""The sums of a day, minute by minute: what they hold, how they are added, and how an hour of them is stored. Pure.

Everything in them can be added, over minutes, over instances and over runs of the process. So latency is kept as
the number of messages within each bound, not as quantiles. `day` fills and stores them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from millpond.core import timestamps
from millpond.core.answers import Count
from millpond.core.model import Document
from millpond.live.sample import OUTCOMES, Step, quantile

MINUTE_S = 60
HOUR_MINUTES = 60
DAY_MINUTES = 24 * HOUR_MINUTES
# A document that would be bigger is stored without the sums of views: their number is not ours to limit.
TEXT_BYTES_MAX = 256 * 1024
_HOUR_US = HOUR_MINUTES * MINUTE_S * timestamps.SECOND_US

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Place = Annotated[str, msgspec.Meta(pattern="^[0-5]?[0-9]$")]


class Sums(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What happened in one minute. `views` has the outcomes of each view's events."""

    outcomes: dict[str, _Count] = {}
    views: dict[str, dict[str, _Count]] = {}
    commits: _Count = 0
    # Messages in those commits.
    committed: _Count = 0
    buried: _Count = 0
    # How many messages were answered within each bound of `Metrics.message_seconds`; empty if none was.
    seconds: list[_Count] = []

    def add(self, other: Sums | Step) -> None:
        _add(self.outcomes, other.outcomes)
        for view, outcomes in other.views.items():
            _add(self.views.setdefault(view, {}), outcomes)
        self.commits += other.commits
        self.committed += other.committed
        self.buried += other.buried
        if any(other.seconds):
            known = self.seconds or [0] * len(other.seconds)
            self.seconds = [a + b for a, b in zip(known, other.seconds, strict=True)]


# By the minute since 1970. A minute without an entry is unknown; one with empty sums is a minute without messages.
Minutes = dict[int, Sums]


class DayShown(msgspec.Struct, rename="camel"):
    """Sums of the last 24 hours, minute by minute, of all instances.

    `at` is when each minute ended, in epoch seconds, and every list is as long. Minutes of which nothing is known
    are left out. `views` has the sums of the whole day. `complete` is false if more instances ran than are read.
    """

    step_seconds: Count
    at: list[Count]
    outcomes: dict[str, list[Count]]
    views: dict[str, dict[str, Count]]
    commits: list[Count]
    committed: list[Count]
    buried: list[Count]
    p50: list[float | None]
    p99: list[float | None]
    complete: bool


def add_all(into: Minutes, more: Mapping[int, Sums]) -> None:
    for minute, sums in more.items():
        into.setdefault(minute, Sums()).add(sums)


def hour_of(minute: int) -> int:
    return minute // HOUR_MINUTES


def slot_of(hour: int) -> str:
    """The end of the id of an hour's document. 25 hours touch the last 24, and after 25 hours it is used again."""
    return f"{hour % 25:02}"


def to_document(hour: int, minutes: Mapping[int, Sums], **texts: str) -> Document:
    """The stored form of one hour. The sums are one text: a field for each would be indexed on Firestore."""
    begins = hour * _HOUR_US
    return {
        "hour": timestamps.to_datetime(begins),
        "minutes": _encoded(hour, minutes),
        **texts,
        "expireAt": timestamps.to_datetime(begins + _HOUR_US + timestamps.DAY_US),
    }


def from_document(data: Document | None, buckets: int) -> tuple[int, Minutes] | None:
    """The hour and the sums of a stored document; None if it is none of ours."""
    try:
        hour, odd = divmod(timestamps.from_datetime((data or {})["hour"]), _HOUR_US)
        text = (data or {})["minutes"]
        if odd or len(text) > TEXT_BYTES_MAX:
            return None
        found = msgspec.json.decode(text, type=dict[_Place, Sums])
    except (KeyError, TypeError, ValueError, AttributeError, msgspec.MsgspecError):
        return None
    return hour, {hour * HOUR_MINUTES + int(place): _known(sums, buckets) for place, sums in found.items()}


def shown(minutes: Mapping[int, Sums], bounds: Sequence[float], *, complete: bool = True) -> DayShown:
    """The form that pages get; `bounds` are those of `Metrics.message_seconds`."""
    order = sorted(minutes)
    each = [minutes[minute] for minute in order]
    total = Sums()
    for sums in each:
        total.add(sums)
    return DayShown(
        step_seconds=MINUTE_S,
        at=[(minute + 1) * MINUTE_S for minute in order],
        outcomes={name: [sums.outcomes.get(name, 0) for sums in each] for name in total.outcomes},
        views=total.views,
        commits=[sums.commits for sums in each],
        committed=[sums.committed for sums in each],
        buried=[sums.buried for sums in each],
        p50=[quantile(0.50, sums.seconds, bounds) for sums in each],
        p99=[quantile(0.99, sums.seconds, bounds) for sums in each],
        complete=complete,
    )


def _encoded(hour: int, minutes: Mapping[int, Sums]) -> str:
    places = {str(minute - hour * HOUR_MINUTES): sums for minute, sums in sorted(minutes.items())}
    text = msgspec.json.encode(places)
    if len(text) > TEXT_BYTES_MAX:
        totals = {place: msgspec.structs.replace(sums, views={}) for place, sums in places.items()}
        text = msgspec.json.encode(totals)
    return text.decode()


def _known(sums: Sums, buckets: int) -> Sums:
    """Without outcomes that this version does not have, and latencies that were counted within other bounds."""
    sums.outcomes = _outcomes(sums.outcomes)
    sums.views = {view: known for view, outcomes in sums.views.items() if (known := _outcomes(outcomes))}
    if len(sums.seconds) != buckets:
        sums.seconds = []
    return sums


def _outcomes(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: n for name, n in counts.items() if name in OUTCOMES}


def _add(into: dict[str, int], more: Mapping[str, Any]) -> None:
    for name, n in more.items():
        if n:
            into[name] = into.get(name, 0) + n
