"""Folding entries of the event log into a store, by the same route and the same plan as when they arrived.

Folding is idempotent, like everything the plan does: an entry that comes twice changes nothing. Documents that were
decided by an entry that cannot be folded any more (a view that is gone or has changed, data the log could not hold)
are remembered with why, since nobody can say what they should be.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from millpond.errors import Poison, Unavailable, WriteRefused
from millpond.model import Conflict, LogEntry, Outcome, Ref, Snapshot
from millpond.plan import plan, refs_of
from millpond.ports import Catalog, Store
from millpond.receipts import Receipts
from millpond.refold.scope import Scope, recorded_documents
from millpond.route import Item, Router, Target
from millpond.view import Tally

# Small enough that whoever shares the event loop hardly notices.
AT_ONCE = 100
_WHY_CHARS_MAX = 200
_PAUSES_S = (0.1, 0.5, 2.0, 8.0)

T = TypeVar("T")
Advance = Callable[[int], None]


class Fold:
    """A fold under way. `into` must have no other writer for the documents that are folded."""

    def __init__(
        self, router: Router, receipts: Receipts, into: Store, scope: Scope, *, at_once: int = AT_ONCE
    ) -> None:
        self._router = router
        self._routers: dict[frozenset[str], Router] = {}
        self._receipts = receipts
        self._into = into
        self._scope = scope
        self._at_once = at_once
        self.position: str | None = None
        self.entries = 0
        # Why entries could not be folded, and document path → why the fold cannot tell what it should be.
        self.unfolded: Counter[str] = Counter()
        self.unsure: dict[str, str] = {}
        # Which view each collection that was folded into belongs to.
        self.views = {view.collection: view for view in router.views if view.collection}
        # The documents folded into, where somebody wants to know.
        self.touched: set[Ref] | None = None

    async def catch_up(self, log: Catalog, advance: Advance = lambda _: None) -> None:
        """Fold everything the log holds beyond where this fold has come."""
        more = True
        while more:
            page = await self._patiently(lambda: log.read_log(self.position, self._at_once))
            items = [item for entry in page.entries if (item := self._item(entry)) is not None]
            if items:
                # Bound now: a loop's variable is looked up when it is used.
                await self._patiently(partial(self._commit, items))
            self.position, more = page.position, page.more
            self.entries += len(page.entries)
            advance(len(page.entries))
            # Planning is work for the processor, and others share the event loop.
            await asyncio.sleep(0)

    def _item(self, entry: LogEntry) -> Item | None:
        # Poison was buried and led to nothing; once replayed it has an entry of its own.
        names = frozenset() if entry.result.outcome is Outcome.POISON else self._scope.views(entry)
        if not names:
            return None
        recorded = recorded_documents(entry)
        item = self._router_for(names).route(entry.delivery, entry.arrived_at)
        if item.fault is not None:
            invalid = isinstance(item.fault, Poison) and entry.delivery.data_fault is None
            self._leave_out((recorded[name] for name in names & recorded.keys()), item.fault, invalid=invalid)
            return None
        targets = [
            _without_receipt(placed)
            for target in item.targets
            if (placed := self._scope.place(entry, target)) is not None
        ]
        self.views.update((target.ref.collection, target.view) for target in targets)
        lost = names & recorded.keys() - {target.view.name for target in targets}
        if lost:
            self._leave_out(
                (recorded[name] for name in lost), "its view is gone, or does not want it", invalid=True
            )
        return msgspec.structs.replace(item, targets=targets) if targets else None

    def _router_for(self, names: frozenset[str]) -> Router:
        if names not in self._routers:
            self._routers[names] = self._router.only(names)
        return self._routers[names]

    async def _commit(self, items: Sequence[Item]) -> None:
        """Plan them at the time they arrived, and write; what is refused is found by halves, and left out."""
        refs = list({ref: None for item in items for ref in refs_of(item)[0]})
        snapshots: dict[Ref, Snapshot] = {found.ref: found for found in await self._into.read(refs)}
        planned = plan(items, snapshots, items[0].arrived_at, self._receipts)
        try:
            if planned.writes and isinstance(await self._into.commit(planned.writes), Conflict):
                # What has expired may be swept under our hands.
                raise Unavailable("somebody else changed the documents of this fold")
        except WriteRefused as refusal:
            if len(items) == 1:
                self._leave_out((target.path for target in items[0].targets), refusal)
                return
            middle = len(items) // 2
            await self._commit(items[:middle])
            await self._commit(items[middle:])
            return
        for item, result in zip(items, planned.results, strict=True):
            if result.error is not None:
                invalid = isinstance(result.error, Poison)
                self._leave_out((target.path for target in item.targets), result.error, invalid=invalid)
        if self.touched is not None:
            self.touched.update(target.ref for item in items for target in item.targets)

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """A long fold must not end with one call that failed. To read again, and to plan again, is always right."""
        for pause_s in _PAUSES_S:
            try:
                return await call()
            except Unavailable:
                await asyncio.sleep(pause_s)
        return await call()

    def _leave_out(self, paths: Iterable[str], why: BaseException | str, *, invalid: bool = False) -> None:
        text = f"{why}"[:_WHY_CHARS_MAX]
        self.unfolded[text] += 1
        if not (invalid and self._scope.may_reject):
            self.unsure.update(dict.fromkeys(paths, f"an event in the log cannot be folded any more: {text}"))


def _without_receipt(target: Target) -> Target:
    """Receipts decide tallies only; elsewhere they would merely tell a duplicate from a stale event."""
    if target.receipt is None or isinstance(target.view, Tally):
        return target
    return msgspec.structs.replace(target, receipt=None)
