"""The snapshots for a plan: from the cache, assumed absent, or read from the store. Called by the committer.

A wrong snapshot is safe if the plan writes: the store checks the commit's preconditions. A plan that writes nothing
has no such check, so the documents it depends on are read first (`doubtful`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from millpond.core.document import approximate_size
from millpond.core.model import Committed, Outcome, Put, Ref, Result, Snapshot
from millpond.core.plan import Plan
from millpond.core.ports import Store
from millpond.engine.cache import BYTES_MAX, TRUSTED_FOR_S, RecentWrites, SnapshotCache
from millpond.engine.ticket import Ticket
from millpond.telemetry.metrics import Metrics

_ABSENT = Snapshot(Ref("", ""), None, None)
_IDLE = frozenset({Outcome.STALE, Outcome.DUPLICATE})


class Sight(NamedTuple):
    """The documents that a plan uses, and how certain each snapshot is."""

    snapshots: dict[Ref, Snapshot]
    # Assumed absent without a read; only the commit checks it.
    assumed: set[Ref]
    # From the cache, and too old to justify a verdict without a write.
    aged: set[Ref]


class SnapshotReader:
    def __init__(self, store: Store, metrics: Metrics, cache_entries_max: int) -> None:
        self._store = store
        self._metrics = metrics
        self._cache = SnapshotCache(cache_entries_max, BYTES_MAX)
        self._recent_writes = RecentWrites(cache_entries_max)

    async def look(self, tickets: Sequence[Ticket], doubted: Container[Ref]) -> Sight:
        """The snapshots that the tickets need. `doubted` documents are read even if they are cached."""
        sight = Sight({}, set(), set())
        snapshots, assumed, aged = sight
        missing: list[Ref] = []
        brief: set[Ref] = set()
        trusted_from = asyncio.get_running_loop().time() - TRUSTED_FOR_S
        cached, recent = self._cache.get, self._recent_writes
        for ticket in tickets:
            # A letter that is stored already leads to no write, so letters are never taken from the cache.
            cacheable = ticket.item.letter is None
            for refs, must_read in ((ticket.needs.read, True), (ticket.needs.assumed, False)):
                for ref in refs:
                    if ref in snapshots:
                        continue
                    in_doubt = ref in doubted
                    entry = cached(ref) if cacheable and not in_doubt else None
                    if entry is not None:
                        snapshots[ref] = entry[0]
                        if entry[1] < trusted_from:
                            aged.add(ref)
                        continue
                    snapshots[ref] = _ABSENT
                    if must_read:
                        missing.append(ref)
                    elif in_doubt or ref in recent:
                        missing.append(ref)
                        brief.add(ref)
                    else:
                        assumed.add(ref)
        if missing:
            await self._read(missing, snapshots, brief)
        return sight

    async def check(self, refs: Sequence[Ref], sight: Sight) -> None:
        """Read the documents that a verdict without a write depends on."""
        self._metrics.verdicts_checked += 1
        await self._read(refs, sight.snapshots)
        sight.aged.difference_update(refs)
        sight.assumed.difference_update(refs)

    async def _read(self, refs: Sequence[Ref], snapshots: dict[Ref, Snapshot], brief: Container[Ref] = ()) -> None:
        """Read and cache. Of `brief` ones only the existence is kept: their content is rarely needed again."""
        now = asyncio.get_running_loop().time()
        self._metrics.documents_read += len(refs)
        for snapshot in await self._store.read(refs):
            ref = snapshot.ref
            snapshots[ref] = snapshot
            if ref not in brief:
                self._cache.put(snapshot, now, approximate_size(snapshot.data))
            elif snapshot.version is not None:
                self._recent_writes.add((ref,))

    def remember(self, planned: Plan, sight: Sight, done: Committed, weight: int) -> None:
        """Cache the written documents; of those that were assumed absent, keep only their existence."""
        now = asyncio.get_running_loop().time()
        put, size = self._cache.put, weight // max(1, len(planned.writes))
        made: list[Ref] = []
        for write, version in zip(planned.writes, done.versions, strict=False):
            ref = write.ref
            if ref in sight.assumed:
                made.append(ref)
            elif isinstance(write, Put):
                put(Snapshot(ref, version, write.data), now, size)
        self._recent_writes.add(made)

    def forget(self, refs: Iterable[Ref]) -> None:
        """Drop these documents from the cache: another writer may have changed them."""
        self._cache.drop(refs)


def doubtful(tickets: Sequence[Ticket], results: Sequence[Result], sight: Sight) -> list[Ref]:
    """Documents that a verdict depends on and no commit will check: too old in the cache, or assumed absent.

    Stale and duplicate events write nothing, and neither do events that a view refused in the plan.
    """
    _, assumed, aged = sight
    # Not a set: its order, and so the order of reads, would differ between processes.
    found: dict[Ref, None] = {}
    for ticket, result in zip(tickets, results, strict=True):
        if len(result.faults) > len(ticket.item.faults) and ticket.item.letter is None:
            found.update((ref, None) for ref in ticket.refs if ref in aged or ref in assumed)
        elif aged and any(view.outcome in _IDLE for view in result.views):
            found.update((ref, None) for ref in ticket.refs if ref in aged)
    return list(found)
