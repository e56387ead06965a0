"""Every document of some collections beside the fold's, and which of them differ, are new, or cannot be judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from typing import NamedTuple

import msgspec

from millpond.model import Document, Ref, Snapshot
from millpond.ports import Catalog, Store, StoreWithCatalog
from millpond.refold.compare import Difference, Kind, compare, deciding_stamps, is_expired
from millpond.refold.fold import Fold
from millpond.stamp import StampParts
from millpond.view import Tally, View

_PAGE = 200
_LOOKS_MAX = 10
# Kept and shown; all of them are counted.
LISTED_MAX = 1_000
NOT_IN_LOG = "the event that decided it is not in the log"
LOG_INCOMPLETE = "part of the log has been deleted, so more may have been counted than it says"
RESTLESS = "it kept changing while it was looked at"


# How a document differs, why that cannot be told, or None where it is equal, or has expired and may go.
Verdict = Difference | str | None


class Report(msgspec.Struct):
    """What a comparison found. `uncheckable` counts by reason."""

    documents: int = 0
    equal: int = 0
    differences: Counter[str] = msgspec.field(default_factory=Counter)
    listed: list[Difference] = msgspec.field(default_factory=list)
    uncheckable: Counter[str] = msgspec.field(default_factory=Counter)
    uncheckable_docs: list[str] = msgspec.field(default_factory=list)
    # Of the fold: how much of the log went into it, and how much of that could not be folded.
    entries: int = 0
    unfolded: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, pair: Pair, verdict: Verdict) -> None:
        there = pair.stored.data is not None
        self.documents += there
        if verdict is None:
            self.equal += there
        elif isinstance(verdict, str):
            self.uncheckable[verdict] += 1
            if len(self.uncheckable_docs) < LISTED_MAX:
                self.uncheckable_docs.append(pair.ref.path)
        else:
            self.differences[verdict.kind] += 1
            if len(self.listed) < LISTED_MAX:
                self.listed.append(verdict)


class Pair(NamedTuple):
    """A document as it is stored, and as the fold has it."""

    ref: Ref
    stored: Snapshot
    folded: Document | None


class Judge:
    """Says of one document whether it is as it should be. Asks the store only about what is not."""

    def __init__(
        self,
        store: StoreWithCatalog,
        fold: Fold,
        folds: Store,
        now: int,
        *,
        view_of: Callable[[str], View | None],
        place: Callable[[Ref], Ref] = lambda ref: ref,
    ) -> None:
        """`folds` holds what was folded, each document at its `place`; `view_of` tells a collection's view."""
        self._store = store
        self._fold = fold
        self._folds = folds
        self._view_of = view_of
        self._place = place
        self._now = now
        self._whole: bool | None = None

    async def judge(self, pair: Pair) -> Verdict:
        view = self._view_of(pair.ref.collection)
        stored = pair.stored.data
        found = compare(view, pair.ref.path, stored, pair.folded)
        if found is None or is_expired(pair.folded or stored, self._now):
            return None
        unsure = self._fold.unsure.get(pair.ref.path)
        if unsure is not None:
            return unsure
        if isinstance(view, Tally) and not await self._log_is_whole():
            return LOG_INCOMPLETE
        if stored is None or found.kind is Kind.BEHIND:
            return found
        return found if await self._log_holds(deciding_stamps(view, stored)) else NOT_IN_LOG

    async def look_again(self, ref: Ref) -> tuple[Pair, Verdict]:
        """The verdict on a document that did not change while the log was read to its end."""
        for _ in range(_LOOKS_MAX):
            (before,) = await self._store.read([ref])
            await self._fold.catch_up(self._store)
            (folded,) = await self._folds.read([self._place(ref)])
            (after,) = await self._store.read([ref])
            pair = Pair(ref, after, folded.data)
            if before.version == after.version:
                return pair, await self.judge(pair)
        return pair, RESTLESS

    async def _log_holds(self, stamps: Iterable[StampParts]) -> bool:
        """Whether the log holds every event that gave the document something.

        It keeps a message id once, so of a copy that was published again under the same id it knows nothing.
        """
        known = [
            any(
                entry.delivery.publish_time == stamp.publish_time
                for entry in await self._store.find_events(stamp.message_id)
            )
            for stamp in stamps
        ]
        return bool(known) and all(known)

    async def _log_is_whole(self) -> bool:
        if self._whole is None:
            self._whole = await self._store.log_is_whole()
        return self._whole


async def side_by_side(
    store: Catalog, collection: str, folds: Catalog, fold_collection: str
) -> AsyncIterator[Pair]:
    """Every document that is in either, by id."""
    stored = _Walk(store, collection)
    folded = _Walk(folds, fold_collection)
    mine, theirs = await stored.following(), await folded.following()
    while mine is not None or theirs is not None:
        first = min(found.ref.id for found in (mine, theirs) if found is not None)
        ref = Ref(collection, first)
        here = mine if mine is not None and mine.ref.id == first else None
        there = theirs if theirs is not None and theirs.ref.id == first else None
        yield Pair(ref, here or Snapshot(ref, None, None), there.data if there is not None else None)
        if here is not None:
            mine = await stored.following()
        if there is not None:
            theirs = await folded.following()


class _Walk:
    """One collection, page by page."""

    def __init__(self, catalog: Catalog, collection: str) -> None:
        self._catalog = catalog
        self._collection = collection
        self._page: list[Snapshot] = []
        self._at = 0
        self._after: str | None = None
        self._ended = False

    async def following(self) -> Snapshot | None:
        if self._at == len(self._page) and not self._ended:
            self._page = await self._catalog.list_documents(self._collection, _PAGE, self._after)
            self._at, self._ended = 0, len(self._page) < _PAGE
            if self._page:
                self._after = self._page[-1].ref.id
        if self._at == len(self._page):
            return None
        self._at += 1
        return self._page[self._at - 1]
