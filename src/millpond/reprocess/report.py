"""Compares every document of some collections with the fold: which differ, are new, or are not checkable.

Reads the store only, and never writes to it. Called by `verify` and `rebuild`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import msgspec

from millpond.core.document import is_expired
from millpond.core.errors import UnownedDocument, ViewError
from millpond.core.model import Document, LogEntry, Ref, Snapshot
from millpond.core.ports import Catalog, StoreWithCatalog
from millpond.core.stored_stamps import is_stamped, owned
from millpond.core.view import REPLACE, Tally, View
from millpond.reprocess.diff import Difference, DifferenceKind, compare, counted_events, deciding_stamps
from millpond.reprocess.fold import Fold, is_settled

_PAGE = 200
_LOOKS_MAX = 10
# Kept and shown; all of them are counted.
LISTED_MAX = 1_000
NOT_IN_LOG = "the event that decided it is not in the log"
BEFORE_THE_VIEW = "its event came into the log before this view took it into account: rebuild the view"
COUNTED_MORE = "it has counted events that are not in the log"
NO_EVENT = "no event in the log makes it any more: it stays as it is"
NOT_OURS = "another program wrote it, and its view does not adopt it: it stays as it is"
RESTLESS = "it kept changing while it was looked at"


# The difference; or why the document is not checkable; or None if it is equal, or has expired.
Verdict = Difference | str | None


class Report(msgspec.Struct):
    """What a comparison found. `uncheckable` counts by reason."""

    documents: int = 0
    equal: int = 0
    differences: Counter[str] = msgspec.field(default_factory=Counter)
    listed: list[Difference] = msgspec.field(default_factory=list)
    uncheckable: Counter[str] = msgspec.field(default_factory=Counter)
    uncheckable_docs: list[str] = msgspec.field(default_factory=list)
    # Of the fold: entries read, and reason → entries that could not be folded.
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
    """Judges one document at a time. Reads the log again only for documents that differ."""

    def __init__(
        self, store: StoreWithCatalog, fold: Fold, now: int, view_of: Callable[[str], View | None]
    ) -> None:
        """`view_of` returns a collection's view."""
        self._store = store
        self._fold = fold
        self._now = now
        self._view_of = view_of

    async def judge(self, pair: Pair) -> Verdict:
        view = self._view_of(pair.ref.collection)
        stored = None if view is not None and _is_replaced(view, pair) else pair.stored.data
        found = compare(view, pair.ref.path, stored, pair.folded)
        if found is None or is_expired(pair.folded or stored, self._now):
            return None
        unsure = self._fold.unsure.get(pair.ref.path)
        if unsure is not None:
            return unsure
        if view is not None and _is_unowned(view, pair):
            return NOT_OURS
        if isinstance(view, Tally):
            return _judge_tally(found, stored, pair.folded)
        if stored is None or view is None or found.kind is DifferenceKind.BEHIND:
            return found
        return await self._ask_the_log(view, found, pair)

    async def look_again(self, refs: Sequence[Ref]) -> AsyncIterator[tuple[Pair, Verdict]]:
        """Read and judge these again, until each kept its version while the log was read to its end."""
        for _ in range(_LOOKS_MAX):
            before = await self._store.read(refs)
            await self._fold.catch_up(self._store)
            folded = await self._fold.scratch.read(refs)
            after = await self._store.read(refs)
            restless: list[Pair] = []
            for old, theirs, new in zip(before, folded, after, strict=True):
                pair = Pair(new.ref, new, theirs.data)
                if old.version == new.version:
                    yield pair, await self.judge(pair)
                else:
                    restless.append(pair)
            refs = [pair.ref for pair in restless]
            if not refs:
                return
        for pair in restless:
            yield pair, RESTLESS

    async def _ask_the_log(self, view: View, found: Difference, pair: Pair) -> Verdict:
        """The difference, if the log holds every event that the document's stamps name, and all are folded."""
        assert pair.stored.data is not None  # noqa: S101 - a missing document is judged before
        scope = self._fold.scope
        deciding: list[LogEntry] = []
        for stamp in deciding_stamps(view, pair.stored.data):
            # The log keeps a message id once: a copy published again under the same id has no entry.
            entries = [
                entry
                for entry in await self._store.find_events(stamp.message_id)
                if entry.delivery.publish_time == stamp.publish_time and is_settled(entry, view.name)
            ]
            if not entries:
                return NOT_IN_LOG
            if not any(view.name in scope.views(entry) for entry in entries):
                return BEFORE_THE_VIEW
            deciding += entries
        if not deciding:
            return NOT_IN_LOG
        if await self._fold.add(deciding):
            # The entry was added behind the position read so far: clocks differ, or its commit took long.
            (folded,) = await self._fold.scratch.read([pair.ref])
            return await self.judge(pair._replace(folded=folded.data))
        if found.kind is DifferenceKind.EXTRA and all(scope.is_rebuilt(entry, view.name) for entry in deciding):
            return NO_EVENT
        return found


def _is_unowned(view: View, pair: Pair) -> bool:
    """Whether another program wrote the document, and the view may not overwrite it."""
    try:
        owned(view, pair.stored.data, pair.ref.path)
    except (UnownedDocument, ViewError):
        return True
    return False


def _is_replaced(view: View, pair: Pair) -> bool:
    """Whether another program wrote the document, and the view begins anew in its place."""
    stored = pair.stored.data
    return stored is not None and view.existing == REPLACE and not is_stamped(stored)


def _judge_tally(found: Difference, stored: Document | None, folded: Document | None) -> Verdict:
    """A tally is wrong only if the log holds at least as many events as it has counted."""
    mine = 0 if stored is None else counted_events(stored)
    theirs = 0 if folded is None else counted_events(folded)
    if mine is None or theirs is None or mine > theirs:
        return COUNTED_MORE
    return msgspec.structs.replace(found, kind=DifferenceKind.BEHIND) if 0 < mine < theirs else found


async def compare_all(judge: Judge, pairs: AsyncIterator[Pair], *, again: bool) -> Report:
    """Judge every pair. With `again`, those that differ are read and judged again, a page at a time."""
    report = Report()
    suspects: list[Ref] = []
    async for pair in pairs:
        verdict = await judge.judge(pair)
        if again and isinstance(verdict, Difference):
            suspects.append(pair.ref)
        else:
            report.add(pair, verdict)
        if len(suspects) == _PAGE:
            await _settle(judge, suspects, report)
            suspects = []
    if suspects:
        await _settle(judge, suspects, report)
    return report


async def _settle(judge: Judge, suspects: Sequence[Ref], report: Report) -> None:
    async for pair, verdict in judge.look_again(suspects):
        report.add(pair, verdict)


async def side_by_side(store: Catalog, scratch: Catalog, collection: str) -> AsyncIterator[Pair]:
    """Every document of a collection that is in either store, in the order of ids."""
    stored = _Walk(store, collection)
    folded = _Walk(scratch, collection)
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
