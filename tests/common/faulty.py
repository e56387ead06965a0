"""A store with faults on demand, and a service on it with quick retries and a clock that stands still."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from typing import Any

from millpond import settings as settings_module
from millpond.core.errors import WriteRefused
from millpond.core.model import Committed, Conflict, Delivery, LogEntry, Put, Ref, Result, Snapshot, Write
from millpond.core.route import Router
from millpond.core.view import View
from millpond.engine.queue import Engine
from millpond.service.service import Service
from millpond.stores.memory import MemoryStore
from tests.common.pond import NOW


class FaultyStore(MemoryStore):
    """The memory store with faults on demand, and a record of every call."""

    def __init__(self, in_flight_max: int = 8) -> None:
        super().__init__()
        self.commits_in_flight_max = in_flight_max
        self.before: list[BaseException | None] = []
        self.after: list[BaseException | None] = []
        self.refused: set[str] = set()
        self.commits: list[Sequence[Write]] = []
        self.reads: list[Sequence[Ref]] = []
        self.commit_s = 0.0
        self.commits_running = self.commits_at_once = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        self.reads.append(refs)
        await asyncio.sleep(0)
        return await super().read(refs)

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        self.commits.append(writes)
        self.commits_running += 1
        self.commits_at_once = max(self.commits_at_once, self.commits_running)
        await asyncio.sleep(self.commit_s)
        await self.gate.wait()
        self.commits_running -= 1
        _raise_next(self.before)
        for write in writes:
            if isinstance(write, Put) and write.data.get("status") in self.refused:
                raise WriteRefused(f"{write.ref.path} is refused", code="INVALID_ARGUMENT")
        committed = await super().commit(writes, log)
        _raise_next(self.after)
        return committed

    def writes_of(self, path: str) -> int:
        return sum(write.ref.path == path for writes in self.commits for write in writes)


def _raise_next(faults: list[BaseException | None]) -> None:
    fault = faults.pop(0) if faults else None
    if fault is not None:
        raise fault


class Bench:
    """A service on a faulty store with quick retries and a clock that stands at NOW."""

    def __init__(self, store: FaultyStore, **environment: str) -> None:
        quick = {
            "STORE": "memory",
            "FIRESTORE_RETRY_INITIAL_BACKOFF_S": "0.001",
            "FIRESTORE_RETRY_MAX_BACKOFF_S": "0.002",
            "FIRESTORE_RETRY_MAX_TOTAL_S": "1",
            "CONSUMER_QUEUE_SIZE": "1000",
        }
        self.now = NOW
        self.store = store
        self.output = io.BytesIO()
        settings = settings_module.load({**quick, **environment})
        self.service = Service(settings, store, self.output, wall_clock=lambda: self.now)

    @property
    def engine(self) -> Engine:
        return self.service.engine

    def use(self, *views: View) -> None:
        """Feed these views, instead of those of the settings."""
        for view in views:
            view.name = view.name or view.collection
        self.engine.router = Router(views, self.service.settings.route_rules())

    async def send(self, *messages: Delivery) -> list[Result]:
        return list(await asyncio.gather(*(self.engine.handle(message) for message in messages)))

    async def document(self, path: str) -> Any:
        collection, _, key = path.rpartition("/")
        (found,) = await MemoryStore.read(self.store, [Ref(collection, key)])
        return found.data
