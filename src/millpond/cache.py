"""The version cache: what recent documents looked like, so that the happy path reads nothing.

Being wrong is safe: a commit built on an old version conflicts, and the conflict is healed by reading. Only
verdicts that lead to no write need care; the engine re-reads those that rest on an entry older than a second.
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.model import Ref, Snapshot

# A snapshot, when it was seen on the event loop's clock, and about how many bytes it takes.
Entry = tuple[Snapshot, float, int]


class SnapshotCache:
    """Two generations instead of an exact order of use: what was not touched for a whole generation is dropped."""

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self._young: dict[Ref, Entry] = {}
        self._old: dict[Ref, Entry] = {}
        self._young_bytes = 0
        self._generation_entries_max = entries_max // 2
        self._generation_bytes_max = bytes_max // 2

    def get(self, ref: Ref) -> Entry | None:
        entry = self._young.get(ref)
        if entry is None and (entry := self._old.get(ref)) is not None:
            self._add(ref, entry)
        return entry

    def put(self, snapshot: Snapshot, now: float, size: int) -> None:
        self._add(snapshot.ref, (snapshot, now, size))

    def drop(self, refs: Iterable[Ref]) -> None:
        for ref in refs:
            self._young.pop(ref, None)
            self._old.pop(ref, None)

    def _add(self, ref: Ref, entry: Entry) -> None:
        self._young[ref] = entry
        self._young_bytes += entry[2]
        if len(self._young) >= self._generation_entries_max or self._young_bytes >= self._generation_bytes_max:
            self._old, self._young, self._young_bytes = self._young, {}, 0
