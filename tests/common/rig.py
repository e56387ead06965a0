"""A whole service in this process, on any store: quick retries, and a clock that moves when it is told to.

Tests build a service, and with it an engine, here and nowhere else.
"""

from __future__ import annotations

import asyncio
import functools
import io
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Self, TypeVar

import msgspec

from millpond import settings as settings_module
from millpond.core import timestamps
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Committed, Delete, Delivery, Document, Put, Ref, Result, Snapshot, Write
from millpond.core.ports import DeadLetterSink, StoreWithCatalog
from millpond.core.route import Router
from millpond.core.view import View
from millpond.engine.engine import Engine
from millpond.ingress.push import Headers, PushEndpoint
from millpond.service.rules import engine_rules
from millpond.service.service import Service
from millpond.service.views import load_views
from tests.common.faulty_store import FaultyStore
from tests.common.pond import NOW, named
from tests.common.push import push_bytes

S = TypeVar("S", bound=StoreWithCatalog)
JSON: Headers = [(b"content-type", b"application/json")]
_QUICK = {
    "STORE": "memory",
    "FIRESTORE_RETRY_INITIAL_BACKOFF_S": "0.001",
    "FIRESTORE_RETRY_MAX_BACKOFF_S": "0.002",
}


WriteLetter = Callable[[Item], Awaitable[DeadLetter]]


class Sink:
    """A dead-letter sink that is one function."""

    def __init__(self, write_letter: WriteLetter) -> None:
        self._write_letter = write_letter

    async def write_letter(self, item: Item) -> DeadLetter:
        return await self._write_letter(item)

    async def close(self) -> None:
        """Nothing is open."""


class Rig(Generic[S]):
    """One instance. Others may work on the same store."""

    def __init__(
        self,
        store: S,
        views: Sequence[View] | None = None,
        wall_clock: Callable[[], int] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        /,
        **environment: str,
    ) -> None:
        self.now = NOW
        self.store = store
        self.output = io.BytesIO()
        self.settings = settings_module.load({**_QUICK, **environment})
        self._clocks = ((lambda: self.now) if wall_clock is None else wall_clock, monotonic)
        self._views = None if views is None else named(views)
        self._rules = engine_rules(self.settings)
        self._sink: DeadLetterSink | None = None

    @functools.cached_property
    def service(self) -> Service:
        """Built at its first use: views, limits and the sink are chosen before."""
        return Service(
            self.settings,
            self.store,
            self.output,
            *self._clocks,
            views=self._views,
            dead_letter_sink=self._sink,
            rules=self._rules,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Finish what was begun. The store stays open: another instance may follow on it."""
        await self.engine.drain()
        self.service.log.close()

    @property
    def engine(self) -> Engine:
        return self.service.engine

    @property
    def router(self) -> Router:
        return self.engine.router

    @functools.cached_property
    def endpoint(self) -> PushEndpoint:
        return PushEndpoint(self.engine, self.service.outcomes)

    def use(self, *views: View) -> None:
        """Feed these views, instead of those of the settings."""
        self._assert_unused()
        self._views = named(views)

    def add(self, *views: View) -> None:
        """Feed these views as well as those of the settings."""
        self.use(*load_views(self.settings), *views)

    def limit(self, **rules: Any) -> None:
        """Set other limits than those of the settings."""
        self._assert_unused()
        self._rules = msgspec.structs.replace(self._rules, **rules)

    def bury_in(self, sink: DeadLetterSink) -> None:
        """Bury dead letters there, instead of in the store."""
        self._assert_unused()
        self._sink = sink

    def bury_with(self, write_letter: WriteLetter) -> None:
        """Bury dead letters with this function."""
        self.bury_in(Sink(write_letter))

    def _assert_unused(self) -> None:
        assert "service" not in self.__dict__, "the service is in use already"

    async def send(self, *messages: Delivery) -> list[Result]:
        """All of them at once."""
        return list(await asyncio.gather(*(self.engine.handle(message) for message in messages)))

    async def take(self, *messages: Delivery) -> list[Result]:
        """One after the other, each durable before the next."""
        return [await self.engine.handle(message) for message in messages]

    async def push(self, *messages: Delivery) -> list[tuple[int, Any]]:
        """All of them at once, as Pub/Sub pushes them; status and answer of each."""
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[tuple[int, Any]]] = [loop.create_future() for _ in messages]
        for message, answer in zip(messages, answers, strict=True):
            respond = functools.partial(self._respond, message, answer)
            self.endpoint.accept("POST", JSON, pushed(message), respond)
        return list(await asyncio.gather(*answers))

    def _respond(
        self, message: Delivery, answer: asyncio.Future[tuple[int, Any]], status: int, _: Headers, body: bytes
    ) -> None:
        content = json.loads(body)
        self.on_answer(message, status, content)
        answer.set_result((status, content))

    def on_answer(self, message: Delivery, status: int, answer: Any) -> None:
        """Called before anything else can happen; for subclasses."""

    async def snapshot(self, path: str) -> Snapshot:
        """What the store holds, past the faults and records of a store around it."""
        (found,) = await getattr(self.store, "inner", self.store).read([ref(path)])
        assert isinstance(found, Snapshot)
        return found

    async def document(self, path: str) -> Any:
        return (await self.snapshot(path)).data

    async def put(self, path: str, document: Document) -> None:
        """Another writer replaces a document."""
        await self._commit(Put(ref(path), (await self.snapshot(path)).version, document))

    async def damage(self, path: str, **fields: object) -> None:
        """Another writer changes fields of a document."""
        found = await self.snapshot(path)
        assert found.data is not None
        await self._commit(Put(found.ref, found.version, {**found.data, **fields}))

    async def delete(self, path: str) -> None:
        found = await self.snapshot(path)
        assert found.version is not None
        await self._commit(Delete(found.ref, found.version))

    async def _commit(self, write: Write) -> None:
        assert isinstance(await self.store.commit([write]), Committed)

    def lines(self) -> list[dict[str, Any]]:
        """Every line of the log, which ends with this."""
        self.service.log.close()
        return [json.loads(line) for line in self.output.getvalue().splitlines()]


class Bench(Rig[FaultyStore]):
    """A rig on a store with faults. Its messages have time enough for a machine that stalls for seconds."""

    def __init__(self, store: FaultyStore, **environment: str) -> None:
        super().__init__(
            store, **{"FIRESTORE_RETRY_MAX_TOTAL_S": "30", "CONSUMER_QUEUE_SIZE": "1000", **environment}
        )


def ref(path: str) -> Ref:
    return Ref(*path.rsplit("/", 1))


def pushed(message: Delivery) -> bytes:
    """The message as Pub/Sub pushes it."""
    published = timestamps.to_text(message.publish_time)
    names = {"message_id": message.message_id, "subscription": message.subscription}
    return push_bytes(message.data or b"", published=published, attributes=dict(message.attributes), **names)
