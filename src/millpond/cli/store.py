"""Opens the store for a command: for reading, beside any writer; or with a service in this process, under the lock.

Never writes without the lock. Called by the reading commands and by `backend`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from millpond.cli.exit_codes import WrongUsage
from millpond.core.errors import Unreachable
from millpond.core.ports import StoreWithCatalog
from millpond.service import opening
from millpond.service.service import Service
from millpond.service.stores import open_store
from millpond.settings import Settings


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
    """The service in this process. While it is open no server can start on the store, and vice versa.

    The queue has room for `at_once` messages, even if CONSUMER_QUEUE_SIZE, a server's limit, is smaller.
    """
    refuse_memory(settings)
    settings = msgspec.structs.replace(settings, consumer_queue_size=max(settings.consumer_queue_size, at_once))
    # Standard output is for the command's answer; the service's log lines go to standard error.
    async with opening.open_service(settings, sys.stderr.buffer) as service:
        yield service


def refuse_memory(settings: Settings) -> None:
    if settings.store == "memory":
        raise WrongUsage(
            "STORE=memory lives inside its server's process, where no command can open it: name that server with "
            "--url (publish, ingest, tail, get, ls, why, dlq list, dlq show), or use STORE=sqlite:PATH"
        )


def refuse_missing(path: Path | None, hint: str = "") -> None:
    """Raise a clear error if the store's file does not exist: SQLite's own does not say why."""
    if path is not None and not path.exists():
        raise Unreachable(
            f"there is no store at {path} yet: `millpond serve` or `millpond ingest` makes it, "
            f"--store sqlite:PATH names another{hint}"
        )
