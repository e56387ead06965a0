"""verify: fold the event log again, from nothing, and compare every document with the fold.

Nothing is written but the scratch store of the fold. Where the store can be looked at as of one moment, the result
is exact beside live traffic; where it cannot (Firestore), a document that seems wrong is looked at again, until its
version stood still while the log was read to its end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Self

from millpond.core.collections import REBUILDS, RECEIPTS
from millpond.core.ports import StoreWithCatalog
from millpond.core.receipts import Receipts
from millpond.core.route import Router
from millpond.reprocess.fold import Advance, Fold
from millpond.reprocess.report import Judge, Pair, Report, compare_all, side_by_side
from millpond.reprocess.scope import AsRecorded, rebuilt_views
from millpond.stores.sqlite.store import SqliteStore

_AT_ONCE = 500
_VIEWS_MAX = 1_000

Choose = Callable[[StoreWithCatalog], AsyncIterator[Pair]]


class Verifier:
    """A fold that is kept: each check folds only what has come since the last.

    A rebuild in between changes what the fold has to be; whoever keeps one begins anew after it.
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
        scope = AsRecorded(rebuilt_views(await store.list_documents(REBUILDS, _VIEWS_MAX, None)))
        return cls(store, Fold(router, receipts, scratch, scope, at_once=_AT_ONCE), wall_clock)

    async def check(self, advance: Advance = lambda _: None) -> Report:
        """Compare every document with the fold of the whole log."""
        return await self._at_one_moment(self._everything, advance)

    async def check_touched(self) -> Report:
        """Compare the documents of what has come since the last check."""
        self._fold.touched = set()
        report = await self._at_one_moment(self._touched, lambda _: None)
        self._fold.touched = None
        return report

    async def _at_one_moment(self, choose: Choose, advance: Advance) -> Report:
        await self._fold.catch_up(self._store, advance)
        still = await self._store.snapshot()
        if still is None:
            return await self._compare(self._store, choose)
        try:
            # What came while the rest was folded, and then nothing more.
            await self._fold.catch_up(still, advance)
            return await self._compare(still, choose)
        finally:
            await still.close()

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
