"""The documents a step may read, with retries while the store is unavailable.

A step must not fail because of a short outage. Built by `flow/service.py`, used through `StepContext.documents`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from millpond.concurrency import Pauses
from millpond.core.errors import Unavailable
from millpond.core.model import Ref, Snapshot
from millpond.flow.step import Documents

T = TypeVar("T")


class PatientDocuments:
    def __init__(self, inner: Documents, pauses: Pauses, budget_s: float, jitter: random.Random) -> None:
        self._inner = inner
        self._pauses = pauses
        self._budget_s = budget_s
        self._jitter = jitter

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        return await self._patiently(lambda: self._inner.read(refs))

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        return await self._patiently(lambda: self._inner.list_documents(collection, limit, after))

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Raises Unavailable only after the whole budget."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._budget_s
        failures = 0
        while True:
            try:
                return await call()
            except Unavailable:
                pause_s = self._pauses.pause_s(failures, self._jitter)
                if loop.time() + pause_s >= give_up_at:
                    raise
                failures += 1
            await asyncio.sleep(pause_s)
