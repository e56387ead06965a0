"""One seed's full simulation of a user's views and events: brokers, instances, crashes, letters, replays.

The parts are those of the simulation of the built-in facts (`millpond.sim`): only the messages, the views and the
checks are the user's. There are no flow runs, and no documents from before. Called by `user_stage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from millpond.core.collections import RECEIPTS
from millpond.core.model import Delete, Delivery, Result
from millpond.core.view import Tally
from millpond.flow.step import StepContext
from millpond.settings import Settings
from millpond.sim.broker import Broker
from millpond.sim.facts import PublishedMessage
from millpond.sim.final_checks import check_unchanged
from millpond.sim.fleet import Fleet
from millpond.sim.rules import Broken
from millpond.sim.store import DEADLINE_S
from millpond.sim.world_frame import WorldFrame, deliver
from millpond.sim.world_parameters import Swarm
from millpond.testing.user_checks import SOUND, Meanings, UserChecks


class UserWorld(WorldFrame):
    def __init__(
        self,
        seed: int,
        swarm: Swarm,
        messages: Sequence[PublishedMessage],
        meanings: Meanings,
        settings: Settings,
        *,
        trace: bool = False,
    ) -> None:
        super().__init__(seed, swarm, messages, trace=trace)
        self._meanings = meanings
        # Every message was published before the world begins, as its data says.
        self._house.start = max((message.published_at for message in messages), default=self._house.start)
        self._checks = UserChecks(self._house, meanings)
        self._house.observer = self._checks
        self._fleet = Fleet(seed, settings, self._house, self._seen, self._tell)
        self._broker = Broker(seed, swarm, self._loop, self._checks, self._seen, self._fleet.pick, self._tell)
        # Messages whose dead-letter copy was replayed, by the id of the copy.
        self._copies: list[str] = []

    def _play(self) -> None:
        self._fleet.start(self._answered, _no_step)
        for message in self._messages:
            self._broker.publish(message)
        self._plan_outage()
        self._run_with_faults()
        self._fleet.calm_down()
        self._run_until(lambda: self._broker.drained)
        self._broker.closed = True
        self._replay_letters()
        self._checks.check_rest(self._arrived())
        self._check_redelivery()

    def _answered(self, delivery: Delivery | None, result: Result) -> None:
        self._seen[f"answered {result.reason}"] += 1
        if result.reason in {"view_error", "write_refused"}:
            of = "" if delivery is None else f" for {delivery.message_id}"
            self._fail(Broken(SOUND, f"{result.error}{of}"))

    def _arrived(self) -> list[str]:
        """Messages that must have had their effect: acknowledged, or dead-lettered and named by a document."""
        parcels = self._broker.parcels
        mine = [p.message.id for p in parcels if p.acknowledged or p.message.id in self._checks.written]
        return [*mine, *self._copies]

    def _add_copy(self, copy: PublishedMessage) -> None:
        self._checks.add(copy)
        self._copies.append(copy.id)

    def _check_redelivery(self) -> None:
        """Deliver everything twice: with receipts, and without. A tally needs them, so the second excludes it."""
        arrived = [parcel.message for parcel in self._broker.parcels if not parcel.dead]
        before = self._checks.photograph()
        self._deliver_again(arrived)
        check_unchanged(before, self._checks.photograph(), "delivered once more")
        # A commit sent long ago may still arrive, and may rest on the absence of a receipt.
        self._run_until_time(self._loop.time() + 4 * DEADLINE_S)
        for receipt in self._house.all_of(RECEIPTS):
            assert receipt.version is not None  # noqa: S101 - it was listed
            self._house.commit([Delete(receipt.ref, receipt.version)])
        before = self._checks.photograph()
        self._deliver_again([message for message in arrived if not self._is_tallied(message)])
        check_unchanged(before, self._checks.photograph(), "delivered once more without receipts")

    def _is_tallied(self, message: PublishedMessage) -> bool:
        return any(isinstance(view, Tally) for view, _ in self._meanings.of(message.id))

    def _deliver_again(self, messages: Sequence[PublishedMessage]) -> None:
        order = list(messages)
        self._dice.shuffle(order)

        async def everything() -> None:
            for message in order:
                await self._until_settled(partial(deliver, message))

        self._wait_for(everything())


async def _no_step(context: StepContext) -> dict[str, Any]:
    raise AssertionError(f"no flow run was submitted, and {context} is worked on")
