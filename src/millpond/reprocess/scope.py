"""Which views an entry of the event log is folded for. Pure.

To verify, an event counts for the views that took it into account when it arrived: a view that was added later, or
a limit of lateness that was changed, makes no stored document wrong. Where a view was rebuilt since, its rules of
today held for everything until then. To rebuild, one view is folded, by its rules of today.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from millpond.core import timestamps
from millpond.core.model import LogEntry, Outcome, Snapshot
from millpond.core.route import Target

# What an event led to in a view that took it into account.
_COUNTED = frozenset({Outcome.APPLIED, Outcome.DUPLICATE, Outcome.STALE})


class Scope(Protocol):
    # Whether an event that a view finds invalid today is none of the view's business, instead of a riddle.
    may_reject: bool

    def views(self, entry: LogEntry) -> frozenset[str]:
        """The names of the views the entry is folded for."""

    def place(self, entry: LogEntry, target: Target) -> Target | None:
        """The target as it is to be folded; None where this view does not take the event into account."""

    def is_rebuilt(self, entry: LogEntry, view: str) -> bool:
        """Whether the view goes by its rules of today, whatever was recorded."""


class AsRecorded:
    """Every view that took an event into account when it arrived, or was rebuilt since."""

    may_reject = False

    def __init__(self, rebuilt: Mapping[str, int]) -> None:
        self._rebuilt = rebuilt

    def views(self, entry: LogEntry) -> frozenset[str]:
        rebuilt = [name for name in self._rebuilt if self.is_rebuilt(entry, name)]
        return frozenset(recorded_documents(entry)).union(rebuilt)

    def place(self, entry: LogEntry, target: Target) -> Target | None:
        name = target.view.name
        if self.is_rebuilt(entry, name):
            return target if target.settled is None else None
        # Another document than the one it went into, since a setting was changed: what that should be nobody knows.
        elsewhere = recorded_documents(entry).get(name) != target.path
        if elsewhere or target.settled is Outcome.FILTERED:
            return None
        return msgspec.structs.replace(target, settled=None)

    def is_rebuilt(self, entry: LogEntry, view: str) -> bool:
        return self._rebuilt.get(view, -1) >= entry.arrived_at


class OneView:
    """One view, whatever was recorded."""

    may_reject = True

    def __init__(self, name: str) -> None:
        self._names = frozenset({name})

    def views(self, entry: LogEntry) -> frozenset[str]:  # noqa: ARG002
        return self._names

    def place(self, entry: LogEntry, target: Target) -> Target | None:  # noqa: ARG002
        return target if target.settled is None else None

    def is_rebuilt(self, entry: LogEntry, view: str) -> bool:  # noqa: ARG002
        return True


def recorded_documents(entry: LogEntry) -> dict[str, str]:
    """View → document, for the views that took the event into account."""
    return {result.view: result.doc for result in entry.result.views if result.outcome in _COUNTED}


def rebuilt_views(marks: Iterable[Snapshot]) -> dict[str, int]:
    """View → until when its rules of today held for everything that arrived, from the documents of `REBUILDS`."""
    return {
        mark.data["view"]: timestamps.from_datetime(mark.data["rebuiltAt"])
        for mark in marks
        if mark.data is not None
    }
