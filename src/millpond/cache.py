"""The version cache: what recent documents looked like, so that the happy path reads nothing.

Being wrong is safe: a commit built on an old version conflicts, and the conflict is healed by reading. Only
verdicts that lead to no write need care; the engine re-reads those that rest on an entry older than a second.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from millpond.model import Ref, Snapshot


class Entry(NamedTuple):
    snapshot: Snapshot
    seen_at: float


class SnapshotCache:
    def __init__(self, entries_max: int) -> None:
        self._entries: OrderedDict[Ref, Entry] = OrderedDict()
        self._entries_max = entries_max

    def get(self, ref: Ref) -> Entry | None:
        entry = self._entries.get(ref)
        if entry is not None:
            self._entries.move_to_end(ref)
        return entry

    def put(self, snapshot: Snapshot, now: float) -> None:
        self._entries[snapshot.ref] = Entry(snapshot, now)
        self._entries.move_to_end(snapshot.ref)
        if len(self._entries) > self._entries_max:
            self._entries.popitem(last=False)

    def drop(self, refs: Iterable[Ref]) -> None:
        for ref in refs:
            self._entries.pop(ref, None)
