"""The queue: admits deliveries, batches what waits together, and answers each one when its result is known.

Deliveries wait in one room, bounded by number and bytes; those that find it full wait in line (`admission`). A
batch takes everything whose documents are in no other batch, so one process never races itself, and load makes
batches bigger, not commits more frequent. A delivery is answered only with a result that the committer returned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

from millpond.concurrency import raise_first, run_all
from millpond.core.errors import Overloaded
from millpond.core.model import Delivery, Outcome, Ref
from millpond.core.route import Fault, Item, Router
from millpond.engine.admission import LINE_PER_PLACE, SHUTTING_DOWN, WaitingLine
from millpond.engine.committer import Committer
from millpond.engine.poison_policy import refuse_or_bury
from millpond.engine.rules import EngineRules
from millpond.engine.ticket import (
    Arrival,
    Batch,
    Done,
    Progress,
    Ticket,
    call,
    internal_error,
    report_bug,
    weigh,
)

# A commit is put off for at most this long while every iteration of the event loop brings more messages.
GATHER_S = 0.005
DRAIN_S = 5.0
# And then this long for calls that were under way.
DRAIN_GRACE_S = 1.5
_RESERVED_LOOK_S = 0.01


class Queue:
    def __init__(
        self,
        *,
        router: Router,
        committer: Committer,
        rules: EngineRules,
        commits_in_flight_max: int,
        wall_clock: Callable[[], int],
    ) -> None:
        self._router = router
        self._committer = committer
        self._rules = rules
        self._wall_clock = wall_clock
        self._line = WaitingLine(LINE_PER_PLACE * rules.queue_size, rules.room_bytes_max)
        self._arrived: list[Arrival] = []
        self._room: deque[Ticket] = deque()
        self._room_bytes = 0
        # Who is called with the result of each ticket; a ticket is answered once.
        self._answers: dict[Ticket, Done] = {}
        self._busy: set[Ref] = set()
        self._reserved: frozenset[Ref] = frozenset()
        # In the order they began, not a set: what is cancelled is cancelled in that order, in every run.
        self._running: dict[asyncio.Task[None], list[Ticket]] = {}
        self._burying: dict[asyncio.Task[None], Ticket] = {}
        self._in_flight_max = min(rules.batches_in_flight_max, commits_in_flight_max)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pump_due = False
        self._closing = False

    @property
    def waiting(self) -> int:
        return len(self._arrived) + len(self._room)

    @property
    def waiting_bytes(self) -> int:
        return self._room_bytes

    @property
    def in_line(self) -> int:
        return len(self._line)

    @property
    def accepting(self) -> bool:
        return not self._closing

    # --- admission ------------------------------------------------------------------------------------------------

    def submit(
        self, delivery: Delivery, done: Done, *, replay: bool = False, bury: bool = True, wait: bool = False
    ) -> None:
        """Take the delivery and call `done` with what became of it.

        If there is no room: raises Overloaded, unless the delivery may `wait` for some; after ROOM_WAIT_S without,
        `done` is called with the same refusal.

        Not a coroutine on purpose: at thousands of messages a second a task for each would cost as much as deciding
        what becomes of it.
        """
        if self._closing:
            done(SHUTTING_DOWN)
            return
        arrival = Arrival(delivery, done, replay, bury, weigh(delivery))
        if self._is_full():
            self._pump()
            if self._is_full():
                if not (wait and self._line.join(arrival)):
                    raise Overloaded(f"the waiting room is full: {self.waiting} waiting, {self._room_bytes} bytes")
                return
        self._let_in(arrival)

    def _is_full(self) -> bool:
        return self._holds(self._rules.queue_size, self._rules.room_bytes_max)

    def _holds(self, count: int, size: int) -> bool:
        waiting = len(self._arrived) + len(self._room) + len(self._burying)
        return waiting >= count or self._room_bytes >= size

    def _let_in(self, arrival: Arrival) -> None:
        self._arrived.append(arrival)
        self._room_bytes += arrival.weight
        self._pump_soon()

    def _let_in_up_to(self, count: int, size: int) -> None:
        while self._line and not self._holds(count, size):
            self._let_in(self._line.pop())

    def _route_all(self) -> None:
        """Route what has arrived, all in one go: in between requests it takes a third longer."""
        arrived, self._arrived = self._arrived, []
        now, deadline = self._wall_clock(), self._find_loop().time() + self._rules.retry_total_max_s
        for arrival in arrived:
            stays = False
            try:
                stays = self._route(arrival, now, deadline)
            except Exception as bug:  # noqa: BLE001 - it must not reach the messages that came along with it
                item = Item(arrival.delivery, "", now, replay=arrival.replay, bury=arrival.bury)
                arrival.answer(internal_error(item, bug))
                report_bug(bug)
            if not stays:
                self._room_bytes -= arrival.weight

    def _route(self, arrival: Arrival, now: int, deadline: float) -> bool:
        """Whether it stays in the room; if not, it was answered, or is being buried."""
        item = self._router.route(arrival.delivery, now, replay=arrival.replay, bury=arrival.bury)
        fault = item.fault
        if fault is not None and (refusal := refuse_or_bury(item, fault, self._rules, now)) is not None:
            arrival.answer(refusal)
            return False
        ticket = Ticket(item, deadline, arrival.weight)
        self._answers[ticket] = arrival.done
        if fault is not None:
            self._bury(ticket, fault)
            return False
        self._room.append(ticket)
        return True

    def _bury(self, ticket: Ticket, fault: Fault) -> None:
        """Write the letter apart from the batches, and let it wait for a commit like any other message."""

        async def bury() -> None:
            progress = await self._committer.bury({ticket: fault})
            self._answer(progress)
            for batch in progress.rest:
                self._enter(batch)

        def buried(task: asyncio.Task[None]) -> None:
            self._room_bytes -= self._burying.pop(task).weight
            if self._line:
                self._pump_soon()
            self._report(task, [ticket])

        self._room_bytes += ticket.weight
        task = self._find_loop().create_task(bury())
        self._burying[task] = ticket
        task.add_done_callback(buried)

    def _enter(self, batch: Batch) -> None:
        self._room.extend(batch.tickets)
        self._room_bytes += sum(ticket.weight for ticket in batch.tickets)
        self._pump_soon()

    # --- batching -------------------------------------------------------------------------------------------------

    def _pump_soon(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            loop = self._find_loop()
            loop.call_soon(self._gather, 0, loop.time() + GATHER_S)

    def _gather(self, before: int, until: float) -> None:
        """Go on once an iteration of the event loop brings nothing more: what comes together shares one commit."""
        loop, rules = self._find_loop(), self._rules
        idle = len(self._running) < self._in_flight_max
        enough = self.waiting >= rules.batch_count_max or self._room_bytes >= rules.batch_bytes_max
        if idle and before < self.waiting and not enough and loop.time() < until:
            loop.call_soon(self._gather, self.waiting, until)
        else:
            self._pump()

    def _pump(self) -> None:
        self._pump_due = False
        rules = self._rules
        if len(self._running) < self._in_flight_max:
            # The batch that begins now takes as many along as a commit may hold: the queue's size bounds those
            # that have to wait, not those that are committed together.
            self._let_in_up_to(rules.batch_count_max, rules.batch_bytes_max)
        if self._arrived:
            self._route_all()
        self._start_batches()
        self._let_in_up_to(rules.queue_size, rules.room_bytes_max)

    def _start_batches(self) -> None:
        while self._room and len(self._running) < self._in_flight_max:
            tickets = self._take()
            if not tickets:
                return
            # Marked before the task begins to run: the next batch is taken at once. With one batch at a time there
            # is no other to keep apart from.
            refs = set() if self._in_flight_max == 1 else {ref for ticket in tickets for ref in ticket.refs}
            self._busy |= refs
            task = self._find_loop().create_task(self._run(tickets, refs))
            self._running[task] = tickets
            task.add_done_callback(self._finished)

    def _take(self) -> list[Ticket]:
        """What waits and whose documents are in no other batch, up to the bounds of one commit."""
        rules = self._rules
        taken: list[Ticket] = []
        passed: list[Ticket] = []
        weight = 0
        # Long queue: take one of two shards, so that the other is planned while this one is committed.
        sharded = self._in_flight_max > 1 and len(self._room) > rules.shards_from
        shard: int | None = None
        while self._room and len(taken) < rules.batch_count_max:
            ticket = self._room[0]
            if taken and weight + ticket.weight > rules.batch_bytes_max:
                break
            self._room.popleft()
            busy = self._busy and not self._busy.isdisjoint(ticket.refs)
            kept = self._reserved and not self._reserved.isdisjoint(ticket.refs)
            if busy or kept or (shard is not None and ticket.shard != shard):
                passed.append(ticket)
                continue
            if sharded and shard is None:
                shard = ticket.shard
            taken.append(ticket)
            weight += ticket.weight
        self._room.extendleft(reversed(passed))
        self._room_bytes -= weight
        return taken

    async def _run(self, tickets: list[Ticket], refs: set[Ref]) -> None:
        try:
            await self._commit(Batch(tickets))
        finally:
            self._busy -= refs

    async def _commit(self, batch: Batch) -> None:
        """Commit the batch and whatever is left of it after each try, until every message is answered."""
        left = deque([batch])
        while left:
            progress = await self._committer.commit(left.popleft())
            self._answer(progress)
            if progress.apart:
                raise_first(await run_all(self._commit, progress.rest, self._rules.batches_in_flight_max))
            else:
                left.extendleft(reversed(progress.rest))

    def _finished(self, task: asyncio.Task[None]) -> None:
        tickets = self._running.pop(task, [])
        if self.waiting or self._line:
            self._pump_soon()
        self._report(task, tickets)

    # --- answers --------------------------------------------------------------------------------------------------

    def _answer(self, progress: Progress) -> None:
        answers = self._answers
        for ticket, result in progress.results:
            done = answers.pop(ticket, None)
            if done is not None:
                call(done, result)

    def _report(self, task: asyncio.Task[None], tickets: list[Ticket]) -> None:
        """A task that ended with a bug: its messages are answered RETRY, and the event loop is told."""
        if not task.cancelled() and isinstance(bug := task.exception(), Exception):
            self._answer(Progress([(ticket, internal_error(ticket.item, bug)) for ticket in tickets]))
            report_bug(bug)

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    # --- reservations and the end ---------------------------------------------------------------------------------

    async def keep_waiting(self, refs: frozenset[Ref]) -> None:
        """Start no batch with these documents, and return once none is in a batch. `let_go` ends it."""
        self._reserved = refs
        if self._running:
            await asyncio.wait(list(self._running))

    def let_go(self) -> None:
        self._reserved = frozenset()
        self._pump()

    def _accepted(self) -> Iterator[Ticket]:
        return chain(self._room, self._burying.values(), *self._running.values())

    async def drain(self) -> None:
        """Take nothing more and finish what waits, within DRAIN_S; what cannot be finished is answered RETRY."""
        self._closing = True
        self._committer.stop()
        deadline = asyncio.get_running_loop().time() + DRAIN_S
        # They were not accepted yet.
        self._line.refuse_all(SHUTTING_DOWN)
        self._route_all()
        for ticket in self._accepted():
            ticket.deadline = min(ticket.deadline, deadline)
        while self._room or self._running or self._burying:
            left_s = deadline + DRAIN_GRACE_S - asyncio.get_running_loop().time()
            if left_s <= 0:
                self._abandon()
                return
            self._pump()
            if self._running or self._burying:
                await asyncio.wait([*self._running, *self._burying], timeout=left_s)
            else:
                # What waits is reserved. The reservation ends, or the time does.
                await asyncio.sleep(min(left_s, _RESERVED_LOOK_S))

    def _abandon(self) -> None:
        """The store does not answer, and the process must end: what may or may not have been stored comes again."""
        error = Overloaded("the server is shutting down, and the store did not answer")
        unsettled = [(t, t.item.unsettled(Outcome.RETRY, "shutting_down", error)) for t in self._accepted()]
        self._answer(Progress(unsettled))
        self._room.clear()
        for task in (*self._running, *self._burying):
            task.cancel()
