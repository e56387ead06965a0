"""A store with faults on demand, and a service on it with quick retries and a clock that stands still."""

from __future__ import annotations

import asyncio
import functools
import io
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from millpond import settings as settings_module
from millpond.core.errors import WriteRefused
from millpond.core.model import Committed, Conflict, Delivery, LogEntry, Put, Ref, Result, Snapshot, Write
from millpond.core.ports import DeadLetterSink
from millpond.core.route import Fault, Item, Letter
from millpond.core.view import View
from millpond.engine.engine import Engine
from millpond.service.rules import engine_rules
from millpond.service.service import Service
from millpond.service.views import load_views
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


WriteLetter = Callable[[Item, Fault], Awaitable[Letter]]


class Sink:
    """A dead-letter sink that is one function."""

    def __init__(self, write_letter: WriteLetter) -> None:
        self._write_letter = write_letter

    async def write_letter(self, item: Item, fault: Fault) -> Letter:
        return await self._write_letter(item, fault)

    async def close(self) -> None:
        """Nothing is open."""


class Bench:
    """A service on a faulty store, with quick retries and a clock that stands at NOW. Built at its first use."""

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
        self._settings = settings_module.load({**quick, **environment})
        self._rules = engine_rules(self._settings)
        self._views: Sequence[View] | None = None
        self._sink: DeadLetterSink | None = None

    def use(self, *views: View) -> None:
        """Feed these views, instead of those of the settings."""
        assert "service" not in self.__dict__, "it is in use already"
        for view in views:
            view.name = view.name or view.collection
        self._views = views

    def add(self, *views: View) -> None:
        """Feed these views as well as those of the settings."""
        self.use(*load_views(self._settings), *views)

    def limit(self, **rules: Any) -> None:
        """Other limits than those of the settings."""
        self._rules = msgspec.structs.replace(self._rules, **rules)

    def bury_with(self, write_letter: WriteLetter) -> None:
        """Letters are written by this function."""
        self._sink = Sink(write_letter)

    @functools.cached_property
    def service(self) -> Service:
        return Service(
            self._settings,
            self.store,
            self.output,
            wall_clock=lambda: self.now,
            views=self._views,
            dead_letter_sink=self._sink,
            rules=self._rules,
        )

    @property
    def engine(self) -> Engine:
        return self.service.engine

    async def send(self, *messages: Delivery) -> list[Result]:
        return list(await asyncio.gather(*(self.engine.handle(message) for message in messages)))

    async def document(self, path: str) -> Any:
        collection, _, key = path.rpartition("/")
        (found,) = await MemoryStore.read(self.store, [Ref(collection, key)])
        return found.data
