"""The store without a server: open for reading beside whoever writes, or the whole service under the lock."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

import msgspec

from millpond.cli.exits import WrongUsage
from millpond.cli.retry import PATIENCE_S
from millpond.cli.server import refuse_missing
from millpond.core.errors import Overloaded, SettingsError, Unavailable
from millpond.core.model import Result
from millpond.core.ports import StoreWithCatalog
from millpond.service.service import Service
from millpond.service.stores import open_store
from millpond.settings import Settings
from millpond.stores.sqlite.lock import StoreLock

T = TypeVar("T")
_ROOM_PAUSE_S = 0.01
_AWAY_PAUSE_S = 0.5


@contextlib.asynccontextmanager
async def open_for_reading(settings: Settings) -> AsyncIterator[StoreWithCatalog]:
    refuse_memory(settings)
    refuse_missing(settings.store_path)
    store = open_store(settings, read_only=True)
    try:
        yield store
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def open_service(settings: Settings, at_once: int) -> AsyncIterator[Service]:
    """The service in this process. While it is open no server can start on the store, and the reverse.

    `at_once` messages find room, whatever CONSUMER_QUEUE_SIZE says: that is a server's limit, ours is the caller's.
    """
    refuse_memory(settings)
    settings = msgspec.structs.replace(settings, consumer_queue_size=max(settings.consumer_queue_size, at_once))
    with _locked(settings):
        # Standard output belongs to the command's answer; what the service has to say goes to standard error.
        service = Service(settings, open_store(settings), sys.stderr.buffer)
        try:
            yield service
        finally:
            await service.close()


async def when_there_is_room(call: Callable[[], Awaitable[T]]) -> T:
    """Wait instead of being turned away: big messages fill the room by bytes before they fill it by number."""
    while True:
        try:
            return await call()
        except Overloaded:
            await asyncio.sleep(_ROOM_PAUSE_S)


async def settled(call: Callable[[], Awaitable[Result]]) -> Result:
    """The result, tried for a minute while the store is away: a command has nobody who would send it again."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + PATIENCE_S
    while True:
        result = await when_there_is_room(call)
        if not isinstance(result.error, Unavailable) or result.settled or loop.time() >= give_up_at:
            return result
        await asyncio.sleep(_AWAY_PAUSE_S)


def refuse_memory(settings: Settings) -> None:
    if settings.store == "memory":
        raise WrongUsage(
            "STORE=memory lives inside the server's process: ask the server over HTTP (GET /api/collections), "
            "or use STORE=sqlite:PATH"
        )


@contextlib.contextmanager
def _locked(settings: Settings) -> Iterator[None]:
    path = settings.store_path
    if path is None:
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = StoreLock(path)
    except OSError as error:
        raise SettingsError(
            "STORE", settings.store, f"cannot be written: {error.strerror}: {error.filename}"
        ) from None
    try:
        yield
    finally:
        lock.release()
