"""Opens a service in this process, under the store's lock, and closes all of it. For `Pond` and commands."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import BinaryIO

from millpond.core.view import View
from millpond.service.service import Service
from millpond.service.stores import lock_store, open_store
from millpond.settings import Settings


@contextlib.asynccontextmanager
async def open_service(
    settings: Settings, log_output: BinaryIO | logging.Logger, views: Sequence[View] | None = None
) -> AsyncIterator[Service]:
    """The service, not started. While it is open no other process can write to an embedded store.

    If it cannot be opened, nothing stays open: neither the store nor its lock.
    """
    with _locked(settings):
        store = open_store(settings)
        try:
            service = Service(settings, store, log_output, views=views)
        except BaseException:
            await store.close()
            raise
        try:
            yield service
        finally:
            await service.close()


@contextlib.contextmanager
def _locked(settings: Settings) -> Iterator[None]:
    lock = lock_store(settings)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()
