"""The queue: admits deliveries, forms batches, and answers each delivery with its result. `Engine` owns it.

Deliveries wait in one room, bounded by number and bytes. If it is full, they wait in line (`admission`). A batch
takes every delivery whose documents are in no other batch, so batches of one process never conflict with each
other, and load makes batches bigger, not commits more frequent. A delivery is answered only with a result that the
committer returned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain

from millpond.concurrency import raise_first, run_all
from millpond.core.errors import Overloaded
from millpond.core.item import Item
from millpond.core.model import Delivery, Outcome, Ref
from millpond.core.route import Router
from millpond.engine.admission import LINE_PER_PLACE, SHUTTING_DOWN, WaitingLine, weigh
from millpond.engine.committer import Committer
from millpond.engine.poison_policy import refuse_or_bury
from millpond.engine.rules import EngineRules
from millpond.engine.ticket import Arrival, Batch, Done, Progress, Ticket, call, internal_error, report_bug

# A commit is delayed for at most this long while every event-loop iteration brings more messages.
GATHER_S = 0.005
DRAIN_S = 5.0
# Extra time for calls under way at the end of DRAIN_S.
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
        # The callback of each ticket that is not answered yet.
        self._answers: dict[Ticket, Done] = {}
        self._busy: set[Ref] = set()
        self._reserved: frozenset[Ref] = frozenset()
        # A dict, not a set: tasks are cancelled in the order they began, the same in every run.
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
        self,
        delivery: Delivery,
        done: Done,
        *,
        replay: bool = False,
        bury: bool = True,
        only: frozenset[str] | None = None,
        wait: bool = False,
    ) -> None:
        """Accept the delivery, and call `done` with its result. With `only`, no other view is asked.

        If there is no room: raises Overloaded, unless the delivery may `wait`. After ROOM_WAIT_S without room,
        `done` is called with the same refusal.

        Not a coroutine: at thousands of messages a second, a task for each would cost as much as planning it.
        """
        if self._closing:
            done(SHUTTING_DOWN)
            return
        arrival = Arrival(delivery, done, replay, bury, only, weigh(delivery))
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
        """Route all arrivals in one loop: one by one, between requests, takes a third longer."""
        arrived, self._arrived = self._arrived, []
        now, deadline = self._wall_clock(), self._find_loop().time() + self._rules.retry_total_max_s
        for arrival in arrived:
            stays = False
            try:
                stays = self._route(arrival, now, deadline)
            except Exception as bug:  # noqa: BLE001 - it must not affect the other arrivals
                item = Item(arrival.delivery, "", now, replay=arrival.replay, bury=arrival.bury)
                arrival.answer(internal_error(item, bug))
                report_bug(bug)
            if not stays:
                self._room_bytes -= arrival.weight

    def _route(self, arrival: Arrival, now: int, deadline: float) -> bool:
        """Whether it stays in the room; False if it was answered or is being buried."""
        replay, bury, only = arrival.replay, arrival.bury, arrival.only
        item = self._router.route(arrival.delivery, now, replay=replay, bury=bury, only=only)
        # If one view accepts it, the faults of the others are handled after its commit.
        hopeless = item.faults and not item.targets
        if hopeless and (refusal := refuse_or_bury(item, self._rules, now)) is not None:
            arrival.answer(refusal)
            return False
        ticket = Ticket(item, deadline, arrival.weight)
        self._answers[ticket] = arrival.done
        if hopeless:
            self._bury(ticket)
            return False
        self._room.append(ticket)
        return True

    def _bury(self, ticket: Ticket) -> None:
        """Write the letter in a task of its own; the ticket then waits for a commit like any other."""

        async def bury() -> None:
            progress = await self._committer.bury([ticket])
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
        """Start batches once an event-loop iteration brings no more messages, so that a burst shares one commit."""
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
            # The next batch may take as many messages as a commit may hold: the queue's size limits the messages
            # that wait, not those that are committed together.
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
            # Marked before the task runs, because the next batch is taken at once. Not needed with one batch at a
            # time.
            refs = set() if self._in_flight_max == 1 else {ref for ticket in tickets for ref in ticket.refs}
            self._busy |= refs
            task = self._find_loop().create_task(self._run(tickets, refs))
            self._running[task] = tickets
            task.add_done_callback(self._finished)

    def _take(self) -> list[Ticket]:
        """Waiting tickets whose documents are in no other batch, up to the limits of one commit."""
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
        """Try the batch, and the batches that are left after each try, until every message is answered."""
        left = deque([batch])
        while left:
            progress = await self._committer.commit(left.popleft())
            self._answer(progress)
            for ticket in progress.to_bury:
                self._bury(ticket)
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
        """If a task raised: answer its messages RETRY, and report the error to the event loop."""
        if not task.cancelled() and isinstance(bug := task.exception(), Exception):
            self._answer(Progress([(ticket, internal_error(ticket.item, bug)) for ticket in tickets]))
            report_bug(bug)

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    # --- reservations and the end ---------------------------------------------------------------------------------

    async def keep_waiting(self, refs: frozenset[Ref]) -> None:
        """Start no batch with these documents until `let_go`; returns once no running batch has them."""
        self._reserved = refs
        if self._running:
            await asyncio.wait(list(self._running))

    def let_go(self) -> None:
        self._reserved = frozenset()
        self._pump()

    def _accepted(self) -> Iterator[Ticket]:
        return chain(self._room, self._burying.values(), *self._running.values())

    async def drain(self) -> None:
        """Accept no more, and finish waiting messages within DRAIN_S; the others are answered RETRY."""
        self._closing = True
        self._committer.stop()
        deadline = asyncio.get_running_loop().time() + DRAIN_S
        # Messages in the line were not accepted yet.
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
                # All waiting messages are reserved. Wait for the end of the reservation, or of the time.
                await asyncio.sleep(min(left_s, _RESERVED_LOOK_S))

    def _abandon(self) -> None:
        """The process must end although the store does not answer: RETRY, as the outcome of commits is unknown."""
        error = Overloaded("the server is shutting down, and the store did not answer")
        unsettled = [(t, t.item.unsettled(Outcome.RETRY, "shutting_down", error)) for t in self._accepted()]
        self._answer(Progress(unsettled))
        self._room.clear()
        for task in (*self._running, *self._burying):
            task.cancel()
