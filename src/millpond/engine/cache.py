"""The version cache: what recent documents looked like, so that the happy path reads nothing.

Being wrong is safe: a commit built on an old version conflicts, and the conflict is healed by reading. Only
verdicts that lead to no write need care; the engine re-reads those that rest on an entry older than a second.
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.core.model import Ref, Snapshot

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
            self.put(*entry)
        return entry

    def put(self, snapshot: Snapshot, now: float, size: int) -> None:
        self._young[snapshot.ref] = (snapshot, now, size)
        self._young_bytes += size
        if len(self._young) >= self._generation_entries_max or self._young_bytes >= self._generation_bytes_max:
            self._old, self._young, self._young_bytes = self._young, {}, 0

    def drop(self, refs: Iterable[Ref]) -> None:
        for ref in refs:
            self._young.pop(ref, None)
            self._old.pop(ref, None)


class RecentWrites:
    """Which documents were written lately, without what they hold. It may be wrong: who is told so reads.

    For receipts and their like, which almost nobody asks for again. Keeping them whole would keep thousands of
    dicts alive, and freeing those when they are cold costs more than reading the few that are asked for.
    """

    def __init__(self, entries_max: int) -> None:
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._generation_max = max(1, entries_max // 2)

    def add(self, refs: Iterable[Ref]) -> None:
        self._young.update(map(hash, refs))
        if len(self._young) >= self._generation_max:
            self._old, self._young = self._young, set()

    def __contains__(self, ref: Ref) -> bool:
        seen = hash(ref)
        return seen in self._young or seen in self._old
