"""The snapshot cache: recent versions of documents, so that most batches read nothing. Owned by `reader`.

An outdated entry is safe: a commit based on it conflicts, and the engine reads and tries again. Only a verdict
without a write is not checked by a commit; the engine reads again if one depends on an entry older than a second.
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.core.model import Ref, Snapshot

BYTES_MAX = 64 * 1024 * 1024
# A cached document may decide that an event leads to no write only while it is younger than this.
TRUSTED_FOR_S = 1.0
# A snapshot, the event loop's time when it was read or written, and its approximate size in bytes.
Entry = tuple[Snapshot, float, int]


class SnapshotCache:
    """Two generations instead of exact LRU order: an entry not used for a whole generation is dropped."""

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
    """Hashes of documents that were written lately. False positives are possible and cost one read.

    For receipts and other documents that are rarely needed again. Caching their content would keep thousands of
    dicts alive, and freeing those later costs more than reading the few that are needed.
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
