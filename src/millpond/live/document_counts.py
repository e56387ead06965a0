"""The numbers of documents and letters, counted by the store at most every 15 s for all callers.

Counting may be slow on a large store, and fails while the store is away; the last counts are then kept. The monitor
calls it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from millpond.core.collections import LETTERS
from millpond.core.errors import StoreError
from millpond.core.ports import Catalog
from millpond.telemetry.log import Log

FRESH_S = 15.0


class DocumentCounts:
    """`on_letters` is called with the number of letters after each count."""

    def __init__(self, store: Catalog, log: Log, on_letters: Callable[[int], None]) -> None:
        self._store = store
        self._log = log
        self._on_letters = on_letters
        self._known: dict[str, Any] | None = None
        # When the collections were last counted, and when the letters alone were.
        self._asked_at = self._counted_at = float("-inf")
        self._asking = asyncio.Lock()
        self._failing = False

    @property
    def is_due(self) -> bool:
        """Whether it is time to count again."""
        return asyncio.get_running_loop().time() - max(self._asked_at, self._counted_at) >= FRESH_S

    async def count_letters(self) -> None:
        """Count the letters alone: alerts need them, also while no page is open."""
        self._counted_at = asyncio.get_running_loop().time()
        try:
            self._on_letters(await self._store.count_documents(LETTERS))
            self._failing = False
        except StoreError as error:
            self._note(error)

    async def latest(self) -> dict[str, Any] | None:
        """The numbers in the form that pages get, at most 15 s old; None if the store has never answered."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if now - self._asked_at >= FRESH_S:
                self._asked_at = now
                await self._ask()
        return self._known

    async def _ask(self) -> None:
        try:
            counted = await self._store.collections()
        except StoreError as error:
            self._note(error)
            return
        self._failing = False
        letters = dict(counted).get(LETTERS, 0)
        self._on_letters(letters)
        collections = [{"collection": name, "docs": n} for name, n in counted]
        self._known = {"letters": letters, "collections": collections}

    def _note(self, error: StoreError) -> None:
        """Log the error once for each outage, not every few seconds."""
        if not self._failing:
            self._failing = True
            self._log.note("WARNING", f"documents and letters could not be counted, and will be: {error}")
