"""An in-memory pond for synchronous tests: publish events, read documents. The pytest plugin opens it.

The engine, the views and the letters are the real ones, on the memory store, on an event loop of its own that runs
only during a call. `open_pond` is the only place that knows how the parts are joined.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

import msgspec

from millpond import settings as settings_module
from millpond.core import timestamps
from millpond.core.collections import LETTERS
from millpond.core.ids import encode_name
from millpond.core.model import Delivery, Document, Ref, Result
from millpond.core.route import Router
from millpond.core.view import View
from millpond.dead_letters.store import StoredLetters
from millpond.engine.engine import Engine
from millpond.service.rules import engine_rules, route_rules
from millpond.stores.memory import MemoryStore
from millpond.telemetry.metrics import Metrics
from millpond.testing.check import as_view
from millpond.testing.faults import CheckError

T = TypeVar("T")
# Tests have fixed dates: a tally must count an event of any year.
_RECEIPT_TTL_DAYS = "36500"


class AsyncPond(Protocol):
    """What a synchronous pond needs of the one behind it."""

    async def handle(self, delivery: Delivery) -> Result: ...

    async def read(self, ref: Ref) -> Document | None: ...

    async def list_documents(self, collection: str) -> dict[str, Document]: ...

    async def close(self) -> None: ...


class SyncPond:
    """A pond that a synchronous test calls. Every call returns when its result is durable."""

    def __init__(self, views: Sequence[View | type[View]]) -> None:
        _refuse_running_loop()
        settings = settings_module.load({"STORE": "memory", "RECEIPT_TTL_DAYS": _RECEIPT_TTL_DAYS})
        self._views = {view.name: view for view in (as_view(view, settings) for view in views)}
        self._runner = asyncio.Runner()
        self._numbers = itertools.count(1)
        self._pond = self._run(open_pond(list(self._views.values()), settings))

    def publish(
        self,
        topic: str,
        payload: Mapping[str, Any],
        *,
        message_id: str | None = None,
        publish_time: str | int | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Result:
        """Deliver one message, as a broker would. Without an id and a time it gets the next number, and now."""
        published = time.time_ns() // 1_000
        if publish_time is not None:
            published = timestamps.parse(publish_time, "publish_time")
        return self.handle(
            Delivery(
                message_id=message_id or f"{next(self._numbers)}",
                publish_time=published,
                data=msgspec.json.encode(payload),
                attributes={**(attributes or {}), "topic": topic},
            )
        )

    def handle(self, delivery: Delivery) -> Result:
        """Deliver a whole message."""
        return self._run(self._pond.handle(delivery))

    def get(self, view: str, key: str) -> Document | None:
        """The document with this id, or None."""
        return self._run(self._pond.read(Ref(self._collection(view), encode_name(key))))

    def documents(self, view: str) -> dict[str, Document]:
        """All documents of the view's collection, by id."""
        return self._run(self._pond.list_documents(self._collection(view)))

    def letters(self) -> list[Document]:
        """The dead letters: `reason`, `error`, `messageId` and more."""
        return list(self._run(self._pond.list_documents(LETTERS)).values())

    def close(self) -> None:
        self._run(self._pond.close())
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _collection(self, view: str) -> str:
        if view not in self._views:
            raise CheckError(f"there is no view {view!r}: this pond has {', '.join(self._views)}")
        return self._views[view].collection

    def _run(self, call: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await call

        return self._runner.run(awaited())


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise CheckError("this pond is for synchronous tests, and an event loop is running: make the test a plain def")


async def open_pond(views: Sequence[View], settings: settings_module.Settings) -> AsyncPond:
    """The pond behind a synchronous one: the engine and the letters on a store in memory."""
    return _MemoryPond(views, settings)


class _MemoryPond:
    def __init__(self, views: Sequence[View], settings: settings_module.Settings) -> None:
        self._store = MemoryStore()
        self._engine = Engine(
            store=self._store,
            router=Router(views, route_rules(settings)),
            dead_letter_sink=StoredLetters(
                self._store, keep=timestamps.DAY_US, wall_clock=lambda: time.time_ns() // 1_000
            ),
            rules=engine_rules(settings),
            metrics=Metrics(),
        )

    async def handle(self, delivery: Delivery) -> Result:
        return await self._engine.handle(delivery)

    async def read(self, ref: Ref) -> Document | None:
        (snapshot,) = await self._store.read([ref])
        return snapshot.data

    async def list_documents(self, collection: str) -> dict[str, Document]:
        found = await self._store.list_documents(collection, 1_000_000, None)
        return {snapshot.ref.id: snapshot.data or {} for snapshot in found}

    async def close(self) -> None:
        await self._engine.drain()
        await self._store.close()
