"""Small simulated worlds: the real engine, router, plan, letters and memory store on virtual time.

The store loses replies and fails, the engine dies and is started anew. What the documents then are is compared with
the reference. Everything that does not change between worlds is made once. Called by `check` and `shrink`.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from millpond.core.collections import RECEIPTS, is_own
from millpond.core.document import same_value
from millpond.core.errors import Unavailable
from millpond.core.model import (
    Committed,
    Conflict,
    Delete,
    Delivery,
    Document,
    LogEntry,
    Outcome,
    Ref,
    Result,
    Snapshot,
    Write,
)
from millpond.core.receipts import Receipts
from millpond.core.route import Router, RouteRules
from millpond.core.timestamps import DAY_US, SECOND_US
from millpond.core.view import View
from millpond.dead_letters.store import StoredLetters
from millpond.engine.engine import Engine
from millpond.engine.rules import EngineRules
from millpond.sim.store import now as finished
from millpond.sim.virtual_time import Process, VirtualLoop
from millpond.stores.memory import MemoryStore
from millpond.telemetry.metrics import Metrics
from millpond.testing.reference import OURS, Take, fold
from millpond.testing.script import REPLAYED, WITHOUT_RECEIPTS, Script

_TIME_MAX_S = 3_600.0
_TRIES_MAX = 30


class WrongDocument(NamedTuple):
    """A document is not what it must be; None if it does not exist, or should not."""

    ref: Ref
    expected: Document | None
    found: Document | None
    when: str


class WorldBroke(Exception):
    """A world did not come to its end: a message has no final result."""

    def __init__(self, message: Delivery, reason: str) -> None:
        super().__init__(reason)
        self.message = message


class Pool(NamedTuple):
    """Every message that worlds may deliver, with its meaning; those of one event in a row."""

    messages: Sequence[Delivery]
    takes: Sequence[Take]


class Workbench:
    """Runs worlds for one view."""

    def __init__(self, view: View, pool: Pool, rules: RouteRules) -> None:
        self._view = view
        self._pool = pool
        self._router = Router([view], rules)
        self._metrics = Metrics()
        published = [message.publish_time for message in pool.messages]
        self._now = max(published) + SECOND_US
        # No receipt may expire: events are as old as the data says, and worlds take seconds.
        oldest = min([*published, *(min(one.rank[0], one.rank[1]) for one in pool.takes if one.rank[0])])
        keep = self._now - max(oldest, 0) + 7 * DAY_US
        self._rules = {
            size: EngineRules(
                queue_size=10_000, batch_count_max=size, poison_policy="park", receipts=Receipts(keep=keep)
            )
            for size in (1, 2, 500)
        }

    def run(self, script: Script) -> WrongDocument | None:
        """The first document that differs from the reference, or None. Raises WorldBroke."""
        expected = fold(self._view, [self._pool.takes[message] for message in dict.fromkeys(script.arrivals)])
        return _World(self, script).run(expected)

    def engine(self, store: _ShakyStore, loop: VirtualLoop, script: Script, dice: random.Random) -> Engine:
        def wall_clock() -> int:
            return self._now + round(loop.time() * SECOND_US)

        marks = count()
        letters = StoredLetters(
            store, keep=14 * DAY_US, wall_clock=wall_clock, new_mark=lambda: f"{next(marks)}", jitter=dice
        )
        return Engine(
            store=store,
            router=self._router,
            dead_letter_sink=letters,
            rules=self._rules[script.batch_max],
            metrics=self._metrics,
            wall_clock=wall_clock,
            jitter=dice,
        )

    def message(self, number: int) -> Delivery:
        return self._pool.messages[number]


class _ShakyStore:
    """The memory store behind a connection that fails as the script says."""

    commits_in_flight_max = 8
    keeps_log = False

    def __init__(self, inner: MemoryStore, script: Script) -> None:
        self._inner = inner
        self._script = script
        self._commits = 0

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        return await self._inner.read(refs)

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        number, self._commits = self._commits, self._commits + 1
        await asyncio.sleep(0)
        if number in self._script.refused:
            raise Unavailable("try again", code="UNAVAILABLE")
        committed = await self._inner.commit(writes, log)
        await asyncio.sleep(0)
        if number in self._script.replies_lost:
            raise Unavailable("the reply was lost", code="UNAVAILABLE")
        return committed


class _World:
    def __init__(self, bench: Workbench, script: Script) -> None:
        self._bench = bench
        self._script = script
        self._inner = MemoryStore(keeps_log=False)
        self._store = _ShakyStore(self._inner, script)
        self._errors: list[BaseException | str] = []
        # It implements no sockets, signals or subprocesses, and the product uses none here.
        self._loop = VirtualLoop(script.loop_seed, self._errors.append)  # type: ignore[abstract]
        self._dice = random.Random(script.loop_seed)  # noqa: S311 - repeatable on purpose
        self._crashes = deque(script.crashes)
        self._start()

    def run(self, expected: dict[Ref, Document]) -> WrongDocument | None:
        script = self._script
        try:
            for at in range(0, len(script.arrivals), script.at_once):
                self._deliver(script.arrivals[at : at + script.at_once])
            found = self._compare(expected, "when everything had arrived")
            if found is None and script.ending is not None:
                self._end(script.ending)
                found = self._compare(expected, f"after everything was {script.ending}")
            return found
        finally:
            self._loop.close()

    def _start(self) -> None:
        """A new engine, without the memory of the one before it, on the same store."""
        self._process = Process()
        self._context = self._process.context()
        self._process.steps_left = self._crashes.popleft() if self._crashes else None
        self._engine = self._bench.engine(self._store, self._loop, self._script, self._dice)

    def _end(self, ending: str) -> None:
        if ending == WITHOUT_RECEIPTS:
            receipts = finished(self._inner.list_documents(RECEIPTS, 1_000_000, None))
            gone = [Delete(one.ref, one.version) for one in receipts if one.version is not None]
            finished(self._inner.commit(gone))
            # A cache may hold deleted receipts for a second; a new engine has none.
            self._start()
        again = list(dict.fromkeys(self._script.arrivals))
        self._dice.shuffle(again)
        self._deliver(again, replay=ending == REPLAYED)

    def _deliver(self, messages: Sequence[int], *, replay: bool = False) -> None:
        """Deliver until every message has a final result, as a broker does."""
        waiting = list(messages)
        for _ in range(_TRIES_MAX):
            results: dict[int, Result] = {}
            if not self._process.alive:
                self._start()
            engine, loop = self._engine, self._loop
            for place, number in enumerate(waiting):
                loop.call_soon(
                    partial(
                        engine.submit,
                        self._bench.message(number),
                        partial(results.__setitem__, place),
                        replay=replay,
                    ),
                    context=self._context,
                )
            wanted, process = len(waiting), self._process
            loop.run_until(
                lambda: len(results) == wanted or not process.alive or bool(self._errors),  # noqa: B023 - called at once
                loop.time() + _TIME_MAX_S,
            )
            if self._errors:
                raise WorldBroke(self._bench.message(waiting[0]), f"the engine met a bug: {self._errors[0]!r}")
            retried = {place for place, result in results.items() if result.outcome is Outcome.RETRY}
            for place in sorted(retried):
                if results[place].reason == "view_error":
                    raise WorldBroke(self._bench.message(waiting[place]), str(results[place].error))
            waiting = [number for place, number in enumerate(waiting) if place not in results or place in retried]
            if not waiting:
                return
        raise WorldBroke(self._bench.message(waiting[0]), "a message has no final result")

    def _compare(self, expected: dict[Ref, Document], when: str) -> WrongDocument | None:
        there = [one for one in finished(self._inner.read(list(expected))) if one.data is not None]
        if sum(count for name, count in finished(self._inner.collections()) if not is_own(name)) == len(there):
            found = {one.ref: _without_ours(one) for one in there}
        else:
            found = self._documents()
        for ref in sorted(expected.keys() | found.keys()):
            one, other = expected.get(ref), found.get(ref)
            if one is None or other is None or not same_value(one, other):
                return WrongDocument(ref, one, other, when)
        return None

    def _documents(self) -> dict[Ref, Document]:
        inner = self._inner
        documents: dict[Ref, Document] = {}
        for collection, _ in finished(inner.collections()):
            if not is_own(collection):
                for one in finished(inner.list_documents(collection, 1_000_000, None)):
                    documents[one.ref] = _without_ours(one)
        return documents


def _without_ours(snapshot: Snapshot) -> Document:
    return {name: value for name, value in (snapshot.data or {}).items() if name not in OURS}
