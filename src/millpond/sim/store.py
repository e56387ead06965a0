"""The store of the simulated world: a process of its own, shared by all instances, that fails in every way it can.

What it holds is the real memory store. A call travels there, is served, and the answer travels back; the caller may
have died or given up meanwhile, and what it asked for is done all the same. Faults are drawn call by call.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from millpond.core.errors import AccessDenied, StoreError, Unavailable, WriteRefused
from millpond.core.model import Committed, Conflict, LogEntry, Put, Ref, Snapshot, Write
from millpond.sim.facts import UNSTORABLE
from millpond.sim.loop import WORLD, VirtualLoop
from millpond.sim.swarm import Swarm
from millpond.stores.memory import MemoryStore

T = TypeVar("T")
# The client library's: after this long without an answer it says that it got none.
DEADLINE_S = 10.0


class CommittedChange(NamedTuple):
    """A document before and after a commit."""

    old: Snapshot
    new: Snapshot


class Onlooker(Protocol):
    """Who is told of every change, at the moment it is made."""

    def committed(self, changes: Sequence[CommittedChange], log: Sequence[LogEntry]) -> None: ...


class Storehouse:
    """What is stored, and how the store behaves today."""

    def __init__(
        self, seed: int, swarm: Swarm, loop: VirtualLoop, seen: Counter[str], tell: Callable[[str], None]
    ) -> None:
        self.inner = MemoryStore(keeps_log=swarm.keeps_log)
        self.swarm = swarm
        self.loop = loop
        self.seen = seen
        self.faulty = True
        # Whose commit is being made; empty for the world's own.
        self.writer = ""
        # The event loop's time until which nothing is answered.
        self.away_until = 0.0
        self.onlooker: Onlooker | None = None
        self.tell = tell
        self.traced = False
        self._dice = random.Random(f"{seed}/store")  # noqa: S311 - repeatable on purpose

    def get(self, ref: Ref) -> Snapshot:
        return now(self.inner.read([ref]))[0]

    def all_of(self, collection: str) -> list[Snapshot]:
        return now(self.inner.list_documents(collection, 1_000_000, None))

    def log_entries(self, message_id: str) -> list[LogEntry]:
        return now(self.inner.find_events(message_id))

    def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        """Without a way there, nor faults: for the world itself."""
        before = [self.get(write.ref) for write in writes]
        committed = now(self.inner.commit(writes, log))
        if isinstance(committed, Committed) and self.onlooker is not None:
            self.onlooker.committed([CommittedChange(old, self.get(old.ref)) for old in before], log)
        return committed

    def sweep(self, at: int) -> int:
        """Remove what has expired; how many."""
        return now(self.inner.sweep(at, None))

    def happens(self, fault: str, rate: float) -> bool:
        """Whether this goes wrong now."""
        if not self.faulty or rate == 0.0 or self._dice.random() >= rate:
            return False
        self.seen[fault] += 1
        return True

    def latency_s(self) -> float:
        latency_s = self._dice.expovariate(1 / self.swarm.latency_s)
        if self.happens("store stalled", self.swarm.stalled):
            latency_s += self._dice.uniform(1.0, 2 * DEADLINE_S)
        return latency_s


class StoreConnection:
    """The store port, as one instance has it."""

    expires_by_itself = True

    def __init__(self, house: Storehouse, owner: str) -> None:
        self._house = house
        self._owner = owner
        self._loop = house.loop
        self.keeps_log = house.swarm.keeps_log
        self.commits_in_flight_max = house.swarm.commits_in_flight_max
        self.commits_under_way = 0

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        if self._house.swarm.reads_at_once or len(refs) == 1:
            return await self._call("read", lambda: self._read(refs), refs)
        # Each is of a moment after the call began, not all of one.
        middle = len(refs) // 2
        first = await self._call("read", lambda: self._read(refs[:middle]), refs[:middle])
        return first + await self._call("read", lambda: self._read(refs[middle:]), refs[middle:])

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        self.commits_under_way += 1
        try:
            return await self._call("commit", lambda: self._commit(writes, log), [write.ref for write in writes])
        finally:
            self.commits_under_way -= 1

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        page = partial(self._house.inner.list_documents, collection, limit, after)
        return await self._call("list", lambda: now(page()), [Ref(collection, "*")])

    async def _call(self, what: str, serve: Callable[[], T], refs: Sequence[Ref] = ()) -> T:
        answer: asyncio.Future[T] = self._loop.create_future()
        self._loop.call_later(self._house.latency_s(), self._serve, what, serve, answer, refs, context=WORLD)
        self._loop.call_later(DEADLINE_S, self._expire, answer, context=WORLD)
        return await answer

    def _serve(self, what: str, serve: Callable[[], T], answer: asyncio.Future[T], refs: Sequence[Ref]) -> None:
        """The call has arrived. From here on it is the store's, whatever becomes of the caller."""
        house, swarm = self._house, self._house.swarm
        if self._loop.time() < house.away_until:
            return
        result: T | None = None
        error: StoreError | None = None
        if house.happens("access denied", swarm.denied):
            error = AccessDenied("not today", code="PERMISSION_DENIED")
        elif house.happens(f"{what} failed", swarm.failed_before if what == "commit" else swarm.read_failed):
            error = Unavailable("try again", code="UNAVAILABLE")
        else:
            try:
                result = serve()
            except WriteRefused as refusal:
                error = refusal
        if house.traced:
            house.tell(f"{self._owner} {what} {_listed(refs)}: {self._shown(result, error, answer)}")
        if what == "commit" and error is None:
            if answer.done() and isinstance(result, Committed):
                house.seen["committed after its caller gave up"] += 1
            if house.happens("commit reply lost", swarm.reply_lost):
                return
            if house.happens("commit failed after it was applied", swarm.failed_after):
                error = Unavailable("try again", code="UNAVAILABLE")
        self._loop.call_later(house.latency_s(), _answer, answer, result, error, context=WORLD)

    def _read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        return [self._house.get(ref) for ref in refs]

    def _commit(self, writes: Sequence[Write], log: Sequence[LogEntry]) -> Committed | Conflict:
        house = self._house
        for write in writes:
            if isinstance(write, Put) and UNSTORABLE in write.data.values():
                house.seen["write refused"] += 1
                raise WriteRefused(f"{write.ref.path} cannot be stored", code="INVALID_ARGUMENT")
        house.writer = self._owner
        try:
            committed = house.commit(writes, log)
        finally:
            house.writer = ""
        if isinstance(committed, Conflict):
            house.seen["conflict"] += 1
            if not house.swarm.names_culprits:
                return Conflict()
        return committed

    def _shown(self, result: object, error: StoreError | None, answer: asyncio.Future[Any]) -> str:
        """How a call ended, for a trace."""
        if error is not None:
            shown = type(error).__name__
        elif isinstance(result, list):
            shown = ", ".join(_source_of(snapshot) for snapshot in sorted(result, key=lambda found: found.ref))
        else:
            shown = type(result).__name__
        return f"{shown}, and nobody waits for it any more" if answer.done() else shown

    def _expire(self, answer: asyncio.Future[Any]) -> None:
        _answer(answer, None, Unavailable("no answer in time", code="DEADLINE_EXCEEDED"))


def _answer(answer: asyncio.Future[T], result: T | None, error: StoreError | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
        # Looked at: whoever asked may be dead, and that is no reason to complain.
        answer.exception()
    else:
        answer.set_result(result)  # type: ignore[arg-type]


def _listed(refs: Sequence[Ref]) -> str:
    return ", ".join(sorted(ref.path for ref in refs)) or "the log alone"


def _source_of(snapshot: Snapshot) -> str:
    """Whose document it is, so that a trace tells who has seen what."""
    document = snapshot.data
    if document is None:
        return "absent"
    source = document.get("source")
    return f"of {source['messageId']}" if isinstance(source, dict) else "there"


def now(call: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing, such as the memory store's."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("the memory store waits for nothing")
