"""`Pond`: Millpond inside another program, without a server of its own.

    pond = Pond(views=[Orders()], store="sqlite:orders.db")
    app = FastAPI(lifespan=pond.lifespan)
    app.mount("/millpond", pond.app)

Owns the start and the stop of one service inside a host's event loop. Never touches what belongs to the host:
signal handlers, the set-up of logging, the garbage collector, the kind of event loop, `sys.path`, the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from millpond.core.errors import InvalidEvent, MillpondError, StoreError, UsageError
from millpond.core.model import Delivery, Document, Ref, Result
from millpond.core.suggest import suggest
from millpond.core.view import TOMBSTONE, View
from millpond.http.embedded import EmbeddedApp, refuse
from millpond.ingress.in_process import check_delivery, micros, new_delivery
from millpond.ingress.oidc import build_guard
from millpond.ingress.push import Receive, Scope, Send
from millpond.service.opening import open_service
from millpond.service.service import Service
from millpond.service.views import given_views, load_views
from millpond.settings import Settings
from millpond.settings.embedded import embedded_settings
from millpond.stores.sqlite.lock import StoreInUse

LOGGER = "millpond"
# How long the stop waits for requests that are being answered, after every message is settled.
_REQUESTS_S = 2.0
_LOOK_S = 0.2
_NOT_RUNNING = "this pond is not running: use `async with pond:`, or give lifespan=pond.lifespan to the application"
# Fields that Millpond adds to a document.
_ADDED = frozenset({"source", "expireAt", "ingestedAt"})


class _Running(NamedTuple):
    service: Service
    app: EmbeddedApp
    loop: asyncio.AbstractEventLoop


class Pond:
    """Views on a store, for as long as the host runs. It may be started again after it was stopped."""

    def __init__(
        self,
        views: Sequence[View | type[View] | str] | None = None,
        *,
        store: str | Settings | None = None,
        settings: Settings | Mapping[str, object] | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        """Check the arguments; nothing is opened yet. Raises SettingsError.

        `views`: view objects, view classes or names of modules, and exactly those; without it the built-in views
        and those that VIEWS names. `store`: "sqlite:PATH", "memory", "firestore", or a `Settings` object, which has
        its own. `settings`: values by name, as docs/settings.md lists them, or a `Settings` object. Environment
        variables have no effect, unless `load_settings()` reads them. `logger`: where log lines go, by default
        `logging.getLogger("millpond")`.
        """
        self._settings = embedded_settings(store, settings, built_in=views is None)
        self._views = load_views(self._settings) if views is None else given_views(views, self._settings)
        self._logger = logger or logging.getLogger(LOGGER)
        self._context: contextlib.AbstractAsyncContextManager[_Running] | None = None
        self._running: _Running | None = None
        self._last_publish_time = 0

    # --- from start to stop ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Start. Raises MillpondError if the store cannot be opened or is in use; nothing is open then."""
        if self._context is not None:
            raise UsageError("this pond is running already: it can be started again only after it was stopped")
        self._context = self._run()
        try:
            self._running = await self._context.__aenter__()
        except BaseException:
            self._context = None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop: settle every accepted message, close the store, release its lock. Not interrupted if cancelled."""
        context, running, self._running = self._context, self._running, None
        if context is None or running is None:
            raise UsageError(_NOT_RUNNING)
        try:
            await _to_the_end(asyncio.ensure_future(context.__aexit__(None, None, None)))
        finally:
            self._context = None

    @contextlib.asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:  # noqa: ARG002 - as Starlette calls it
        """For `Starlette(lifespan=…)` and `FastAPI(lifespan=…)`: runs while the application does."""
        async with self:
            yield

    @contextlib.asynccontextmanager
    async def _run(self) -> AsyncIterator[_Running]:
        async with self._open() as service:
            app = EmbeddedApp(service, build_guard(self._settings, service.log))
            service.start()
            loop = asyncio.get_running_loop()
            watching = loop.create_task(_end_streams_with_host(service))
            try:
                yield _Running(service, app, loop)
            finally:
                watching.cancel()
                service.monitor.stop()
                await service.drain()
                await app.idle(_REQUESTS_S)
                await asyncio.gather(watching, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[Service]:
        opening = open_service(self._settings, self._logger, self._views)
        try:
            service = await opening.__aenter__()
        except StoreInUse as error:
            raise _in_use(error) from None
        except StoreError as error:
            text = f"the store {self._settings.store} cannot be opened: {error}"
            raise StoreError(text, error.code) from error
        try:
            yield service
        finally:
            await opening.__aexit__(None, None, None)

    def _service(self) -> Service:
        running = self._running
        if running is None:
            raise UsageError(_NOT_RUNNING)
        if asyncio.get_running_loop() is not running.loop:
            raise UsageError(
                "this pond runs on another event loop: call it there, or with asyncio.run_coroutine_threadsafe"
            )
        return running.service

    # --- messages and documents -----------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        payload: Mapping[str, Any],
        *,
        event_id: str | None = None,
        attributes: Mapping[str, str] | None = None,
        publish_time: dt.datetime | None = None,
        message_id: str | None = None,
    ) -> Result:
        """Publish an event to the views of a topic. Its result is durable: applied, or known, or a dead letter.

        Raises UsageError for a wrong argument, and the error of the message if it could not be settled (Overloaded,
        StoreError, …): publish it again then, with the same `event_id` or `message_id` if it must count once.
        """
        service = self._service()
        at = self._next_publish_time() if publish_time is None else micros(publish_time)
        delivery = new_delivery(
            topic, payload, publish_time=at, event_id=event_id, attributes=attributes, message_id=message_id
        )
        topics = service.engine.router.topics
        if topics.known(topic) is None:
            hint = suggest(topic, topics.feeding)
            raise UsageError(f'no view of this pond feeds on the topic "{topic:.80}"; {hint}')
        result = await service.handle(delivery)
        if not result.settled:
            error = result.error or MillpondError(f"the message was not settled: {result.reason}")
            raise error.with_traceback(None)
        return result

    async def handle(self, delivery: Delivery) -> Result:
        """Take a message as a broker delivered it. Acknowledge it only if the result is `settled`."""
        service = self._service()
        check_delivery(delivery)
        return await service.handle(delivery)

    async def get(self, view: str, key: object) -> Document | None:
        """A view's document by the parts of its key, one or a tuple; None if it does not exist or was deleted."""
        service = self._service()
        found = next((known for known in service.views if known.name == view), None)
        if found is None:
            hint = suggest(str(view), (known.name for known in service.views))
            raise UsageError(f'this pond has no view "{view!s:.80}"; {hint}')
        (snapshot,) = await service.store.read([_ref(found, key)])
        data = snapshot.data
        return None if data is None or _is_tombstone(data) else data

    def _next_publish_time(self) -> int:
        """Now, and later than the last one: of two events without times the one published last must win."""
        self._last_publish_time = max(self._last_publish_time + 1, time.time_ns() // 1_000)
        return self._last_publish_time

    # --- HTTP -----------------------------------------------------------------------------------------------------

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application: push, API, dashboard, health and metrics. Mount it under any path."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        if scope["type"] != "http":
            return
        running = self._running
        if running is not None and running.loop is asyncio.get_running_loop():
            await running.app(scope, receive, send)
        else:
            answer = refuse(503, "not_running", _NOT_RUNNING)
            await answer(scope, receive, send)


def _ref(view: View, key: object) -> Ref:
    if type(view).collection_of is not View.collection_of or type(view).id_of is not View.id_of:
        raise UsageError(
            f"the view {view.name} chooses collections or ids itself: read its documents by their path"
        )
    parts = key if isinstance(key, tuple | list) else (key,)
    if not parts or not all(isinstance(part, str | int | float) and not isinstance(part, bool) for part in parts):
        raise UsageError(f"the key of a document of {view.name} must be text, or a tuple of texts")
    declared = 1 if isinstance(view.key, str) else len(view.key)
    if type(view).key_of is View.key_of and len(parts) != declared:
        raise UsageError(f"the key of {view.name} has {declared} parts ({view.key}), not {len(parts)}")
    try:
        return Ref(view.collection, view.id_from([str(part) for part in parts]))
    except InvalidEvent as error:
        raise UsageError(f"this is no key of {view.name}: {error}") from None


def _is_tombstone(data: Document) -> bool:
    return {name: value for name, value in data.items() if name not in _ADDED} == TOMBSTONE


def _in_use(error: StoreInUse) -> StoreInUse:
    if error.holder.pid == os.getpid():
        advice = "that is this process, so another pond has it open. Use one pond, or give each a store of its own"
    else:
        advice = (
            "one process writes to an SQLite store. Run the host with one worker, stop the other process, "
            'or use store="firestore"'
        )
    return StoreInUse(error.path, error.holder, advice)


async def _to_the_end(task: asyncio.Future[Any]) -> None:
    """Wait until the task is done, also if the caller is cancelled meanwhile: half a stop leaves things open."""
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError from task.exception()
    task.result()


async def _end_streams_with_host(service: Service) -> None:
    """End the streams of open pages when the host's server begins to stop.

    uvicorn ends a lifespan only when every connection is closed, and a stream ends only with its server: each would
    wait for the other. uvicorn's handler of SIGTERM is a method of its server, which says when it stops. It is only
    read; with another server, its own time limit ends the streams.
    """
    while not _host_is_stopping():  # noqa: ASYNC110 - uvicorn offers no event to wait for
        await asyncio.sleep(_LOOK_S)
    service.monitor.stop()


def _host_is_stopping() -> bool:
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return getattr(server, "should_exit", False) is True
