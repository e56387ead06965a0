"""Folds entries of the event log into a scratch store, by the same route and plan as when they arrived.

Never writes to the real store. Folding is idempotent: an entry that is added twice changes nothing. Some entries
can no longer be folded (the view is gone or has changed, or the log could not hold the data). The documents they
decided are kept in `unsure` with the reason, because their right content is unknown. Called by verify and rebuild.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from millpond.core.document import is_expired
from millpond.core.errors import Poison, Unavailable, WriteRefused
from millpond.core.ids import unescaped_id
from millpond.core.item import TAKEN, Item, Target
from millpond.core.model import Conflict, Delivery, LogEntry, Outcome, Ref, Snapshot
from millpond.core.plan import needs_of, plan
from millpond.core.ports import Catalog
from millpond.core.receipts import Receipts
from millpond.core.route import Router
from millpond.core.view import Tally
from millpond.stores.log_entry import OPEN
from millpond.stores.sqlite.store import SqliteStore

# Small enough not to delay other tasks on the event loop noticeably.
AT_ONCE = 100
# A tally that refuses the event as too old now, because receipts have expired, counted it when it arrived.
_COUNTED_THEN = "too_old_to_count"
# `millpond move-ids` may have moved this document, and keeps no record of it.
_RENAMED = "events in the log went to it under the id of an earlier build: rebuild the view"
_EXPIRED_BETWEEN = "it had expired when an event came, and may have been deleted before that"
# How many entries are remembered, because a store may return an entry again.
_RECENT_MAX = 200_000
_REASONS_MAX = 100
_WHY_CHARS_MAX = 200
_PAUSES_S = (0.1, 0.5, 2.0, 8.0)

T = TypeVar("T")
Advance = Callable[[int], None]


class Scope(Protocol):
    """Decides for which views an entry is folded. Verify and rebuild each have their own."""

    # Whether an event that the view finds invalid now is ignored, instead of making its documents not checkable.
    may_reject: bool

    def views(self, entry: LogEntry) -> frozenset[str]:
        """The names of the views the entry is folded for."""

    def place(self, entry: LogEntry, target: Target) -> Target | None:
        """The target to fold; None if this view does not take the event."""

    def is_rebuilt(self, entry: LogEntry, view: str) -> bool:
        """Whether the view's current rules apply to the entry, instead of the recorded result."""


@contextlib.asynccontextmanager
async def open_scratch() -> AsyncIterator[SqliteStore]:
    """A temporary store for a fold, on disk: a log may be larger than memory. Deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="millpond-fold-") as folder:
        scratch = SqliteStore(Path(folder, "fold.db"), keeps_log=False, durable=False)
        try:
            yield scratch
        finally:
            await scratch.close()


class Fold:
    """A fold in progress, into a scratch store that has no other writer."""

    def __init__(
        self, router: Router, receipts: Receipts, scratch: SqliteStore, scope: Scope, *, at_once: int = AT_ONCE
    ) -> None:
        self.scratch = scratch
        self.scope = scope
        self._router = router
        self._routers: dict[frozenset[str], Router] = {}
        self._receipts = receipts
        self._at_once = at_once
        self._position: str | None = None
        # Message → what its entries said that were folded: its outcome, and that of each view while it is open.
        self._recent: dict[tuple[str, str], tuple[object, ...]] = {}
        # Messages, each counted once.
        self.entries = 0
        # Reason → how many entries could not be folded; document path → why its right content is unknown.
        self.unfolded: Counter[str] = Counter()
        self.unsure: dict[str, str] = {}
        # Collection → its view, for every collection that was folded into.
        self.views = {view.collection: view for view in router.views if view.collection}
        # The documents and receipts folded into; None unless the caller wants them.
        self.touched: set[Ref] | None = None

    async def catch_up(self, log: Catalog, advance: Advance = lambda _: None) -> None:
        """Fold every entry of the log after this fold's position."""
        more = True
        while more:
            page = await patiently(lambda: log.read_log(self._position, self._at_once))
            before = self.entries
            await self.add(page.entries)
            advance(self.entries - before)
            self._position, more = page.position, page.more
            # Planning uses the CPU: let other tasks of the event loop run.
            await asyncio.sleep(0)

    async def add(self, entries: Iterable[LogEntry]) -> int:
        """Fold these entries, from any source. Returns how many said something new."""
        new = [entry for entry in entries if self._is_new(entry)]
        for items in _runs(item for entry in new for item in self._items(entry)):
            # `partial` binds `items` now; a lambda would read the loop variable later.
            await patiently(partial(self._commit, items))
        return len(new)

    def _is_new(self, entry: LogEntry) -> bool:
        result = entry.result
        # An open entry is completed view by view, and may keep its outcome.
        views = tuple((view.view, str(view.outcome)) for view in result.views) if result.outcome in OPEN else ()
        message, said = (entry.delivery.message_id, entry.topic), (str(result.outcome), views)
        # Put back at the end: the ones that were not met for longest are forgotten first.
        known = self._recent.pop(message, ())
        self._recent[message] = known if said in known else (*known, said)
        if said in known:
            return False
        self.entries += not known
        if len(self._recent) > _RECENT_MAX:
            del self._recent[next(iter(self._recent))]
        return True

    def _items(self, entry: LogEntry) -> Iterator[Item]:
        names = frozenset(name for name in self.scope.views(entry) if is_settled(entry, name))
        for delivery, asked in self._copies(entry, names):
            item = self._item(entry, delivery, asked)
            if item is not None:
                yield item

    def _copies(self, entry: LogEntry, names: frozenset[str]) -> Iterator[tuple[Delivery, frozenset[str]]]:
        """The message as it arrived and as it was corrected, each with the views that were asked with it.

        A view that was not asked, because it is new, gets the message as it arrived; if it refuses that, it gets
        the first correction that another view took. Both choices stay the same when the entry is completed later.
        """
        corrected = entry.corrected
        used = {name: corrected.get(name) for name in names}
        new = names - {view.view for view in entry.result.views} if corrected else frozenset()
        if new:
            used.update(dict.fromkeys(self._refusing(entry, new), next(iter(corrected.values()))))
        for payload in dict.fromkeys(used.values()):
            copy = msgspec.structs.replace(entry.delivery, correction=payload) if payload else entry.delivery
            yield copy, frozenset(name for name in names if used[name] == payload)

    def _refusing(self, entry: LogEntry, names: frozenset[str]) -> frozenset[str]:
        """Those of the views that refuse the message as it arrived, each on a document that does not exist yet."""
        item = self._router_for(names).route(entry.delivery, entry.arrived_at)
        faults = item.faults
        if item.targets:
            absent = {ref: Snapshot(ref, None, None) for ref in needs_of(item).all}
            faults = plan([item], absent, entry.arrived_at, self._receipts).results[0].faults
        return frozenset(name for fault in faults for name in (names if fault.view is None else {fault.view}))

    def _item(self, entry: LogEntry, delivery: Delivery, names: frozenset[str]) -> Item | None:
        recorded, rebuilt = recorded_documents(entry), self.scope.is_rebuilt
        item = self._router_for(names).route(delivery, entry.arrived_at)
        for fault in item.faults:
            refusing = names if fault.view is None else {fault.view}
            names -= refusing
            invalid = isinstance(fault, Poison) and delivery.data_fault is None
            self._leave_out((recorded[name] for name in refusing & recorded.keys()), fault, invalid=invalid)
        targets = [
            _without_receipt(placed)
            for target in item.targets
            if (placed := self.scope.place(entry, target)) is not None
        ]
        self.views.update((target.ref.collection, target.view) for target in targets)
        folded = {target.view.name for target in targets}
        lost = [doc for name, doc in recorded.items() if name in names - folded and not rebuilt(entry, name)]
        if lost:
            self._leave_out(lost, "its view is gone, does not want it, or puts it elsewhere")
            renamed = [t.path for t in item.targets if _is_renamed(recorded.get(t.view.name, ""), t)]
            self.unsure.update(dict.fromkeys(renamed, _RENAMED))
        return msgspec.structs.replace(item, targets=targets, faults=()) if targets else None

    def _router_for(self, names: frozenset[str]) -> Router:
        if names not in self._routers:
            self._routers[names] = self._router.only(names)
        return self._routers[names]

    async def _commit(self, items: Sequence[Item]) -> None:
        """Plan the items at their time of arrival, and write. A refused write is found by halving, and left out."""
        refs = list({ref: None for item in items for ref in needs_of(item).all})
        snapshots: dict[Ref, Snapshot] = {found.ref: found for found in await self.scratch.read(refs)}
        planned = plan(items, snapshots, items[0].arrived_at, self._receipts)
        try:
            if planned.writes and isinstance(await self.scratch.commit(planned.writes), Conflict):
                raise Unavailable("another writer changed the documents of this fold")
        except WriteRefused as refusal:
            if len(items) == 1 and len(items[0].targets) == 1:
                self._leave_out((target.path for target in items[0].targets), refusal)
                return
            for half in _halves(items):
                await self._commit(half)
            return
        for item, result in zip(items, planned.results, strict=True):
            self._note_expired(item, snapshots)
            for fault in result.faults:
                invalid = isinstance(fault, Poison) and fault.reason != _COUNTED_THEN
                paths = (target.path for target in item.targets if target.view.name == fault.view)
                self._leave_out(paths, fault, invalid=invalid)
        if self.touched is not None:
            self.touched.update(target.ref for item in items for target in item.targets)
            self.touched.update(t.receipt for item in items for t in item.targets if t.receipt is not None)

    def _note_expired(self, item: Item, snapshots: dict[Ref, Snapshot]) -> None:
        for target in item.targets:
            if is_expired(snapshots[target.ref].data, item.arrived_at):
                self.unsure.setdefault(target.path, _EXPIRED_BETWEEN)

    def _leave_out(self, paths: Iterable[str], why: BaseException | str, *, invalid: bool = False) -> None:
        text = f"{why}"[:_WHY_CHARS_MAX]
        if text not in self.unfolded and len(self.unfolded) >= _REASONS_MAX:
            text = "other reasons"
        self.unfolded[text] += 1
        if not (invalid and self.scope.may_reject):
            self.unsure.update(dict.fromkeys(paths, f"an event in the log cannot be folded any more: {text}"))


async def patiently(call: Callable[[], Awaitable[T]], *, unless: str | None = None) -> T:
    """Retry while the store is unavailable, so that one failure does not end a long fold.

    `call` must be repeatable, as reading and planning are. Errors with the code `unless` are raised at once.
    """
    for pause_s in _PAUSES_S:
        try:
            return await call()
        except Unavailable as error:
            if unless is not None and error.code == unless:
                raise
            await asyncio.sleep(pause_s)
    return await call()


def _runs(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Items to plan together. A run has an expiring document only once, so its expiry is checked for each event."""
    run: list[Item] = []
    expiring: set[Ref] = set()
    for item in items:
        refs = {target.ref for target in item.targets if target.view.retention_days is not None}
        if not expiring.isdisjoint(refs):
            yield run
            run, expiring = [], set()
        run.append(item)
        expiring |= refs
    if run:
        yield run


def _halves(items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Half of the items each; of one item, half of its targets."""
    if len(items) > 1:
        middle = len(items) // 2
        return items[:middle], items[middle:]
    (item,) = items
    middle = len(item.targets) // 2
    first, second = item.targets[:middle], item.targets[middle:]
    return [msgspec.structs.replace(item, targets=first)], [msgspec.structs.replace(item, targets=second)]


def _is_renamed(recorded: str, target: Target) -> bool:
    """Whether an earlier build put the event into the same document, under its escaped id."""
    collection, _, old_id = recorded.rpartition("/")
    return collection == target.ref.collection and unescaped_id(old_id) == target.ref.id


def _without_receipt(target: Target) -> Target:
    """Receipts decide tallies only; for other views they only distinguish a duplicate from a stale event."""
    if target.receipt is None or isinstance(target.view, Tally):
        return target
    return msgspec.structs.replace(target, receipt=None)


def is_settled(entry: LogEntry, view: str) -> bool:
    """False if the view refused the event, or was to be asked again: its replay completes the entry."""
    if entry.result.outcome is Outcome.POISON and not entry.result.views:
        return False
    return not any(result.view == view and result.outcome in OPEN for result in entry.result.views)


def recorded_documents(entry: LogEntry) -> dict[str, str]:
    """View → document, for the views that took the event."""
    return {result.view: result.doc for result in entry.result.views if result.outcome in TAKEN}
