"""Verifies: folds the event log from the beginning, and compares every document with the fold.

Never writes to the store: only the fold's scratch store is written. If the store has snapshots, the result is exact
beside live traffic. If it has none (Firestore), a document that differs is read again until its version stays the
same while the log is read to its end. Called by `millpond verify` and the demo.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Self

import msgspec

from millpond.core import timestamps
from millpond.core.collections import REBUILDS, RECEIPTS
from millpond.core.item import Target
from millpond.core.model import LogEntry, Outcome, Snapshot
from millpond.core.ports import StoreWithCatalog
from millpond.core.receipts import Receipts
from millpond.core.route import Router
from millpond.reprocess.fold import Advance, Fold, recorded_documents
from millpond.reprocess.report import Judge, Pair, Report, compare_all, side_by_side
from millpond.stores.sqlite.store import SqliteStore

_AT_ONCE = 500
_VIEWS_MAX = 1_000

Choose = Callable[[StoreWithCatalog], AsyncIterator[Pair]]


class Verifier:
    """Keeps its fold: each check folds only the entries added since the last one.

    A rebuild changes what the fold should be: after one, begin a new Verifier.
    """

    def __init__(self, store: StoreWithCatalog, fold: Fold, wall_clock: Callable[[], int]) -> None:
        self._store = store
        self._fold = fold
        self._wall_clock = wall_clock

    @classmethod
    async def begin(
        cls,
        store: StoreWithCatalog,
        router: Router,
        receipts: Receipts,
        scratch: SqliteStore,
        wall_clock: Callable[[], int],
    ) -> Self:
        scope = AsRecorded(_rebuilt_views(await store.list_documents(REBUILDS, _VIEWS_MAX, None)))
        return cls(store, Fold(router, receipts, scratch, scope, at_once=_AT_ONCE), wall_clock)

    async def check(self, advance: Advance = lambda _: None) -> Report:
        """Compare every document with the fold of the whole log."""
        return await self._at_one_moment(self._everything, advance)

    async def check_touched(self) -> Report:
        """Compare the documents of the entries added since the last check."""
        self._fold.touched = set()
        report = await self._at_one_moment(self._touched, lambda _: None)
        self._fold.touched = None
        return report

    async def _at_one_moment(self, choose: Choose, advance: Advance) -> Report:
        await self._fold.catch_up(self._store, advance)
        snapshot = await self._store.snapshot()
        if snapshot is None:
            return await self._compare(self._store, choose)
        try:
            # Fold the entries added during the first pass; the snapshot's log does not grow.
            await self._fold.catch_up(snapshot, advance)
            return await self._compare(snapshot, choose)
        finally:
            await snapshot.close()

    async def _compare(self, store: StoreWithCatalog, choose: Choose) -> Report:
        judge = Judge(store, self._fold, self._wall_clock(), self._fold.views.get)
        report = await compare_all(judge, choose(store), again=store is self._store)
        report.entries, report.unfolded = self._fold.entries, self._fold.unfolded
        return report

    async def _everything(self, store: StoreWithCatalog) -> AsyncIterator[Pair]:
        for collection in await self._collections():
            async for pair in side_by_side(store, self._fold.scratch, collection):
                yield pair

    async def _touched(self, store: StoreWithCatalog) -> AsyncIterator[Pair]:
        refs = sorted(ref for ref in self._fold.touched or () if ref.collection != RECEIPTS)
        stored, folded = await store.read(refs), await self._fold.scratch.read(refs)
        for mine, theirs in zip(stored, folded, strict=True):
            yield Pair(mine.ref, mine, theirs.data)

    async def _collections(self) -> list[str]:
        made = {name for name, _ in await self._fold.scratch.collections() if name != RECEIPTS}
        return sorted(made | self._fold.views.keys())


class AsRecorded:
    """Folds an event for the views that took it when it arrived, or were rebuilt since.

    A view that was added later, or a lateness limit that was changed, makes no stored document wrong. If a view was
    rebuilt since, its current rules hold for every event until then.
    """

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


def _rebuilt_views(marks: Iterable[Snapshot]) -> dict[str, int]:
    """View → time of its last rebuild, from the documents of `REBUILDS`."""
    return {
        mark.data["view"]: timestamps.from_datetime(mark.data["rebuiltAt"])
        for mark in marks
        if mark.data is not None
    }
