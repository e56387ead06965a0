"""The queue: admits deliveries, forms batches, and answers each delivery with its result. `Engine` owns it.

Deliveries wait in one room, bounded by number and bytes. If it is full, they wait in line (`admission`). The room
says what is committed together (`room`): batches of one process never conflict with each other, and load makes
batches bigger, not commits more frequent. A delivery is answered only with a result that the committer returned.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from millpond.concurrency import Alarm
from millpond.core.errors import Overloaded
from millpond.core.item import Item
from millpond.core.model import Delivery, Outcome, Ref
from millpond.core.route import Router
from millpond.engine.admission import LINE_PER_PLACE, SHUTTING_DOWN, WaitingLine, weigh
from millpond.engine.committer import Committer
from millpond.engine.contention import OtherWriters
from millpond.engine.poison_policy import refuse_or_bury
from millpond.engine.room import WaitingRoom
from millpond.engine.rules import EngineRules
from millpond.engine.ticket import Arrival, Batch, Done, Progress, Ticket, call, internal_error, report_bug

# A commit is delayed for at most this long while every event-loop iteration brings more messages.
GATHER_S = 0.005
DRAIN_S = 5.0
# Extra time for calls under way at the end of DRAIN_S.
DRAIN_GRACE_S = 1.5
_RESERVED_LOOK_S = 0.01
_TIMER_S = 0.001
# While other instances write much, a batch costs a read and a commit: fewer, larger ones are worth the wait.
_BATCHES_AMONG_OTHERS = 3


class Queue:
    def __init__(
        self,
        *,
        router: Router,
        committer: Committer,
        others: OtherWriters,
        jitter: random.Random,
        rules: EngineRules,
        commits_in_flight_max: int,
        wall_clock: Callable[[], int],
    ) -> None:
        self._router = router
        self._committer = committer
        self._others = others
        self._rules = rules
        self._wall_clock = wall_clock
        self._line = WaitingLine(LINE_PER_PLACE * rules.queue_size, rules.room_bytes_max)
        self._arrived: list[Arrival] = []
        # The callback of each ticket that is not answered yet.
        self._answers: dict[Ticket, Done] = {}
        # A dict, not a set: tasks are cancelled in the order they began, the same in every run.
        self._running: dict[asyncio.Task[None], Sequence[Ticket]] = {}
        self._burying: dict[asyncio.Task[None], Ticket] = {}
        self._in_flight_max = min(rules.batches_in_flight_max, commits_in_flight_max)
        self._room = WaitingRoom(rules=rules, others=others, jitter=jitter, batches_at_once=self._in_flight_max)
        self._turn_was_last = False
        # Wakes the queue when the lane's next turn is due.
        self._turn_alarm = Alarm(self._pump)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pump_due = False
        self._closing = False

    @property
    def waiting(self) -> int:
        return len(self._arrived) + len(self._room)

    @property
    def held_up(self) -> int:
        """Messages that wait for the store. Those that rest in the lane wait for other instances."""
        return self.waiting - self._room.resting

    @property
    def waiting_bytes(self) -> int:
        return self._room.bytes

    @property
    def in_line(self) -> int:
        return len(self._line)

    @property
    def accepting(self) -> bool:
        return not self._closing

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
                    raise Overloaded(f"the waiting room is full: {self.waiting} waiting, {self._room.bytes} bytes")
                if self._room.lane.waiting and len(self._running) < self._in_flight_max:
                    # Messages of the lane fill the room, and a batch beside them may take this one.
                    self._pump_soon()
                return
        self._let_in(arrival)

    def _is_full(self) -> bool:
        return self._holds(self._rules.queue_size, self._rules.room_bytes_max)

    def _holds(self, count: int, size: int) -> bool:
        waiting = len(self._arrived) + len(self._room) + len(self._burying)
        return waiting >= count or self._room.bytes >= size

    def _let_in(self, arrival: Arrival) -> None:
        self._arrived.append(arrival)
        self._room.bytes += arrival.weight
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
                self._room.bytes -= arrival.weight

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
                self._room.put_back(batch.tickets)
                self._pump_soon()

        def buried(task: asyncio.Task[None]) -> None:
            self._room.bytes -= self._burying.pop(task).weight
            if self._line:
                self._pump_soon()
            self._report(task, [ticket])

        self._room.bytes += ticket.weight
        task = self._find_loop().create_task(bury())
        self._burying[task] = ticket
        task.add_done_callback(buried)

    def _pump_soon(self) -> None:
        if not self._pump_due:
            self._pump_due = True
            loop = self._find_loop()
            loop.call_soon(self._gather, 0, loop.time() + GATHER_S)

    def _gather(self, before: int, until: float) -> None:
        """Start batches once an event-loop iteration brings no more messages, so that a burst shares one commit."""
        loop, rules = self._find_loop(), self._rules
        idle = len(self._running) < self._in_flight_max
        enough = self.waiting >= rules.batch_count_max or self._room.bytes >= rules.batch_bytes_max
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
        """Turns of the lane and other batches alternate, so that neither waits for ever if there is one slot."""
        now = self._find_loop().time()
        if not self._turn_was_last:
            self._start_turn(now)
        at_once = (
            min(self._in_flight_max, _BATCHES_AMONG_OTHERS) if self._others.write_much else self._in_flight_max
        )
        while len(self._running) < at_once and (batch := self._room.take(now)) is not None:
            self._turn_was_last = False
            self._start(batch)
        self._start_turn(now)

    def _start_turn(self, now: float) -> None:
        lane = self._room.lane
        # Timers are as exact as a millisecond: a turn that is due within the next one has come.
        now += _TIMER_S
        for batch in self._room.take_turn(now, self._in_flight_max - len(self._running)):
            self._turn_was_last = True
            self._start(batch)
        # A turn under way, or one that waits for a document or a slot, goes on when a batch ends.
        if lane.waiting and not lane.is_busy and lane.begins_at > now:
            self._turn_alarm.set(lane.begins_at)

    def _start(self, batch: Batch) -> None:
        # Marked before the task runs, because the next batch is taken at once.
        refs = self._room.mark(batch.tickets)
        task = self._find_loop().create_task(self._run(batch, refs))
        self._running[task] = batch.tickets
        task.add_done_callback(self._finished)

    async def _run(self, batch: Batch, refs: set[Ref]) -> None:
        try:
            await self._commit(batch)
        finally:
            self._room.release(refs)

    async def _commit(self, batch: Batch) -> None:
        """Try the batch, and the batches that are left after each try, until every message is answered."""
        left = deque([batch])
        while left:
            progress = await self._try(left.popleft())
            self._answer(progress)
            for ticket in progress.to_bury:
                self._bury(ticket)
            # They are taken again when this task has ended: until then their documents are marked.
            self._room.put_back(progress.back)
            left.extendleft(reversed(progress.rest))
            if left and self._room.lane.waiting:
                # If this was a turn, it has ended, and what is left of it may take long: the next need not wait.
                self._pump_soon()

    async def _try(self, batch: Batch) -> Progress:
        try:
            return await self._committer.commit(batch)
        finally:
            # What is left of it, after an error of the store, is tried outside of the turn: others need not wait.
            if batch.lane is not None:
                batch.lane.end(self._find_loop().time())

    def _finished(self, task: asyncio.Task[None]) -> None:
        tickets = self._running.pop(task, [])
        if self.waiting or self._line:
            self._pump_soon()
        self._report(task, tickets)

    def _answer(self, progress: Progress) -> None:
        answers = self._answers
        for ticket, result in progress.results:
            done = answers.pop(ticket, None)
            if done is not None:
                call(done, result)

    def _report(self, task: asyncio.Task[None], tickets: Sequence[Ticket]) -> None:
        """If a task raised: answer its messages RETRY, and report the error to the event loop."""
        if not task.cancelled() and isinstance(bug := task.exception(), Exception):
            self._answer(Progress([(ticket, internal_error(ticket.item, bug)) for ticket in tickets]))
            report_bug(bug)

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    async def keep_waiting(self, refs: frozenset[Ref]) -> None:
        """Start no batch with these documents until `let_go`; returns once no running batch has them."""
        self._room.reserved = refs
        if self._running:
            await asyncio.wait(list(self._running))

    def let_go(self) -> None:
        self._room.reserved = frozenset()
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
                # All waiting messages are reserved, or wait for a turn.
                await asyncio.sleep(min(left_s, _RESERVED_LOOK_S))

    def _abandon(self) -> None:
        """The process must end although the store does not answer: RETRY, as the outcome of commits is unknown."""
        error = Overloaded("the server is shutting down, and the store did not answer")
        unsettled = [(t, t.item.unsettled(Outcome.RETRY, "shutting_down", error)) for t in self._accepted()]
        self._answer(Progress(unsettled))
        self._room.clear()
        for task in (*self._running, *self._burying):
            task.cancel()
