"""rebuild: fold the event log into a shadow of one view's documents, show the differences, and swap.

Live traffic goes on throughout. A document is replaced only under the version it had before the log was read to its
end: so nothing that arrived in between is lost, and whoever was quicker makes us look again. Documents that the log
did not decide are never lowered and none is ever removed. A swap that was interrupted is begun again from the log.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from millpond import timestamps
from millpond.engine import Engine
from millpond.errors import Unavailable
from millpond.ids import encode_id
from millpond.model import Conflict, Delete, Document, Put, Ref, Snapshot
from millpond.ports import StoreWithCatalog
from millpond.refold.compare import Difference, Kind
from millpond.refold.comparison import Judge, Pair, Report, Verdict, side_by_side
from millpond.refold.fold import Advance, Fold
from millpond.refold.scope import REBUILDS, SHADOW, OneView, shadow_of
from millpond.route import RECEIPT_COLLECTION
from millpond.view import Tally, View

_PAGE = 100
# How often one document is tried that live traffic keeps changing.
_TRIES_MAX = 100
_ROUNDS_MAX = 100
# Longer than any instance decides from what it remembers of a document.
_CACHES_S = 1.5
NO_EVENT = "no event in the log makes it now: it stays as it is"


class Rebuild:
    """The rebuild of one view: `fold`, then `swap` or not, then `clear`."""

    def __init__(self, engine: Engine, store: StoreWithCatalog, view: View) -> None:
        """The engine is the one that live traffic on this store goes through in this process."""
        self.view = view
        self._engine = engine
        self._store = store
        self._fold = Fold(engine.router, engine.rules.receipts, store, OneView(view.name))
        self._judge = Judge(store, self._fold, store, engine.wall_clock(), view_of=lambda _: view, place=shadow_of)

    @property
    def entries(self) -> int:
        return self._fold.entries

    async def fold(self, advance: Advance = lambda _: None) -> Report:
        """Fold the log into the shadow and compare it with the documents."""
        await self.clear()
        await self._fold.catch_up(self._store, advance)
        report = Report()
        for collection in self._collections():
            async for pair in side_by_side(self._store, collection, self._store, SHADOW + collection):
                verdict = await self._judge.judge(pair)
                if isinstance(verdict, Difference):
                    # Live traffic may have been quicker than the fold, or the listing.
                    pair, verdict = await self._judge.look_again(pair.ref)  # noqa: PLW2901
                report.add(pair, _without_extra(verdict))
        report.entries, report.unfolded = self._fold.entries, self._fold.unfolded
        return report

    async def swap(self, advance: Advance = lambda _: None) -> int:
        """Put what the shadow holds in the place of what differs; how many documents were written."""
        self._fold.touched = set()
        if isinstance(self.view, Tally):
            await self._adopt_receipts()
        written = 0
        for collection in self._collections():
            async for page in self._pages(SHADOW + collection):
                written += await self._swap_all([_original(found.ref) for found in page])
                advance(len(page))
        for _ in range(_ROUNDS_MAX):
            # What arrived meanwhile was judged beside the old document, here or by an instance that remembers it.
            await asyncio.sleep(_CACHES_S)
            await self._fold.catch_up(self._store)
            touched, self._fold.touched = self._fold.touched, set()
            again = await self._swap_all([_original(ref) for ref in touched])
            written += again
            if not again:
                break
        else:
            raise Unavailable(
                f"documents of {self.view.name} kept changing: rebuild again when there is less traffic"
            )
        await self._mark()
        return written

    async def clear(self) -> None:
        """Remove the shadow, also one that an interrupted rebuild left."""
        made = {collection for collection, _ in await self._store.collections()}
        for collection in sorted(made | self._fold.views.keys()):
            if collection.startswith(SHADOW):
                async for page in self._pages(collection):
                    await self._store.commit(
                        [Delete(found.ref, found.version) for found in page if found.version is not None]
                    )

    def _collections(self) -> list[str]:
        """The collections of this view's documents."""
        made = (name.removeprefix(SHADOW) for name in self._fold.views if name.startswith(SHADOW))
        return sorted({*made, *([self.view.collection] if self.view.collection else [])})

    async def _swap_all(self, refs: Sequence[Ref]) -> int:
        written, tries = 0, 0
        waiting = deque(refs[at : at + _PAGE] for at in range(0, len(refs), _PAGE))
        while waiting:
            page = waiting.popleft()
            swapped = await self._swap(page)
            if swapped is not None:
                written += swapped
            elif len(page) > 1:
                # Halved, so that one document another instance keeps changing does not hold up the others.
                middle = len(page) // 2
                waiting += (page[:middle], page[middle:])
            elif (tries := tries + 1) > _TRIES_MAX:
                raise Unavailable(f"{page[0].path} kept changing: rebuild again when there is less traffic")
            else:
                waiting.append(page)
        return written

    async def _swap(self, refs: Sequence[Ref]) -> int | None:
        """How many were replaced; None where another instance changed one of them meanwhile."""
        async with self._engine.reserve(refs):
            stored = await self._store.read(refs)
            await self._fold.catch_up(self._store)
            folded = await self._store.read([shadow_of(ref) for ref in refs])
            puts = []
            for mine, theirs in zip(stored, folded, strict=True):
                verdict = await self._judge.judge(Pair(mine.ref, mine, theirs.data))
                if isinstance(verdict, Difference) and theirs.data is not None:
                    puts.append(Put(mine.ref, mine.version, theirs.data))
            if puts and isinstance(await self._store.commit(puts), Conflict):
                return None
            self._engine.forget([put.ref for put in puts])
        return len(puts)

    async def _adopt_receipts(self) -> None:
        """Let receipts say of every event that was folded that this tally has had it: else it could count again."""
        name = self.view.name
        async for page in self._pages(SHADOW + RECEIPT_COLLECTION):
            for found in page:
                entry = (found.data or {})["views"][name]
                for _ in range(_TRIES_MAX):
                    (live,) = await self._store.read([_original(found.ref)])
                    receipt = _with_entry(live.data, found.data or {}, name, entry)
                    if receipt is None or not isinstance(
                        await self._store.commit([Put(live.ref, live.version, receipt)]), Conflict
                    ):
                        self._engine.forget([live.ref])
                        break
                else:
                    raise Unavailable(f"the receipt {found.ref.id} kept changing: rebuild again")

    async def _mark(self) -> None:
        """Remember that the view's rules of today held for everything until now: `verify` goes by it."""
        ref = Ref(REBUILDS, encode_id(self.view.name))
        now = timestamps.to_datetime(self._engine.wall_clock())
        for _ in range(_TRIES_MAX):
            (found,) = await self._store.read([ref])
            mark = Put(ref, found.version, {"view": self.view.name, "rebuiltAt": now})
            if not isinstance(await self._store.commit([mark]), Conflict):
                return
        raise Unavailable(f"{ref.path} kept changing: rebuild again")

    async def _pages(self, collection: str) -> AsyncIterator[list[Snapshot]]:
        after: str | None = None
        while page := await self._store.list_documents(collection, _PAGE, after):
            yield page
            after = page[-1].ref.id


def _without_extra(verdict: Verdict) -> Verdict:
    return NO_EVENT if isinstance(verdict, Difference) and verdict.kind is Kind.EXTRA else verdict


def _original(shadow: Ref) -> Ref:
    return Ref(shadow.collection.removeprefix(SHADOW), shadow.id)


def _with_entry(live: Document | None, shadow: Document, view: str, entry: Document) -> Document | None:
    """The receipt with this view's entry; None where it says as much already."""
    if live is None:
        return shadow
    views = live.get("views")
    if not isinstance(views, dict) or view in views:
        return None
    return {**live, "views": {**views, view: entry}}
