"""The filter of the event log, for people who look for past events. Pure. Used by the stores and the API."""

from __future__ import annotations

from typing import NamedTuple

from millpond.core.model import LogEntry, Outcome
from millpond.core.time_range import ALL_TIME, TimeRange


class LogFilter(NamedTuple):
    """Matches entries that meet every condition; None is no condition.

    `times` is about the arrival of the message, which is that of its first delivery.
    """

    times: TimeRange = ALL_TIME
    topic: str | None = None
    outcome: Outcome | None = None

    def matches(self, entry: LogEntry) -> bool:
        return (
            self.times.holds(entry.arrived_at)
            and (self.topic is None or entry.topic == self.topic)
            and (self.outcome is None or entry.result.outcome is self.outcome)
        )
