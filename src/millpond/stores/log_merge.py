"""Entries of an append-only log → one entry for each message. Pure. Firestore's log uses it when it is read.

A store that looks a message up before it appends (SQLite) completes the entry there. An append-only log may hold a
message several times: a redelivery, a replay, a commit that was applied although its reply was lost. Then the first
entry is completed by the later ones, as in the other stores. Clocks of instances differ, so "first" is not certain:
for each view the first of `applied, stale, too_old, filtered, duplicate` counts, whatever the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from millpond.core.model import OUTCOME_RANK, LogEntry, Outcome, ViewResult
from millpond.stores.log_entry import OPEN, completed, is_same_message

_SETTLED = (Outcome.APPLIED, Outcome.STALE, Outcome.TOO_OLD, Outcome.FILTERED, Outcome.DUPLICATE)
_BETTER_FIRST = {outcome: rank for rank, outcome in enumerate(_SETTLED)}


class MergedEntry(NamedTuple):
    """One message: its entry, and the entries of the log that it was made of, the oldest first."""

    entry: LogEntry
    sources: Sequence[LogEntry]


def merge_entries(entries: Iterable[LogEntry]) -> list[MergedEntry]:
    """One for each message, in the order of their first entries. `entries` are in log order."""
    by_id: dict[str, list[LogEntry]] = {}
    for entry in entries:
        by_id.setdefault(entry.delivery.message_id, []).append(entry)
    return [
        MergedEntry(_finished(message), message.sources) for known in by_id.values() for message in _messages(known)
    ]


class _Message:
    """A message while its entries are met one after the other."""

    def __init__(self, entry: LogEntry) -> None:
        self.entry = entry
        self.sources = [entry]

    def add(self, later: LogEntry) -> None:
        self.entry = self._completed_by(later)
        self.sources.append(later)

    def _completed_by(self, later: LogEntry) -> LogEntry:
        if not later.replay and later.result.outcome in OPEN and all(entry.replay for entry in self.sources):
            # The burial, of which the replay seemed to be earlier, because the clock of its instance was behind. A
            # replay has only the views that refused the message, and the burial all of them.
            burial = msgspec.structs.replace(later, arrived_at=min(later.arrived_at, self.entry.arrived_at))
            return completed(burial, self.entry) or completed(self.entry, later) or self.entry
        return completed(self.entry, later) or self.entry


def _messages(entries: Sequence[LogEntry]) -> list[_Message]:
    """Entries of one message id, by message: ids are unique only within a topic.

    As a store does that completes entries when it appends: a replayed message may have been buried under another
    topic, or before its topic was known. If its own topic has no entry, it completes that of its burial.
    """
    found: dict[str, _Message] = {}
    for entry in entries:
        topic = entry.topic
        if entry.replay and topic not in found:
            topic = next((known for known, message in found.items() if _is_burial(message.entry, entry)), topic)
        message = found.pop(topic, None)
        if message is None:
            found[topic] = _Message(entry)
        else:
            message.add(entry)
            found[message.entry.topic] = message
    return sorted(found.values(), key=lambda message: message.entry.arrived_at)


def _is_burial(entry: LogEntry, replay: LogEntry) -> bool:
    return entry.result.outcome in OPEN and is_same_message(entry, replay)


def _finished(message: _Message) -> LogEntry:
    merged, sources = message.entry, message.sources
    better = {} if len(sources) == 1 else _better_results(merged, sources)
    if better:
        merged = _with_results(merged, better)
    # That it came by a replay was of use for finding its other entries only.
    return msgspec.structs.replace(merged, replay=False) if merged.replay else merged


def _better_results(merged: LogEntry, group: Sequence[LogEntry]) -> dict[str, tuple[ViewResult, LogEntry]]:
    """Views whose result in another entry goes before the merged one."""
    best = {view.view: _rank(view) for view in merged.result.views if view.outcome in _BETTER_FIRST}
    found: dict[str, tuple[ViewResult, LogEntry]] = {}
    for entry in group:
        for view in entry.result.views:
            if view.view in best and _rank(view) < best[view.view]:
                best[view.view] = _rank(view)
                found[view.view] = (view, entry)
    return found


def _with_results(merged: LogEntry, better: dict[str, tuple[ViewResult, LogEntry]]) -> LogEntry:
    views = [better[view.view][0] if view.view in better else view for view in merged.result.views]
    corrected = {name: data for name, data in merged.corrected.items() if name not in better}
    corrected |= {name: entry.corrected[name] for name, (_, entry) in better.items() if name in entry.corrected}
    top = min(views, key=lambda view: OUTCOME_RANK[view.outcome])
    result = msgspec.structs.replace(merged.result, outcome=top.outcome, reason=top.reason, views=views)
    return msgspec.structs.replace(merged, result=result, corrected=corrected)


def _rank(view: ViewResult) -> int:
    return _BETTER_FIRST.get(view.outcome, len(_SETTLED))
