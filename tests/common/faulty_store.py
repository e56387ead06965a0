"""A store around another: one with faults on demand and a record of its calls, and the base for others.

The benchmarks' servers load this, so it imports neither pytest nor a client library.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millpond.core.errors import WriteRefused
from millpond.core.model import Committed, Conflict, LogEntry, Put, Ref, Snapshot, Write
from millpond.core.ports import StoreWithCatalog
from millpond.stores.memory import MemoryStore

if TYPE_CHECKING:
    # For the type checker; at run time `__getattr__` passes on what a subclass leaves out.
    _Port = MemoryStore
else:
    _Port = object


class StoreAround(_Port):
    """A store like the one inside it; a subclass changes the calls that it is about."""

    def __init__(self, inner: StoreWithCatalog) -> None:
        self.inner = inner

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)


class FaultyStore(StoreAround):
    """Faults on demand, and a record of every call; a memory store unless another is given."""

    def __init__(self, in_flight_max: int = 8, inner: StoreWithCatalog | None = None) -> None:
        super().__init__(MemoryStore() if inner is None else inner)
        self.commits_in_flight_max = in_flight_max
        # What the next calls raise, before or after they are applied; None raises nothing.
        self.before: list[BaseException | None] = []
        self.after: list[BaseException | None] = []
        # Documents with one of these under `status` are refused.
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
        return await self.inner.read(refs)

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        self.commits.append(writes)
        self.commits_running += 1
        self.commits_at_once = max(self.commits_at_once, self.commits_running)
        await asyncio.sleep(self.commit_s)
        await self.gate.wait()
        self.commits_running -= 1
        raise_next(self.before)
        for write in writes:
            if isinstance(write, Put) and write.data.get("status") in self.refused:
                raise WriteRefused(f"{write.ref.path} is refused", code="INVALID_ARGUMENT")
        committed = await self.inner.commit(writes, log)
        raise_next(self.after)
        return committed

    def writes_of(self, path: str) -> int:
        return sum(write.ref.path == path for writes in self.commits for write in writes)


def raise_next(faults: list[BaseException | None]) -> None:
    """Raise the first of the faults, if there is one, and take it off the list."""
    fault = faults.pop(0) if faults else None
    if fault is not None:
        raise fault
