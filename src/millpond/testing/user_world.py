"""One seed's full simulation of a user's views and events: brokers, instances, crashes, letters, replays.

The parts are those of the simulation of the built-in facts (`millpond.sim`): only the messages, the views and the
checks are the user's. There are no flow runs, and no documents from before. Called by `user_stage`.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from millpond.core.collections import LETTERS, RECEIPTS
from millpond.core.errors import Overloaded
from millpond.core.model import Delete, Delivery, Outcome, Ref, Result
from millpond.core.view import Tally
from millpond.dead_letters.pubsub_attributes import restore
from millpond.flow.step import StepContext
from millpond.settings import Settings
from millpond.sim.broker import SUBSCRIPTION, Broker
from millpond.sim.facts import PublishedMessage
from millpond.sim.final_checks import check_unchanged
from millpond.sim.fleet import Fleet
from millpond.sim.instance import Instance
from millpond.sim.rules import Broken
from millpond.sim.store import DEADLINE_S, Storehouse
from millpond.sim.virtual_time import WORLD, Stuck, VirtualLoop
from millpond.sim.world import AFTERMATH_S, DRAIN_S, DRAINS, WorldFailure, WorldReport
from millpond.sim.world_parameters import Swarm
from millpond.testing.user_checks import SOUND, Meanings, UserChecks

_TRIES = 50


class UserWorld:
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
        self.seed = seed
        self._swarm = swarm
        self._messages = messages
        self._meanings = meanings
        self._dice = random.Random(f"{seed}/world")  # noqa: S311 - repeatable on purpose
        self._failure: WorldFailure | None = None
        self._seen: Counter[str] = Counter()
        self._traced = trace
        self._lines: list[str] = []
        # It implements no sockets, signals or subprocesses, and the product uses none here.
        self._loop = VirtualLoop(seed, self._fail)  # type: ignore[abstract]
        self._house = Storehouse(seed, swarm, self._loop, self._seen, self._tell)
        # Every message was published before the world begins, as its data says.
        self._house.start = max((message.published_at for message in messages), default=self._house.start)
        self._house.traced = trace
        self._checks = UserChecks(self._house, meanings)
        self._house.observer = self._checks
        self._fleet = Fleet(seed, settings, self._house, self._seen, self._tell)
        self._broker = Broker(seed, swarm, self._loop, self._checks, self._seen, self._fleet.pick, self._tell)
        # Messages whose dead-letter copy was replayed, by the id of the copy.
        self._copies: list[str] = []

    def run(self) -> WorldReport:
        try:
            self._fleet.start(self._answered, _no_step)
            for message in self._messages:
                self._broker.publish(message)
            if self._swarm.away_s:
                self._loop.call_at(self._dice.random() * self._swarm.publishing_s, self._go_away, context=WORLD)
            self._run_until_time(self._swarm.publishing_s + self._swarm.away_s + AFTERMATH_S)
            self._tell("the faults stop")
            self._house.faulty = self._broker.faulty = False
            self._fleet.calm_down()
            self._run_until(lambda: self._broker.drained)
            self._broker.closed = True
            self._replay_letters()
            self._checks.check_rest(self._arrived())
            self._check_redelivery()
        except Broken as broken:
            self._fail(broken)
        except _Ended:
            pass
        except Exception as error:  # noqa: BLE001 - a bug in this phase is a failure of this seed, too
            self._fail(error)
        finally:
            self._loop.close()
        return WorldReport(
            seed=self.seed,
            failure=self._failure,
            messages=len(self._messages),
            seconds=round(self._loop.time(), 3),
            steps=self._loop.steps,
            seen=dict(sorted(self._seen.items())),
            trace=self._lines,
        )

    def _go_away(self) -> None:
        self._seen["store away"] += 1
        self._tell("the store goes away")
        self._house.away_until = self._loop.time() + self._swarm.away_s

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

    def _replay_letters(self) -> None:
        """Replay as an operator would: first the broker's dead letters, then ours."""
        for delivery in self._broker.dead_letters():
            original = self._meanings.messages[delivery.message_id[1:]]
            self._checks.add(msgspec.structs.replace(original, id=delivery.message_id))
            self._copies.append(delivery.message_id)
            self._seen["dead-letter copy replayed"] += 1
            self._wait_for(self._until_settled(partial(_replay, restore(delivery))))
        for letter in self._house.all_of(LETTERS):
            self._seen["letter replayed"] += 1
            self._wait_for(self._until_settled(partial(_replay_letter, letter.ref)))

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
                await self._until_settled(partial(_deliver, message))

        self._wait_for(everything())

    async def _until_settled(self, send: Callable[[Instance], Awaitable[Result | None]]) -> None:
        """Send as a broker or an operator would: after RETRY again, with a pause."""
        reason = ""
        for _ in range(_TRIES):
            try:
                result = await send(self._fleet.anyone())
            except Overloaded as error:
                reason = error.reason
            else:
                if result is None or result.outcome is not Outcome.RETRY:
                    return
                reason = result.reason
            await asyncio.sleep(1.0)
        raise Broken(DRAINS, f"{reason} for ever, with no faults left")

    def _wait_for(self, work: Coroutine[Any, Any, object]) -> None:
        task = self._fleet.anyone().start(work)
        self._run_until(task.done)
        task.result()

    def _run_until_time(self, at_s: float) -> None:
        over: list[bool] = []
        self._loop.call_at(at_s, over.append, True, context=WORLD)
        self._run_until(lambda: bool(over))

    def _run_until(self, done: Callable[[], bool]) -> None:
        try:
            self._loop.run_until(lambda: self._failure is not None or done(), self._loop.time() + DRAIN_S)
        except Stuck as stuck:
            raise Broken(DRAINS, str(stuck)) from None
        if self._failure is not None:
            raise _Ended

    def _fail(self, error: BaseException | str) -> None:
        """Record the first failure; later ones may follow from it."""
        if self._failure is None:
            checker = error.checker if isinstance(error, Broken) else "nothing unexpected"
            text = error.text if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
            self._failure = WorldFailure(checker, text)
            self._tell(f"BROKEN {checker}: {text}")

    def _tell(self, text: str) -> None:
        if self._traced:
            self._lines.append(f"{self._loop.time():10.3f} {text}")


class _Ended(Exception):
    """Ends the run; the reason is in the failure."""


async def _no_step(context: StepContext) -> dict[str, Any]:
    raise AssertionError(f"no flow run was submitted, and {context} is worked on")


async def _deliver(message: PublishedMessage, instance: Instance) -> Result:
    delivery = Delivery(
        message_id=message.id,
        publish_time=message.published_at,
        data=message.data,
        attributes=message.attributes,
        subscription=SUBSCRIPTION,
    )
    return await instance.engine.handle(delivery)


async def _replay(delivery: Delivery, instance: Instance) -> Result:
    return await instance.engine.handle(delivery, replay=True, bury=False)


async def _replay_letter(ref: Ref, instance: Instance) -> Result | None:
    return await instance.replay_letter(ref)
