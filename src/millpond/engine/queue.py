"""The engine: deliveries wait in one room, are committed together, and are answered one by one.

It owns time, retries and batching, and decides nothing about documents: that is `plan`. It never acknowledges
what is not durable: a delivery's future is resolved only after the commit that covers it, or with RETRY.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import chain
from typing import Protocol

from millpond.core.errors import Overloaded, StoreError
from millpond.core.model import Delivery, Outcome, Ref, Result
from millpond.core.ports import Store
from millpond.core.route import Fault, Item, Letter, Router
from millpond.engine.committer import Batches
from millpond.engine.line import LINE_PER_PLACE, SHUTTING_DOWN, WaitingLine
from millpond.engine.poison_policy import refusal
from millpond.engine.rules import EngineRules
from millpond.engine.ticket import Arrival, Done, Ticket, weigh
from millpond.telemetry.metrics import Metrics

# So long, while every turn of the event loop brings more messages, a commit is put off for their sake.
GATHER_S = 0.005
DRAIN_S = 5.0
# And then so long for calls that were under way.
DRAIN_GRACE_S = 1.5
_RESERVED_LOOK_S = 0.01


# Told of each read or commit that failed: why, which try of its batch it was, and how many messages wait.
FailedTry = Callable[[StoreError, int, int], None]


class DeadLetterSink(Protocol):
    """Who buries: makes the letter, storing beforehand whatever does not fit into it."""

    async def write_letter(self, item: Item, fault: Fault) -> Letter: ...

    async def close(self) -> None: ...


class Engine:
    def __init__(
        self,
        *,
        store: Store,
        router: Router,
        dead_letter_sink: DeadLetterSink,
        rules: EngineRules,
        metrics: Metrics,
        wall_clock: Callable[[], int] = lambda: time.time_ns() // 1_000,
        jitter: random.Random | None = None,
        on_failed_try: FailedTry = lambda *_: None,
    ) -> None:
        self.router = router
        self.dead_letter_sink = dead_letter_sink
        self.rules = rules
        self.metrics = metrics
        self.wall_clock = wall_clock
        self.on_failed_try = on_failed_try
        self._batches = Batches(self, store, jitter or random.Random())  # noqa: S311 - spreads retries, no secret
        self._arrived: list[Arrival] = []
        self._room: deque[Ticket] = deque()
        self._room_bytes = 0
        self.line = WaitingLine(LINE_PER_PLACE * rules.queue_size, rules.room_bytes_max)
        self._busy: set[Ref] = set()
        self._reserved: frozenset[Ref] = frozenset()
        # In the order they began, not a set: what is cancelled is cancelled in that order, in every run.
        self._running: dict[asyncio.Task[None], list[Ticket]] = {}
        self._in_flight_max = min(rules.batches_in_flight_max, store.commits_in_flight_max)
        self._digging: dict[asyncio.Task[None], Ticket] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pump_due = False
        self._closing = False

    @property
    def waiting(self) -> int:
        return len(self._arrived) + len(self._room)

    @property
    def accepting(self) -> bool:
        return not self._closing

    async def handle(self, delivery: Delivery, *, replay: bool = False, bury: bool = True) -> Result:
        """What became of the delivery, durably. Raises Overloaded, at once, when there is no room."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def done(result: Result) -> None:
            if not future.done():
                future.set_result(result)

        self.submit(delivery, done, replay=replay, bury=bury)
        return await future

    def submit(
        self, delivery: Delivery, done: Done, *, replay: bool = False, bury: bool = True, wait: bool = False
    ) -> None:
        """Take the delivery and call `done` with what became of it.

        If there is no room: raises Overloaded, unless the delivery may `wait` for some; after ROOM_WAIT_S without,
        `done` is called with the same refusal.

        Without a coroutine on purpose: at thousands of messages a second a task for each would cost as much
        as deciding what becomes of it.
        """
        if self._closing:
            done(SHUTTING_DOWN)
            return
        arrival = Arrival(delivery, done, replay, bury, weigh(delivery))
        if self._is_full():
            self._pump()
            if self._is_full():
                if not (wait and self.line.join(arrival)):
                    raise Overloaded(f"the waiting room is full: {self.waiting} waiting, {self._room_bytes} bytes")
                return
        self._let_in(arrival)

    def _let_in(self, arrival: Arrival) -> None:
        self._arrived.append(arrival)
        self._room_bytes += arrival.weight
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            loop = self._find_loop()
            loop.call_soon(self._gather, 0, loop.time() + GATHER_S)

    def _gather(self, before: int, until: float) -> None:
        """Go on once a turn of the event loop brings nothing more: what comes together shares one commit."""
        loop, rules = self._find_loop(), self.rules
        idle = len(self._running) < self._in_flight_max
        enough = self.waiting >= rules.batch_count_max or self._room_bytes >= rules.batch_bytes_max
        if idle and before < self.waiting and not enough and loop.time() < until:
            loop.call_soon(self._gather, self.waiting, until)
        else:
            self._pump()

    def _admit(self) -> None:
        """Look into what has arrived, all in one go: in between requests it takes a third longer."""
        arrived, self._arrived = self._arrived, []
        now, deadline = self.wall_clock(), self._find_loop().time() + self.rules.retry_total_max_s
        for arrival in arrived:
            stays = False
            try:
                stays = self._look_into(arrival, now, deadline)
            except Exception as bug:  # noqa: BLE001 - it must not reach those that came along with it
                item = Item(arrival.delivery, "", now, replay=arrival.replay, bury=arrival.bury)
                Ticket(item, arrival.done, deadline, arrival.weight).fail(bug)
                self.report(bug)
            if not stays:
                self._room_bytes -= arrival.weight

    def _look_into(self, arrival: Arrival, now: int, deadline: float) -> bool:
        """Whether it stays in the room; if not, it was answered, or is being buried."""
        item = self.router.route(arrival.delivery, now, replay=arrival.replay, bury=arrival.bury)
        ticket = Ticket(item, arrival.done, deadline, arrival.weight)
        if item.fault is not None:
            self._refuse_or_bury(ticket, item.fault)
            return False
        self._room.append(ticket)
        return True

    def _enter(self, ticket: Ticket) -> None:
        self._room.append(ticket)
        self._room_bytes += ticket.weight
        self._pump_soon()

    def _refuse_or_bury(self, ticket: Ticket, fault: Fault) -> None:
        refusal = self.refusal(ticket.item, fault)
        if refusal is not None:
            ticket.settle(refusal)
            return

        async def bury() -> None:
            try:
                if await self._batches.dig(ticket, fault):
                    self._enter(ticket)
            except Exception as bug:
                ticket.fail(bug)
                raise

        def dug(task: asyncio.Task[None]) -> None:
            self._room_bytes -= self._digging.pop(task).weight
            if self.line:
                self._pump_soon()
            if not task.cancelled() and (bug := task.exception()) is not None:
                self.report(bug)

        self._room_bytes += ticket.weight
        task = self._find_loop().create_task(bury())
        self._digging[task] = ticket
        task.add_done_callback(dug)

    def _is_full(self) -> bool:
        return self._holds(self.rules.queue_size, self.rules.room_bytes_max)

    def _holds(self, count: int, size: int) -> bool:
        waiting = len(self._arrived) + len(self._room) + len(self._digging)
        return waiting >= count or self._room_bytes >= size

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def refusal(self, item: Item, fault: Fault) -> Result | None:
        """The answer to a faulty message that is not buried (now), or None to bury it."""
        return refusal(item, fault, self.rules, self.wall_clock())

    def forget(self, refs: Iterable[Ref]) -> None:
        """Somebody else has written these: what was remembered of them decides nothing more."""
        self._batches.forget(refs)

    @contextlib.asynccontextmanager
    async def reserve(self, refs: Iterable[Ref]) -> AsyncIterator[None]:
        """Keep the messages of some documents waiting, for as long as somebody else works on these."""
        self._reserved = frozenset(refs)
        try:
            if self._running:
                await asyncio.wait(list(self._running))
            yield
        finally:
            self._reserved = frozenset()
            self._pump()

    def report(self, bug: BaseException) -> None:
        """Something nobody foresaw: whoever runs the event loop is told."""
        self._find_loop().call_exception_handler({"message": "the engine met a bug", "exception": bug})

    async def drain(self) -> None:
        """Take nothing more and finish what waits, within DRAIN_S; what cannot be finished is answered RETRY."""
        self._closing = True
        deadline = asyncio.get_running_loop().time() + DRAIN_S
        # They were not accepted yet.
        self.line.refuse_all(SHUTTING_DOWN)
        self._admit()
        for ticket in chain(self._room, self._digging.values(), *self._running.values()):
            ticket.deadline = min(ticket.deadline, deadline)
        while self._room or self._running or self._digging:
            left_s = deadline + DRAIN_GRACE_S - asyncio.get_running_loop().time()
            if left_s <= 0:
                self._abandon()
                return
            self._pump()
            if self._running or self._digging:
                await asyncio.wait([*self._running, *self._digging], timeout=left_s)
            else:
                # What waits is reserved by somebody, who gives it back or is out of time with it.
                await asyncio.sleep(min(left_s, _RESERVED_LOOK_S))

    def _abandon(self) -> None:
        """Somebody hangs, and we must go: what may or may not have been stored comes again."""
        error = Overloaded("the server is shutting down, and the store did not answer")
        for ticket in chain(self._room, self._digging.values(), *self._running.values()):
            ticket.settle(ticket.item.unsettled(Outcome.RETRY, "shutting_down", error))
        self._room.clear()
        for task in (*self._running, *self._digging):
            task.cancel()

    def _pump(self) -> None:
        self._pump_due = False
        rules = self.rules
        if len(self._running) < self._in_flight_max:
            # The batch that begins now takes as many along as a commit may hold: the queue's size bounds those
            # that have to wait, not those that are committed together.
            self._let_in_up_to(rules.batch_count_max, rules.batch_bytes_max)
        if self._arrived:
            self._admit()
        self._start_batches()
        self._let_in_up_to(rules.queue_size, rules.room_bytes_max)

    def _let_in_up_to(self, count: int, size: int) -> None:
        while self.line and not self._holds(count, size):
            self._let_in(self.line.pop())

    def _start_batches(self) -> None:
        while self._room and len(self._running) < self._in_flight_max:
            tickets = self._take()
            if not tickets:
                return
            # Marked before the task begins to run: the next batch is taken at once.
            refs = self._claim(tickets)
            task = self._find_loop().create_task(self._run(tickets, refs))
            self._running[task] = tickets
            task.add_done_callback(self._finished)

    def _take(self) -> list[Ticket]:
        """What waits and whose documents are in no other batch, up to the bounds of one commit."""
        rules = self.rules
        taken: list[Ticket] = []
        passed: list[Ticket] = []
        weight = 0
        # Much waits: half of the documents now, so that the other half is planned while these are committed.
        by_lane = self._in_flight_max > 1 and len(self._room) > rules.lanes_from
        lane: int | None = None
        while self._room and len(taken) < rules.batch_count_max:
            ticket = self._room[0]
            if taken and weight + ticket.weight > rules.batch_bytes_max:
                break
            self._room.popleft()
            busy = self._busy and not self._busy.isdisjoint(ticket.refs)
            kept = self._reserved and not self._reserved.isdisjoint(ticket.refs)
            if busy or kept or (lane is not None and ticket.lane != lane):
                passed.append(ticket)
                continue
            if by_lane and lane is None:
                lane = ticket.lane
            taken.append(ticket)
            weight += ticket.weight
        self._room.extendleft(reversed(passed))
        self._room_bytes -= weight
        return taken

    def _claim(self, tickets: list[Ticket]) -> set[Ref]:
        """Mark the batch's documents as being in one. With one batch at a time there is no other to keep off."""
        refs = set() if self._in_flight_max == 1 else {ref for ticket in tickets for ref in ticket.refs}
        self._busy |= refs
        return refs

    async def _run(self, tickets: list[Ticket], refs: set[Ref]) -> None:
        try:
            await self._batches.commit(tickets)
        except Exception as bug:
            for ticket in tickets:
                ticket.fail(bug)
            raise
        finally:
            self._busy -= refs

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        if self.waiting or self.line:
            self._pump_soon()
        if not task.cancelled() and (bug := task.exception()) is not None:
            self.report(bug)
