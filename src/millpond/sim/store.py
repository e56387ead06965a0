"""The simulated store: the real memory store behind a connection that fails, shared by all instances.

A call takes time to arrive, is served, and its answer takes time to return. The caller may have died or timed out
meanwhile; the call is served anyway. Faults are drawn for each call. Owned by `world.py`.
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
from millpond.sim.facts import START, UNSTORABLE
from millpond.sim.virtual_time import WORLD, VirtualLoop
from millpond.sim.world_parameters import Swarm
from millpond.stores.firestore.segments import decode_segment, encode_segments
from millpond.stores.log_merge import merge_entries
from millpond.stores.memory import MemoryStore

T = TypeVar("T")
# The client library's timeout: without an answer for this long, it raises an error.
DEADLINE_S = 10.0


class CommittedChange(NamedTuple):
    """A document before and after a commit."""

    old: Snapshot
    new: Snapshot


class CommitObserver(Protocol):
    """Called with every change, at the moment of the commit."""

    def committed(self, changes: Sequence[CommittedChange], log: Sequence[LogEntry]) -> None: ...


class Storehouse:
    """The stored documents, and the store's current faults."""

    def __init__(
        self, seed: int, swarm: Swarm, loop: VirtualLoop, seen: Counter[str], tell: Callable[[str], None]
    ) -> None:
        self.inner = MemoryStore(keeps_log=swarm.keeps_log)
        self.swarm = swarm
        self.loop = loop
        self.seen = seen
        self.faulty = True
        # What the clocks say when the event loop's time is zero.
        self.start = START
        # The instance whose commit is being applied; empty for the world's own.
        self.writer = ""
        # The store answers nothing before this time of the event loop.
        self.away_until = 0.0
        self.observer: CommitObserver | None = None
        # The log as Firestore keeps it beside the one of `inner`: the time of each segment, and its entries.
        self._segments: list[tuple[int, list[LogEntry]]] = []
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
        """Commit at once, without latency or faults: for the world itself."""
        before = [self.get(write.ref) for write in writes]
        committed = now(self.inner.commit(writes, log))
        if isinstance(committed, Committed):
            if self.swarm.keeps_log:
                self._append_segments(log)
            if self.observer is not None:
                self.observer.committed([CommittedChange(old, self.get(old.ref)) for old in before], log)
        return committed

    def _append_segments(self, log: Sequence[LogEntry]) -> None:
        at = max((entry.arrived_at for entry in log), default=0)
        for put in encode_segments(log, at, None):
            self._segments.append((at, decode_segment(Snapshot(put.ref, None, put.data))))

    def merged_log(self) -> dict[str, list[LogEntry]]:
        """The entries of each message id, as they are read from segments."""
        in_order = sorted(self._segments, key=lambda segment: segment[0])
        merged: dict[str, list[LogEntry]] = {}
        for message in merge_entries(entry for _, entries in in_order for entry in entries):
            merged.setdefault(message.entry.delivery.message_id, []).append(message.entry)
        return merged

    def sweep(self, at: int) -> int:
        """Remove expired documents. Returns how many."""
        return now(self.inner.sweep(at, None))

    def happens(self, fault: str, rate: float) -> bool:
        """Draw whether this fault happens now."""
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
    """The store port of one instance."""

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
        # Each snapshot is from some moment after the call began, not all from the same one.
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
        """The call has arrived. It is served even if the caller has died or timed out."""
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
                return unnamed(committed, writes)
        return committed

    def _shown(self, result: object, error: StoreError | None, answer: asyncio.Future[Any]) -> str:
        """How a call ended, for a trace."""
        if error is not None:
            shown = type(error).__name__
        elif isinstance(result, list):
            shown = ", ".join(_source_of(snapshot) for snapshot in sorted(result, key=lambda found: found.ref))
        else:
            shown = type(result).__name__
        return f"{shown}, and its caller no longer waits" if answer.done() else shown

    def _expire(self, answer: asyncio.Future[Any]) -> None:
        _answer(answer, None, Unavailable("no answer in time", code="DEADLINE_EXCEEDED"))


def unnamed(conflict: Conflict, writes: Sequence[Write]) -> Conflict:
    """The conflict as Firestore tells it: no document is named, only whether one exists that was to be created."""
    return Conflict(exists=any(write.base is None and write.ref in conflict.refs for write in writes))


def _answer(answer: asyncio.Future[T], result: T | None, error: StoreError | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
        # Mark the error as retrieved: the caller may be dead, and asyncio must not report that.
        answer.exception()
    else:
        answer.set_result(result)  # type: ignore[arg-type]


def _listed(refs: Sequence[Ref]) -> str:
    return ", ".join(sorted(ref.path for ref in refs)) or "the log alone"


def _source_of(snapshot: Snapshot) -> str:
    """The message a document comes from, so that a trace shows what each instance saw."""
    document = snapshot.data
    if document is None:
        return "absent"
    source = document.get("source")
    return f"of {source['messageId']}" if isinstance(source, dict) else "there"


def now(call: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends, such as the memory store's."""
    try:
        call.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("the memory store waits for nothing")
