"""One seed's world, from the first message to the last check.

In the first phase the seed's faults happen. Then the faults stop, a version without the view's bug is rolled out,
and everything must drain. Then the dead letters are replayed, and everything is delivered once more, and once more
without receipts, which must change nothing. Called by `runner.py` and `shrink.py`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial

from millpond.core import timestamps
from millpond.core.collections import FLOW_RUNS, LETTERS, RECEIPTS
from millpond.core.model import Delivery, LogEntry, Outcome, Result
from millpond.sim import final_checks, oracle
from millpond.sim.broker import Broker
from millpond.sim.checks import Checks
from millpond.sim.facts import START, PublishedMessage, draw_legacy, draw_messages
from millpond.sim.final_checks import Rest
from millpond.sim.fleet import Fleet
from millpond.sim.flow import FlowWorld
from millpond.sim.instance import settings_of
from millpond.sim.letter_checks import letter_of
from millpond.sim.operator import Operator
from millpond.sim.oracle import KIND_OF, TALLIES
from millpond.sim.rules import Broken, Rules
from millpond.sim.store import DEADLINE_S, CommittedChange
from millpond.sim.world_frame import AFTERMATH_S, WorldFrame, WorldReport, deliver
from millpond.sim.world_parameters import Swarm, draw
from millpond.stores.memory import MemoryStore

# No more than the smallest waiting room holds.
_AGAIN_AT_ONCE = 2


class World(WorldFrame):
    def __init__(
        self, seed: int, swarm: Swarm, messages: Sequence[PublishedMessage], *, trace: bool = False
    ) -> None:
        super().__init__(seed, swarm, messages, trace=trace)
        settings = settings_of(swarm)
        rules = Rules(
            now=lambda: START + round(self._loop.time() * timestamps.SECOND_US),
            receipts_kept=round(settings.receipt_ttl_days * timestamps.DAY_US),
            skew_allowed=settings.max_future_skew_us,
            skew_max=round(swarm.clock_skew_s * timestamps.SECOND_US),
            parked_after=round(settings.view_error_park_after_s * timestamps.SECOND_US),
            attempts_max=settings.flow_attempts_max,
        )
        self._house.observer = self
        self._checks = Checks(self._house, rules, self._seen)
        self._fleet = Fleet(seed, settings, self._house, self._seen, self._tell)
        self._flow = FlowWorld(seed, self._house, rules, self._seen, self._fleet.pick, self._tell)
        self._operator = Operator(seed, self._house, self._checks, rules, self._seen, self._fleet.pick, self._tell)
        self._broker = Broker(seed, swarm, self._loop, self._checks, self._seen, self._fleet.pick, self._tell)
        self._broker.on_delivery = lambda message: self._operator.letter_touched(letter_of(message))
        self._applied: Counter[tuple[str, str]] = Counter()
        # Copies of messages that the broker dead-lettered, as they come from the dead-letter topic.
        self._copies: list[PublishedMessage] = []

    @property
    def store(self) -> MemoryStore:
        """What all instances write to, to be read after the run."""
        return self._house.inner

    def _play(self) -> None:
        self._begin()
        self._run_with_faults()
        self._calm_down()
        self._run_until(lambda: self._broker.drained and self._flow.finished)
        self._broker.closed = True
        self._replay_letters()
        if self._checks.anything_deleted:
            # A person deleted documents: only redelivery of everything restores them.
            self._deliver_again(self._messages)
        self._check_rest()
        self._check_redelivery()

    def committed(self, changes: Sequence[CommittedChange], log: Sequence[LogEntry]) -> None:
        """Called by the store with every commit."""
        self._checks.committed(changes, log)
        for old, new in changes:
            if new.ref.collection == FLOW_RUNS and new.data is not None:
                self._flow.changed(old, new)
            elif new.ref.collection == LETTERS:
                self._operator.letter_touched(new.ref)

    def _begin(self) -> None:
        self._fleet.start(self._answered, self._flow.step)
        self._operator.begin(draw_legacy(self.seed, self._swarm), self._swarm.publishing_s + AFTERMATH_S / 2)
        for message in self._messages:
            self._broker.publish(message)
        self._flow.open()
        self._plan_outage()

    def _answered(self, delivery: Delivery | None, result: Result) -> None:
        """An instance has answered a message."""
        self._seen[f"answered {result.reason}"] += 1
        message = None if delivery is None else self._checks.messages.get(delivery.message_id)
        if message is None:
            return
        self._seen["clock from the future clamped"] += result.settled and oracle.is_clamped(message)
        self._seen["late event ignored"] += any(view.outcome is Outcome.TOO_OLD for view in result.views)
        if result.buried:
            refusing = [view.view for view in result.views if view.outcome is Outcome.POISON]
            self._attempt(lambda: self._checks.letters.check_listed(message, refusing))
        applied = [view.view for view in result.views if view.outcome is Outcome.APPLIED]
        self._seen["applied in one view, retried in another"] += bool(applied) and not result.settled
        for view in applied:
            self._applied[message.id, view] += 1
            if self._applied[message.id, view] > 1 and not self._checks.was_deleted(message):
                self._fail(Broken(final_checks.ONE_OUTCOME, f"{message.id} was applied twice in {view}"))

    def _attempt(self, check: Callable[[], None]) -> None:
        """A check that is called by the product must not raise into it."""
        try:
            check()
        except Broken as broken:
            self._fail(broken)

    def _calm_down(self) -> None:
        self._flow.faulty = self._operator.at_work = False
        self._fleet.calm_down()

    def _add_copy(self, copy: PublishedMessage) -> None:
        self._checks.add(copy)
        self._copies.append(copy)

    def _check_rest(self) -> None:
        expires = self._swarm.receipts_expire
        rest = Rest(self._house, self._checks, self._broker.parcels, self._copies, receipts_expire=expires)
        final_checks.check_outcomes(rest)
        final_checks.check_documents(rest)
        final_checks.check_tallies(rest)
        final_checks.check_receipts(rest)

    def _check_redelivery(self) -> None:
        """Deliver everything twice: with receipts, and without. A tally needs them, so the second excludes it."""
        arrived = [parcel.message for parcel in self._broker.parcels if not parcel.dead]
        before = final_checks.photograph(self._house, (*KIND_OF, TALLIES))
        self._deliver_again(arrived)
        after = final_checks.photograph(self._house, (*KIND_OF, TALLIES))
        final_checks.check_unchanged(before, after, "delivered once more")
        # A commit sent long ago may still arrive, and may rest on the absence of a receipt.
        self._run_until_time(self._loop.time() + 4 * DEADLINE_S)
        for receipt in self._house.all_of(RECEIPTS):
            self._operator.delete(receipt.ref)
        before = final_checks.photograph(self._house, KIND_OF)
        self._deliver_again([message for message in arrived if message.fact.topic != "gates"])
        after = final_checks.photograph(self._house, KIND_OF)
        final_checks.check_unchanged(before, after, "delivered once more without receipts")

    def _deliver_again(self, messages: Collection[PublishedMessage]) -> None:
        order = list(messages)
        self._dice.shuffle(order)

        async def some(part: Sequence[PublishedMessage]) -> None:
            for message in part:
                result = await self._until_settled(partial(deliver, message))
                if result is not None and result.settled:
                    self._checks.acknowledged(message)

        async def everything() -> None:
            await asyncio.gather(*(some(order[at::_AGAIN_AT_ONCE]) for at in range(_AGAIN_AT_ONCE)))

        self._wait_for(everything())


def run_seed(seed: int) -> WorldReport:
    """The world of this seed, as it is drawn."""
    swarm = draw(seed)
    return World(seed, swarm, draw_messages(seed, swarm)).run()
