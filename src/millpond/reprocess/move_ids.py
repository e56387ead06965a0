"""Finds documents under the ids of an earlier build, and moves them. `plan_move` decides what is written.

Each document is moved by one commit on the versions that were read, so live traffic goes on. A crash leaves each
document in exactly one place. Called by the CLI, the API and the doctor.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Annotated, NamedTuple, Protocol, cast

import msgspec
from msgspec import Meta

from millpond.concurrency import Pauses, raise_first, run_all
from millpond.core.collections import root_of
from millpond.core.errors import WriteRefused
from millpond.core.model import Conflict, Ref, Snapshot, Write
from millpond.core.ports import Store
from millpond.core.view import View
from millpond.engine.bulk_rate import OPERATIONS_PER_DOCUMENT
from millpond.engine.pace import Pace, take_turn
from millpond.reprocess.fold import patiently
from millpond.reprocess.plan_move import Moved, new_place, plan_move
from millpond.stores.update import Budget, Decided, update

_PAGE = 500
# Commits at once; few enough to leave a server's own traffic room.
_AT_ONCE = 16
# How often a document is read again while other writers keep changing it.
_TRIES_MAX = 50
_BUDGET = Budget(tries=_TRIES_MAX, after_conflict=Pauses(0.001, 0.02))
_NOT_OLD = "no loaded view with a key of one part would keep it under another id"
_RESTLESS = "other writers kept changing it: run the command again"


class Listing(Protocol):
    """The part of `Catalog` that is needed to find documents."""

    async def collections(self) -> list[tuple[str, int]]: ...

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]: ...


class OldDocument(NamedTuple):
    """A document's old reference, and its new one."""

    old: Ref
    new: Ref


class MovedDocument(msgspec.Struct, rename="camel"):
    """What became of one document."""

    id: str
    new_id: Annotated[str | None, Meta(description="Null if the id is none that an earlier build escaped.")]
    outcome: Moved
    error: Annotated[str | None, Meta(description="Why it was left where it is.")]


class MoveReport(NamedTuple):
    """The result for one document. `new` is None if its id is not an old one."""

    old: Ref
    new: Ref | None
    outcome: Moved
    why: str = ""

    def answer(self) -> MovedDocument:
        return MovedDocument(self.old.id, None if self.new is None else self.new.id, self.outcome, self.why or None)


async def collections_of(listing: Listing, view: View) -> list[str]:
    """The collections of a view's documents. If the view chooses them by event, those below its own as well."""
    if type(view).collection_of is View.collection_of:
        return [view.collection]
    root = root_of(view.collection)
    below = [name for name, _ in await listing.collections() if name.startswith(f"{root}/")]
    return list(dict.fromkeys([view.collection, *below]))


async def pages(listing: Listing, collection: str, most: int | None = None) -> AsyncIterator[list[Snapshot]]:
    """A collection in the order of ids, page by page, up to `most` documents."""
    after, left = None, most
    while left is None or left > 0:
        wanted = _PAGE if left is None else min(_PAGE, left)
        page = await patiently(partial(listing.list_documents, collection, wanted, after))
        yield page
        if len(page) < wanted:
            return
        after, left = page[-1].ref.id, None if left is None else left - len(page)


def old_documents(view: View, page: Iterable[Snapshot]) -> list[OldDocument]:
    placed = [(found.ref, new_place(view, found.ref)) for found in page]
    return [OldDocument(old, new) for old, new in placed if new is not None]


async def find_old_documents(listing: Listing, views: Iterable[View]) -> AsyncIterator[OldDocument]:
    """Every document under an old id, in all collections of views with a key of one part."""
    for view in views:
        if view.has_single_key:
            for collection in await collections_of(listing, view):
                async for page in pages(listing, collection):
                    for found in old_documents(view, page):
                        yield found


class Mover:
    """Moves documents on one store."""

    def __init__(
        self,
        store: Store,
        views: Sequence[View],
        forget: Callable[[Iterable[Ref]], None],
        pace: Pace | None = None,
    ) -> None:
        """`forget` is called with the documents that were written here, to drop cached versions of them."""
        self._store = store
        self._forget = forget
        self._pace = pace
        # A collection's first part belongs to one view only: `load_views` checks that.
        self._views = {root_of(view.collection): view for view in views}

    async def move_all(self, refs: Sequence[Ref], *, dry_run: bool = False) -> list[MoveReport]:
        """One report for each reference, in order. Raises the first store error once all have been tried."""
        reports = await run_all(lambda ref: self._move(ref, dry_run=dry_run), refs, _AT_ONCE)
        raise_first(reports)
        return cast("list[MoveReport]", reports)

    async def _move(self, ref: Ref, *, dry_run: bool) -> MoveReport:
        view = self._views.get(root_of(ref.collection))
        new = None if view is None else new_place(view, ref)
        if view is None or new is None:
            return MoveReport(ref, None, Moved.LEFT, _NOT_OLD)
        places = OldDocument(ref, new)

        def decide(found: Sequence[Snapshot]) -> Decided[MoveReport]:
            move = plan_move(view, *found)
            report = MoveReport(ref, new, move.outcome, move.why)
            return Decided(report, () if dry_run else move.writes)

        def forget(_: Sequence[Write]) -> None:
            self._forget(places)

        try:
            async with take_turn(None if dry_run else self._pace, OPERATIONS_PER_DOCUMENT * len(places)):
                report = await patiently(lambda: update(self._store, places, decide, _BUDGET, after_commit=forget))
        except WriteRefused as error:
            return MoveReport(ref, new, Moved.LEFT, str(error))
        return MoveReport(ref, new, Moved.LEFT, _RESTLESS) if isinstance(report, Conflict) else report
