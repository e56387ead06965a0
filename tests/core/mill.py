"""A mill: the real router, `plan` and the memory store, and nothing between them. What it did can be looked at."""

from __future__ import annotations

import functools
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from millpond import settings as settings_module
from millpond.core.collections import RECEIPTS
from millpond.core.item import Item
from millpond.core.model import Committed, Delete, Delivery, Document, LogEntry, Ref, Result, Snapshot
from millpond.core.plan import Plan, needs_of, plan
from millpond.core.receipts import Receipts
from millpond.core.route import Router
from millpond.core.view import Tally
from millpond.service.rules import engine_rules, route_rules
from millpond.service.views import load_views
from millpond.stores.memory import MemoryStore
from tests.common.pond import NOW, SECOND, named
from tests.core.histories import Batch, user_views

T = TypeVar("T")


class Round(NamedTuple):
    """One batch: what `plan` was given, what it said, and what it was given looked like before."""

    items: list[Item]
    snapshots: dict[Ref, Snapshot]
    now: int
    planned: Plan
    given: str


class Mill:
    """Each batch is planned on snapshots read for it, and committed."""

    def __init__(self, **environment: str) -> None:
        self.router, self.receipts = _machinery(tuple(sorted(environment.items())))
        self.tallies = {view.collection for view in self.router.views if isinstance(view, Tally)}
        self.store = MemoryStore()

    def grind(self, batch: Batch) -> Round:
        now = NOW + batch.clock_s * SECOND
        items = [self._routed(message, now) for message in batch.messages]
        refs = list({ref: None for item in items for ref in needs_of(item).all})
        snapshots = {found.ref: found for found in finished(self.store.read(refs))}
        given = repr((items, snapshots))
        planned = plan(items, snapshots, now, self.receipts)
        committed = finished(self.store.commit(planned.writes, planned.log))
        assert isinstance(committed, Committed), "planned on fresh snapshots, so nothing can be in the way"
        return Round(items, snapshots, now, planned, given)

    def grind_all(self, batches: Sequence[Batch]) -> list[Result]:
        return [result for batch in batches for result in self.grind(batch).planned.results]

    def forget_receipts(self) -> None:
        deletes = [
            Delete(found.ref, found.version)
            for found in self._stored()
            if found.ref.collection == RECEIPTS and found.version is not None
        ]
        assert isinstance(finished(self.store.commit(deletes)), Committed)

    def snapshots(self) -> dict[str, Snapshot]:
        """Every document but receipts, by path."""
        return {found.ref.path: found for found in self._stored() if found.ref.collection != RECEIPTS}

    def documents(self) -> dict[str, Document]:
        """Outside `ingestedAt`, which is our clock."""
        found = {path: dict(snapshot.data or {}) for path, snapshot in self.snapshots().items()}
        for document in found.values():
            document.pop("ingestedAt", None)
        return found

    def receipts_stored(self) -> dict[Ref, Document | None]:
        return {found.ref: found.data for found in self._stored() if found.ref.collection == RECEIPTS}

    def events_logged(self) -> list[LogEntry]:
        return list(finished(self.store.read_log(None, 10_000)).entries)

    def is_tally(self, path: str) -> bool:
        return path.split("/", 1)[0] in self.tallies

    def _routed(self, message: Delivery, now: int) -> Item:
        item = self.router.route(message, now)
        assert item.fault is None, item.fault
        return item

    def _stored(self) -> list[Snapshot]:
        names = [name for name, _ in finished(self.store.collections())]
        return [found for name in names for found in finished(self.store.list_documents(name, 10_000, None))]


@functools.cache
def _machinery(environment: tuple[tuple[str, str], ...]) -> tuple[Router, Receipts]:
    """What settings make: nothing in it changes, so every mill with the same settings may have the same."""
    settings = settings_module.load(dict(environment))
    views = named([*load_views(settings), *user_views()])
    return Router(views, route_rules(settings)), engine_rules(settings).receipts


def finished(call: Coroutine[Any, Any, T]) -> T:
    """The answer of a call that never waits: the memory store needs no event loop."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("the memory store never waits")


def stamps_of(document: Mapping[str, Any] | None) -> dict[str, str]:
    """Each stamp a document carries: its own, and for a merged one its fields'."""
    source = (document or {}).get("source", {})
    stamps = {"": source["stamp"]} if "stamp" in source else {}
    return stamps | {name: group["stamp"] for group in source.get("stamps", []) for name in group["fields"]}
