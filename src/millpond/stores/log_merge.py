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
    messages: dict[str, list[LogEntry]] = {}
    for entry in entries:
        messages.setdefault(entry.delivery.message_id, []).append(entry)
    return [
        MergedEntry(_merge(group), group) for known in messages.values() for group in _by_message(known) if group
    ]


def _by_message(entries: Sequence[LogEntry]) -> list[list[LogEntry]]:
    """Entries of one message id, by message: ids are unique only within a topic.

    A replayed message may have been buried under another topic, or before its topic was known. If its own topic
    has no other entry, it takes the open entry of its burial.
    """
    if len(entries) == 1:
        return [list(entries)]
    groups: dict[str, list[LogEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.topic, []).append(entry)
    for topic, group in groups.items():
        # An empty one was taken by another topic.
        if not group or not all(entry.replay for entry in group):
            continue
        for other, theirs in groups.items():
            # A replay under their topic that settled them has completed them.
            if other != topic and all(entry.result.outcome in OPEN for entry in theirs if entry.replay):
                mine = [e for e in theirs if e.result.outcome in OPEN and is_same_message(e, group[0])]
                groups[other] = [e for e in theirs if all(e is not taken for taken in mine)]
                group[:0] = mine
    return list(groups.values())


def _merge(group: Sequence[LogEntry]) -> LogEntry:
    # A replay asks only the views that refused the message, so it completes the entry of the burial, also if the
    # clock of its instance was behind.
    merged, *following = sorted(group, key=lambda entry: entry.replay)
    for later in following:
        merged = completed(merged, later) or merged
    better = {} if len(group) == 1 else _better_results(merged, group)
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
