"""Decides for which views an entry of the event log is folded. Pure. Called by `fold` and `report`.

Verify folds an event for the views that took it when it arrived: a view that was added later, or a lateness limit
that was changed, makes no stored document wrong. If a view was rebuilt since, its current rules hold for every
event until then. Rebuild folds one view, by its current rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from millpond.core import timestamps
from millpond.core.model import LogEntry, Outcome, Snapshot
from millpond.core.route import Target

# Outcomes of a view that took the event.
_COUNTED = frozenset({Outcome.APPLIED, Outcome.DUPLICATE, Outcome.STALE})


class Scope(Protocol):
    # Whether an event that the view finds invalid now is ignored, instead of making its documents not checkable.
    may_reject: bool

    def views(self, entry: LogEntry) -> frozenset[str]:
        """The names of the views the entry is folded for."""

    def place(self, entry: LogEntry, target: Target) -> Target | None:
        """The target to fold; None if this view does not take the event."""

    def is_rebuilt(self, entry: LogEntry, view: str) -> bool:
        """Whether the view's current rules apply to the entry, instead of the recorded result."""


class AsRecorded:
    """For verify: every view that took an event when it arrived, or was rebuilt since."""

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
        # A setting has changed, and the event now goes to another document: that one's right content is unknown.
        elsewhere = recorded_documents(entry).get(name) != target.path
        if elsewhere or target.settled is Outcome.FILTERED:
            return None
        return msgspec.structs.replace(target, settled=None)

    def is_rebuilt(self, entry: LogEntry, view: str) -> bool:
        return self._rebuilt.get(view, -1) >= entry.arrived_at


class OneView:
    """For rebuild: one view, by its current rules, whatever was recorded."""

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
    """View → document, for the views that took the event."""
    return {result.view: result.doc for result in entry.result.views if result.outcome in _COUNTED}


def rebuilt_views(marks: Iterable[Snapshot]) -> dict[str, int]:
    """View → time of its last rebuild, from the documents of `REBUILDS`."""
    return {
        mark.data["view"]: timestamps.from_datetime(mark.data["rebuiltAt"])
        for mark in marks
        if mark.data is not None
    }
