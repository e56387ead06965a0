"""Rebuilds one view: folds the event log into a shadow of its documents, reports the differences, and swaps.

The shadow is a scratch store, so live writes never reach it. Live traffic goes on throughout: a document is
replaced only on the version it had before the log was read to its end. If another writer was faster, the commit
conflicts and the document is read again, so nothing that arrived in between is lost. Never lowers a document that
the log did not decide, and never removes one. An interrupted swap starts again from the log. Called by `jobs` and
the CLI.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from millpond.concurrency import Pauses
from millpond.core import timestamps
from millpond.core.collections import REBUILDS, RECEIPTS
from millpond.core.document import is_expired
from millpond.core.errors import Unavailable
from millpond.core.ids import encode_id
from millpond.core.item import Target
from millpond.core.model import Conflict, Document, LogEntry, Put, Ref, Snapshot, Write
from millpond.core.ports import StoreWithCatalog
from millpond.core.stored_stamps import is_stamped
from millpond.core.view import REPLACE, Merge, View
from millpond.engine.bulk_rate import EXHAUSTED, OPERATIONS_PER_DOCUMENT
from millpond.engine.engine import Engine
from millpond.engine.pace import Pace, take_turn
from millpond.reprocess.diff import Difference, unheld_fields
from millpond.reprocess.fold import Advance, Fold, open_scratch, patiently
from millpond.reprocess.report import Judge, Pair, Report, compare_all, side_by_side
from millpond.stores.update import Budget, Decided, update

T = TypeVar("T")
_PAGE = 100
# How often one document is tried while another instance keeps changing it.
_TRIES_MAX = 100
_BUDGET = Budget(tries=_TRIES_MAX, after_conflict=Pauses(0.001, 0.02))
_ROUNDS_MAX = 100
# How long a store may refuse every page, each smaller than the one before, until the rebuild gives up.
_EXHAUSTED_S_MAX = 600.0


class _Exhausted(Exception):
    """The store refused a page, because it is given too much now: try again in smaller pages."""


class RebuildRun:
    """The rebuild of one view: `fold`, and then `swap`, or not."""

    def __init__(
        self,
        engine: Engine,
        store: StoreWithCatalog,
        view: View,
        fold: Fold,
        *,
        others_settle_s: float,
        pace: Pace | None,
    ) -> None:
        """`others_settle_s`: how long other instances may still act on an older read of a document."""
        self.view = view
        self._engine = engine
        self._store = store
        self._fold = fold
        self._judge = Judge(store, fold, engine.wall_clock(), lambda _: view)
        self._others_settle_s = others_settle_s
        self.pace = pace
        # When the store refused a page and took none since; None if it took the last one.
        self._exhausted_at: float | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        engine: Engine,
        store: StoreWithCatalog,
        view: View,
        *,
        others_settle_s: float,
        pace: Pace | None = None,
    ) -> AsyncIterator[RebuildRun]:
        """`engine` is the engine that processes this process's live traffic on the store."""
        async with open_scratch() as scratch:
            fold = Fold(engine.router, engine.rules.receipts, scratch, OneView(view.name))
            yield cls(engine, store, view, fold, others_settle_s=others_settle_s, pace=pace)

    @property
    def entries(self) -> int:
        return self._fold.entries

    async def fold(self, advance: Advance = lambda _: None) -> Report:
        """Fold the log into the shadow and compare it with the documents."""
        await self._fold.catch_up(self._store, advance)
        # Live traffic may have changed documents after the fold or the listing: compare those again.
        report = await compare_all(self._judge, self._everything(), again=True)
        report.entries, report.unfolded = self._fold.entries, self._fold.unfolded
        return report

    async def swap(self, advance: Advance = lambda _: None) -> int:
        """Replace the documents that differ with the shadow's. Returns how many were written."""
        self._fold.touched = set()
        await self._fold.catch_up(self._store)
        written = 0
        async for page in self._pages(RECEIPTS):
            await self._adopt_receipts(page)
        for collection in self._collections():
            async for page in self._pages(collection):
                swapped = await self._swap_all([found.ref for found in page])
                written += swapped
                advance(swapped)
        for _ in range(_ROUNDS_MAX):
            # Messages that arrived meanwhile were planned on the old document, here or by another instance.
            await asyncio.sleep(self._others_settle_s)
            await self._fold.catch_up(self._store)
            touched, self._fold.touched = self._fold.touched, set()
            again = await self._swap_touched(touched)
            written += again
            if not again:
                break
        else:
            raise _restless(self.view.name)
        await self._mark()
        return written

    async def _everything(self) -> AsyncIterator[Pair]:
        for collection in self._collections():
            async for pair in side_by_side(self._store, self._fold.scratch, collection):
                yield pair

    def _collections(self) -> list[str]:
        """The collections of this view's documents; some are known only from the folded events."""
        return sorted(name for name, view in self._fold.views.items() if view is self.view)

    async def _swap_touched(self, touched: Iterable[Ref]) -> int:
        """Receipts first: without its receipt, an event that the document has counted might be counted twice."""
        refs = sorted(touched)
        receipts = [ref for ref in refs if ref.collection == RECEIPTS]
        await self._adopt_receipts(await self._fold.scratch.read(receipts))
        return await self._swap_all([ref for ref in refs if ref.collection != RECEIPTS])

    async def _swap_all(self, refs: Sequence[Ref]) -> int:
        written = 0
        tries: Counter[Ref] = Counter()
        waiting = deque(self._paced(refs))
        while waiting:
            page = waiting.popleft()
            try:
                swapped = await self._in_turn(len(page), partial(self._swap, page))
            except _Exhausted:
                waiting.extendleft(reversed(list(self._paced(page))))
                continue
            if swapped is not None:
                written += swapped
                continue
            tries.update(page)
            if max(tries[ref] for ref in page) > _TRIES_MAX:
                raise _restless(page[0].path)
            # Halved, so that one document that another instance keeps changing does not delay the others.
            middle = (len(page) + 1) // 2
            waiting += (half for half in (page[:middle], page[middle:]) if half)
        return written

    async def _swap(self, refs: Sequence[Ref]) -> int | None:
        """How many were replaced; None if another instance changed one of them meanwhile.

        Repeatable: what an earlier try has replaced no longer differs.
        """
        # Before the reservation makes messages of these documents wait: then little is left to read during it.
        await self._fold.catch_up(self._store)
        async with self._engine.reserve(refs) as reservation:
            stored = await patiently(lambda: self._store.read(refs))
            await self._fold.catch_up(self._store)
            folded = await self._fold.scratch.read(refs)
            puts = []
            for mine, theirs in zip(stored, folded, strict=True):
                verdict = await self._judge.judge(Pair(mine.ref, mine, theirs.data))
                if isinstance(verdict, Difference) and theirs.data is not None:
                    puts.append(Put(mine.ref, mine.version, self._replacement(mine.data, theirs.data)))
            try:
                if puts and isinstance(await self._store.commit(puts), Conflict):
                    return None
            finally:
                reservation.forget([put.ref for put in puts])
        return len(puts)

    def _replacement(self, stored: Document | None, folded: Document) -> Document:
        """The fold, plus the fields of a merged document that no event gave."""
        if stored is None or not isinstance(self.view, Merge):
            return folded
        others = unheld_fields(stored) - folded.keys()
        if not is_stamped(stored) and self.view.existing != REPLACE:
            # Adopted: its fields are older than every event.
            others = stored.keys() - folded.keys() - {"source"}
        return {**{name: stored[name] for name in others}, **folded}

    def _paced(self, page: Sequence[T]) -> Iterator[Sequence[T]]:
        """The page, in parts that one commit may write now."""
        at = 0
        while at < len(page):
            part = page[at : at + (_PAGE if self.pace is None else self.pace.page(_PAGE))]
            at += len(part)
            yield part

    async def _in_turn(self, documents: int, work: Callable[[], Awaitable[T]]) -> T:
        """Do what reads and writes so many documents, when its turn comes: before it makes live messages wait.

        Raises _Exhausted if the store has no room for so many now.
        """
        async with take_turn(self.pace, OPERATIONS_PER_DOCUMENT * documents):
            try:
                done = await patiently(work, unless=None if self.pace is None else EXHAUSTED)
            except Unavailable as error:
                now = asyncio.get_running_loop().time()
                self._exhausted_at = now if self._exhausted_at is None else self._exhausted_at
                if self.pace is None or error.code != EXHAUSTED or now - self._exhausted_at > _EXHAUSTED_S_MAX:
                    raise
                raise _Exhausted from error
        self._exhausted_at = None
        return done

    async def _adopt_receipts(self, receipts: Sequence[Snapshot]) -> None:
        """Record in the receipts that this tally has counted every folded event; else it could count one again."""
        waiting = deque(self._paced(receipts))
        while waiting:
            page = waiting.popleft()
            try:
                await self._in_turn(len(page), partial(self._adopt_page, page))
            except _Exhausted:
                waiting.extendleft(reversed(list(self._paced(page))))

    async def _adopt_page(self, page: Sequence[Snapshot]) -> None:
        now = self._engine.wall_clock()
        waiting = [found for found in page if found.data is not None and not is_expired(found.data, now)]

        def decide(live: Sequence[Snapshot]) -> Decided[None]:
            puts = [
                Put(mine.ref, mine.version, receipt)
                for mine, theirs in zip(live, waiting, strict=True)
                if (receipt := _with_entry(mine.data, theirs.data or {}, self.view.name)) is not None
            ]
            return Decided(None, puts)

        def forget(writes: Sequence[Write]) -> None:
            self._engine.forget([write.ref for write in writes])

        refs = [found.ref for found in waiting]
        if await update(self._store, refs, decide, _BUDGET, after_commit=forget) is not None:
            raise _restless(RECEIPTS)

    async def _mark(self) -> None:
        """Store that the view's current rules hold for every event until now; `verify` uses it."""
        ref = Ref(REBUILDS, encode_id(self.view.name))
        mark = {"view": self.view.name, "rebuiltAt": timestamps.to_datetime(self._engine.wall_clock())}

        def decide(found: Sequence[Snapshot]) -> Decided[None]:
            return Decided(None, [Put(ref, found[0].version, mark)])

        if await update(self._store, [ref], decide, _BUDGET) is not None:
            raise _restless(ref.path)

    async def _pages(self, collection: str) -> AsyncIterator[list[Snapshot]]:
        after: str | None = None
        while page := await self._fold.scratch.list_documents(collection, _PAGE, after):
            yield page
            after = page[-1].ref.id


def _restless(what: str) -> Unavailable:
    return Unavailable(f"{what} kept changing: rebuild again when there is less traffic")


def _with_entry(live: Document | None, shadow: Document, view: str) -> Document | None:
    """The receipt with this view's entry; None if it has one already."""
    if live is None:
        return shadow
    views = live.get("views")
    if not isinstance(views, dict) or view in views:
        return None
    return {**live, "views": {**views, view: shadow["views"][view]}}


class OneView:
    """Folds every event for one view, by its current rules, whatever was recorded."""

    may_reject = True

    def __init__(self, name: str) -> None:
        self._names = frozenset({name})

    def views(self, entry: LogEntry) -> frozenset[str]:  # noqa: ARG002
        return self._names

    def place(self, entry: LogEntry, target: Target) -> Target | None:  # noqa: ARG002
        return target if target.settled is None else None

    def is_rebuilt(self, entry: LogEntry, view: str) -> bool:  # noqa: ARG002
        return True
