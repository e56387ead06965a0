"""A store that records the success or failure of its calls in `StoreHealth`, and changes nothing else.

The engine, dead letters, flow runs, rebuilds and moved ids use the store through it. Listings for people are not
recorded. A `CallMeter` is told of each read and commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Protocol, Self, TypeVar

from millpond.core.errors import StoreError, Unavailable, WriteRefused
from millpond.core.log_filter import LogFilter
from millpond.core.model import Committed, Conflict, LogEntry, LogPage, Ref, Snapshot, Write
from millpond.core.ports import StoreWithCatalog
from millpond.stores.health import Call, StoreHealth

T = TypeVar("T")


class CallMeter(Protocol):
    """Is told how many documents a call had, how long a commit took, and the error's code if it failed."""

    def read(self, documents: int, code: str | None) -> None: ...

    def committed(self, writes: int, took_s: float, code: str | None) -> None: ...


class ObservedStore:
    def __init__(self, inner: StoreWithCatalog, health: StoreHealth, meter: CallMeter | None = None) -> None:
        self._inner = inner
        self._health = health
        self._meter = meter
        self.commits_in_flight_max = inner.commits_in_flight_max
        self.keeps_log = inner.keeps_log
        self.expires_by_itself = inner.expires_by_itself

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        if self._meter is None:
            return await self._observe(Call.READ, self._inner.read(refs))
        code: str | None = None
        try:
            return await self._observe(Call.READ, self._inner.read(refs))
        except StoreError as error:
            code = error.code
            raise
        finally:
            self._meter.read(len(refs), code)

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        if self._meter is None:
            return await self._observe(Call.COMMIT, self._inner.commit(writes, log))
        clock = asyncio.get_running_loop().time
        began, code = clock(), None
        try:
            return await self._observe(Call.COMMIT, self._inner.commit(writes, log))
        except StoreError as error:
            code = error.code
            raise
        finally:
            # The log entries of a commit are one document.
            self._meter.committed(len(writes) + bool(log), clock() - began, code)

    async def try_write(self) -> bool:
        try:
            found = await self._inner.try_write()
        except StoreError as error:
            self._health.failed(Call.COMMIT, error)
            raise
        if found:
            self._health.succeeded(Call.COMMIT)
        return found

    # Called every few seconds, also while no message arrives: they show an idle service that its store is away.

    async def count_documents(self, collection: str) -> int:
        return await self._observe(Call.READ, self._inner.count_documents(collection))

    async def collections(self) -> list[tuple[str, int]]:
        return await self._observe(Call.READ, self._inner.collections())

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        return await self._inner.list_documents(collection, limit, after)

    async def find_events(self, any_id: str) -> list[LogEntry]:
        return await self._inner.find_events(any_id)

    async def list_events(self, wanted: LogFilter, limit: int, before: str | None) -> LogPage:
        return await self._inner.list_events(wanted, limit, before)

    async def count_events(self) -> dict[str, dict[str, int]]:
        return await self._inner.count_events()

    async def read_log(self, after: str | None, limit: int) -> LogPage:
        return await self._inner.read_log(after, limit)

    async def sweep(self, now: int, events_before: int | None) -> int:
        return await self._inner.sweep(now, events_before)

    async def snapshot(self) -> Self | None:
        inner = await self._inner.snapshot()
        return None if inner is None else type(self)(inner, self._health)

    async def close(self) -> None:
        await self._inner.close()

    async def _observe(self, call: Call, asked: Awaitable[T]) -> T:
        try:
            answer = await asked
        except WriteRefused:
            # The write is at fault, not the store. Most are refused before the store is called.
            raise
        except StoreError as error:
            self._health.failed(call, error)
            raise
        except asyncio.CancelledError:
            # The engine cancels a call that takes longer than its messages may wait.
            text = "no answer from the store in the time that was left"
            self._health.failed(call, Unavailable(text, code="DEADLINE_EXCEEDED"))
            raise
        # A conflict counts as success: the store has answered.
        self._health.succeeded(call)
        return answer
