"""The snapshots for a plan: from the cache, assumed absent, or read from the store. Called by the committer.

A wrong snapshot is safe if the plan writes: the store checks the commit's preconditions. A plan that writes nothing
has no such check, so the documents it depends on are read first (`doubtful`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from millpond.core.document import approximate_size
from millpond.core.model import Committed, Outcome, Put, Ref, Result, Snapshot, Version
from millpond.core.plan import Plan
from millpond.core.ports import Store
from millpond.engine.cache import BYTES_MAX, TRUSTED_FOR_S, RecentWrites, SnapshotCache
from millpond.engine.contention import CONTENDED_WITHIN_S, OtherWriters
from millpond.engine.ticket import Batch, Ticket
from millpond.telemetry.metrics import Metrics

_CONTENDING = 0.05
_ABSENT = Snapshot(Ref("", ""), None, None)
_IDLE = frozenset({Outcome.STALE, Outcome.DUPLICATE})


class Sight(NamedTuple):
    """The documents that a plan uses, and how certain each snapshot is."""

    snapshots: dict[Ref, Snapshot]
    # Assumed absent without a read; only the commit checks it.
    assumed: set[Ref]
    # From the cache, and too old to justify a verdict without a write.
    aged: set[Ref]
    # Read for this plan, or a moment before: no cached snapshot was trusted for them.
    fresh: set[Ref]
    # How many commits of other writers a read of cached documents has shown, at least.
    others_seen: int = 0
    # How many documents were in the cache, whether they were read again or not. Counted only while others write.
    cached: int = 0


class FreshRead(NamedTuple):
    """What the store answered, and when it was asked."""

    snapshots: Sequence[Snapshot]
    at: float


class ChangedByOthers(NamedTuple):
    """What a refused commit was about, as far as it is known."""

    changed: frozenset[Ref] = frozenset()
    # Of them, those that others changed shortly after this instance last knew them.
    contended: frozenset[Ref] = frozenset()
    # How many commits of others made the changes, at least.
    others_seen: int = 0


class SnapshotReader:
    def __init__(self, store: Store, metrics: Metrics, cache_entries_max: int, others: OtherWriters) -> None:
        self._store = store
        self._metrics = metrics
        self._others = others
        self._cache = SnapshotCache(cache_entries_max, BYTES_MAX)
        self._recent_writes = RecentWrites(cache_entries_max)

    async def look(self, batch: Batch) -> Sight:
        """The snapshots that the batch needs. Cached ones are read too if others have probably changed them."""
        distrusted: dict[Ref, float] = {}
        if not batch.just_read and (batch.lane is not None or self._others.changed_share > 0):
            sight, missing, brief = self._collect(batch.tickets, distrusted)
        else:
            sight, missing, brief = self._collect(batch.tickets, None)
        if batch.lane is not None:
            # They were read along with the turn that was lost just now.
            for ref in batch.lane.fresh:
                distrusted.pop(ref, None)
        if distrusted and (missing or batch.lane is not None or self._others.distrusts(len(distrusted))):
            return await self._look_again(distrusted, missing, sight, brief)
        if missing:
            await self._read(missing, sight.snapshots, brief)
        sight.fresh.update(sight.snapshots if batch.just_read else missing)
        return sight._replace(cached=len(distrusted)) if distrusted else sight

    def _collect(
        self, tickets: Sequence[Ticket], cached_at: dict[Ref, float] | None
    ) -> tuple[Sight, list[Ref], set[Ref]]:
        """What is known without a read, what must be read, and of which only the existence is kept.

        `cached_at` is filled with the documents from the cache, and since when they are there.
        """
        sight = Sight({}, set(), set(), set())
        snapshots, assumed, aged, *_ = sight
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
                    entry = cached(ref) if cacheable else None
                    if entry is not None:
                        snapshots[ref] = entry[0]
                        if entry[1] < trusted_from:
                            aged.add(ref)
                        if cached_at is not None:
                            cached_at[ref] = entry[1]
                        continue
                    snapshots[ref] = _ABSENT
                    if must_read:
                        missing.append(ref)
                    elif ticket.reads_all or ref in recent:
                        missing.append(ref)
                        brief.add(ref)
                    else:
                        assumed.add(ref)
        return sight, missing, brief

    async def _look_again(
        self, distrusted: dict[Ref, float], missing: Sequence[Ref], sight: Sight, brief: Container[Ref]
    ) -> Sight:
        """Read cached documents together with the missing ones, and learn what others have changed."""
        now = asyncio.get_running_loop().time()
        versions = {ref: sight.snapshots[ref].version for ref in distrusted}
        await self._read([*distrusted, *missing], sight.snapshots, brief)
        sight.aged.difference_update(distrusted)
        changed = {ref: found for ref in distrusted if (found := sight.snapshots[ref].version) != versions[ref]}
        self._others.compared(len(distrusted), len(changed))
        self._others.contend((ref for ref in changed if now - distrusted[ref] < CONTENDED_WITHIN_S), now)
        sight.fresh.update(distrusted, missing)
        return sight._replace(others_seen=_count_commits(changed.values(), len(distrusted)), cached=len(distrusted))

    async def read_again(self, refs: Iterable[Ref]) -> FreshRead:
        """Read documents, and keep nothing: a commit on the way may make them out of date."""
        at, wanted = asyncio.get_running_loop().time(), list(refs)
        self._metrics.documents_read += len(wanted)
        return FreshRead(await self._store.read(wanted), at)

    def compare(
        self, reading: FreshRead, versions: Mapping[Ref, Version | None], fresh: Container[Ref]
    ) -> ChangedByOthers:
        """Keep what was read after a refused commit that was based on these versions, and learn what has changed.

        `fresh` documents were read for that commit; the others were cached.
        """
        found: dict[Ref, Version | None] = {}
        contended: list[Ref] = []
        for snapshot in reading.snapshots:
            ref = snapshot.ref
            if snapshot.version != versions[ref]:
                found[ref] = snapshot.version
                known = self._cache.get(ref)
                if ref in fresh or (known is not None and reading.at - known[1] < CONTENDED_WITHIN_S):
                    contended.append(ref)
            self._cache.put(snapshot, reading.at, approximate_size(snapshot.data))
        self._others.contend(contended, reading.at)
        return ChangedByOthers(
            frozenset(found), frozenset(contended), _count_commits(found.values(), len(versions))
        )

    async def check(self, refs: Sequence[Ref], sight: Sight) -> None:
        """Read the documents that a verdict without a write depends on."""
        self._metrics.verdicts_checked += 1
        await self._read(refs, sight.snapshots)
        sight.aged.difference_update(refs)
        sight.assumed.difference_update(refs)
        sight.fresh.update(refs)

    async def _read(self, refs: Sequence[Ref], snapshots: dict[Ref, Snapshot], brief: Container[Ref] = ()) -> None:
        """Read and cache. Of `brief` ones only the existence is kept: their content is rarely needed again."""
        reading = await self.read_again(refs)
        for snapshot in reading.snapshots:
            ref = snapshot.ref
            snapshots[ref] = snapshot
            if ref not in brief:
                self._cache.put(snapshot, reading.at, approximate_size(snapshot.data))
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


def _count_commits(versions: Iterable[Version | None], documents: int) -> int:
    """How many commits of others made these versions: documents of one commit have the same version.

    Only commits that contend with this batch count: those that wrote a twentieth of its documents.
    """
    least = documents * _CONTENDING
    return sum(n >= least for n in Counter(versions).values())


def doubtful(tickets: Sequence[Ticket], results: Sequence[Result], sight: Sight) -> list[Ref]:
    """Documents that a verdict depends on and no commit will check: too old in the cache, or assumed absent.

    Stale and duplicate events write nothing, and neither do events that a view refused in the plan.
    """
    _, assumed, aged, *_ = sight
    # Not a set: its order, and so the order of reads, would differ between processes.
    found: dict[Ref, None] = {}
    for ticket, result in zip(tickets, results, strict=True):
        if len(result.faults) > len(ticket.item.faults) and ticket.item.letter is None:
            found.update((ref, None) for ref in ticket.refs if ref in aged or ref in assumed)
        elif aged and any(view.outcome in _IDLE for view in result.views):
            found.update((ref, None) for ref in ticket.refs if ref in aged)
    return list(found)
