"""A rig whose store can be verified and rebuilt."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from millpond.core.ports import StoreWithCatalog
from millpond.core.receipts import Receipts
from millpond.core.view import View
from millpond.dead_letters.store import StoredLetters
from millpond.reprocess.fold import open_scratch
from millpond.reprocess.rebuild import RebuildRun
from millpond.reprocess.report import Report
from millpond.reprocess.verify import Verifier
from millpond.service.rules import engine_rules
from millpond.stores.memory import MemoryStore
from tests.common.rig import Rig


class Works(Rig[StoreWithCatalog]):
    """One instance on a store. Another one, with other views, may follow it on the same store."""

    def __init__(self, views: Sequence[View] | None = None, store: StoreWithCatalog | None = None) -> None:
        super().__init__(MemoryStore() if store is None else store, views)
        self.held = contextlib.AsyncExitStack()

    async def __aexit__(self, *_: object) -> None:
        await self.held.aclose()
        await super().__aexit__()

    @property
    def receipts(self) -> Receipts:
        return engine_rules(self.settings).receipts

    @property
    def letters(self) -> StoredLetters:
        return self.service.letters

    async def verify(self) -> Report:
        async with open_scratch() as scratch:
            verifier = await Verifier.begin(self.store, self.router, self.receipts, scratch, lambda: self.now)
            return await verifier.check()

    async def rebuild(self, view: str) -> RebuildRun:
        (found,) = (known for known in self.router.views if known.name == view)
        return await self.held.enter_async_context(
            RebuildRun.open(self.engine, self.store, found, others_settle_s=0.01)
        )
