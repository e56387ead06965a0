"""A store, the views and an engine in one process, and what `verify` says of the store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from millpond import settings as settings_module
from millpond.core.model import Committed, Delete, Delivery, Document, Put, Ref, Result
from millpond.core.ports import StoreWithCatalog
from millpond.core.receipts import Receipts
from millpond.core.route import Router
from millpond.core.view import View
from millpond.dead_letters.store import StoredLetters
from millpond.engine.engine import Engine
from millpond.reprocess.fold import open_scratch
from millpond.reprocess.rebuild import Rebuild
from millpond.reprocess.report import Report
from millpond.reprocess.verify import Verifier
from millpond.service.rules import engine_rules, route_rules
from millpond.service.views import load_views
from millpond.stores.memory import MemoryStore
from millpond.telemetry.metrics import Metrics
from tests.common.pond import NOW

_SETTINGS = settings_module.load({})


class Works:
    """One instance on a store. Another one, with other views, may follow it on the same store."""

    def __init__(self, views: Sequence[View] | None = None, store: StoreWithCatalog | None = None) -> None:
        chosen = list(load_views(_SETTINGS)) if views is None else list(views)
        for view in chosen:
            view.name = view.name or view.collection
        self.store = MemoryStore() if store is None else store
        self.now = NOW
        self.held = contextlib.AsyncExitStack()
        self.receipts: Receipts = engine_rules(_SETTINGS).receipts
        self.router = Router(chosen, route_rules(_SETTINGS))
        self.letters = StoredLetters(self.store, keep=10**15, wall_clock=lambda: self.now)
        self.engine = Engine(
            store=self.store,
            router=self.router,
            dead_letter_sink=self.letters,
            rules=engine_rules(_SETTINGS),
            metrics=Metrics(),
            wall_clock=lambda: self.now,
        )

    async def take(self, *deliveries: Delivery) -> list[Result]:
        """One after the other, each durable before the next."""
        return [await self.engine.handle(delivery) for delivery in deliveries]

    async def verify(self) -> Report:
        async with open_scratch() as scratch:
            verifier = await Verifier.begin(self.store, self.router, self.receipts, scratch, lambda: self.now)
            return await verifier.check()

    async def rebuild(self, view: str) -> Rebuild:
        (found,) = (known for known in self.router.views if known.name == view)
        return await self.held.enter_async_context(
            Rebuild.open(self.engine, self.store, found, others_settle_s=0.01)
        )

    async def document(self, path: str) -> Document | None:
        (found,) = await self.store.read([ref(path)])
        return found.data

    async def damage(self, path: str, **fields: object) -> None:
        """Change fields of a document behind everybody's back."""
        (found,) = await self.store.read([ref(path)])
        assert found.data is not None
        put = Put(found.ref, found.version, {**found.data, **fields})
        assert isinstance(await self.store.commit([put]), Committed)

    async def put(self, path: str, document: Document) -> None:
        (found,) = await self.store.read([ref(path)])
        assert isinstance(await self.store.commit([Put(found.ref, found.version, document)]), Committed)

    async def delete(self, path: str) -> None:
        (found,) = await self.store.read([ref(path)])
        assert found.version is not None
        assert isinstance(await self.store.commit([Delete(found.ref, found.version)]), Committed)


@contextlib.asynccontextmanager
async def working(
    views: Sequence[View] | None = None, store: StoreWithCatalog | None = None
) -> AsyncIterator[Works]:
    works = Works(views, store)
    try:
        yield works
    finally:
        await works.held.aclose()
        await works.engine.drain()


def ref(path: str) -> Ref:
    return Ref(*path.rsplit("/", 1))
