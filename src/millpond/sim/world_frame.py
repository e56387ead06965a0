"""What every simulated world has: its loop, store and report, the way it runs, and the end with the first failure.

`world.py` plays the built-in facts in it, `testing/user_world.py` a user's events. It checks nothing itself.
"""

from __future__ import annotations

import asyncio
import random
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import msgspec

from millpond.core.collections import LETTERS
from millpond.core.errors import Overloaded
from millpond.core.model import Delivery, Outcome, Ref, Result
from millpond.dead_letters.pubsub_attributes import restore
from millpond.sim.broker import SUBSCRIPTION, Broker
from millpond.sim.facts import PublishedMessage
from millpond.sim.fleet import Fleet
from millpond.sim.instance import Instance
from millpond.sim.rules import Broken
from millpond.sim.store import Storehouse
from millpond.sim.virtual_time import WORLD, Stuck, VirtualLoop
from millpond.sim.world_parameters import Swarm

# How long faults continue after the last message is published, and how long draining may take after that.
AFTERMATH_S = 30.0
DRAIN_S = 4 * 3_600.0
DRAINS = "everything drains"
_TRIES = 50


class WorldFailure(msgspec.Struct, frozen=True):
    checker: str
    text: str


class WorldReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one world. `seen` counts faults and rare states by name."""

    seed: int
    failure: WorldFailure | None
    messages: int
    seconds: float
    steps: int
    seen: dict[str, int]
    trace: list[str] = []


class WorldFrame(ABC):
    """A subclass sets `_fleet` and `_broker`, and plays the world."""

    _fleet: Fleet
    _broker: Broker

    def __init__(
        self, seed: int, swarm: Swarm, messages: Sequence[PublishedMessage], *, trace: bool = False
    ) -> None:
        self.seed = seed
        self.failure: WorldFailure | None = None
        self._swarm = swarm
        self._messages = messages
        self._dice = random.Random(f"{seed}/world")  # noqa: S311 - repeatable on purpose
        self._seen: Counter[str] = Counter()
        self._traced = trace
        self._lines: list[str] = []
        # It implements no sockets, signals or subprocesses, and the product uses none here.
        self._loop = VirtualLoop(seed, self._fail)  # type: ignore[abstract]
        self._house = Storehouse(seed, swarm, self._loop, self._seen, self._tell)
        self._house.traced = trace

    def run(self) -> WorldReport:
        try:
            self._play()
        except Broken as broken:
            self._fail(broken)
        except _Failed:
            pass
        except Exception as error:  # noqa: BLE001 - a bug in this phase is a failure of this seed, too
            self._fail(error)
        finally:
            self._loop.close()
        return WorldReport(
            seed=self.seed,
            failure=self.failure,
            messages=len(self._messages),
            seconds=round(self._loop.time(), 3),
            steps=self._loop.steps,
            seen=dict(sorted(self._seen.items())),
            trace=self._lines,
        )

    @abstractmethod
    def _play(self) -> None:
        """From the first message to the last check. Raises Broken."""

    @abstractmethod
    def _add_copy(self, copy: PublishedMessage) -> None:
        """A copy of a message that the broker dead-lettered is about to be replayed."""

    def _plan_outage(self) -> None:
        """The store goes away once, if the swarm says so."""
        if self._swarm.away_s:
            self._loop.call_at(self._dice.random() * self._swarm.publishing_s, self._go_away, context=WORLD)

    def _go_away(self) -> None:
        self._seen["store away"] += 1
        self._tell("the store goes away")
        self._house.away_until = self._loop.time() + self._swarm.away_s

    def _run_with_faults(self) -> None:
        self._run_until_time(self._swarm.publishing_s + self._swarm.away_s + AFTERMATH_S)
        self._tell("the faults stop")
        self._house.faulty = self._broker.faulty = False

    def _replay_letters(self) -> None:
        """Replay as an operator would: first the broker's dead letters, then ours."""
        originals = {message.id: message for message in self._messages}
        for delivery in self._broker.dead_letters():
            original = originals[delivery.message_id[1:]]
            self._add_copy(msgspec.structs.replace(original, id=delivery.message_id))
            self._seen["dead-letter copy replayed"] += 1
            self._wait_for(self._until_settled(partial(_replay, restore(delivery))))
        for letter in self._house.all_of(LETTERS):
            self._seen["letter replayed"] += 1
            self._wait_for(self._until_settled(partial(_replay_letter, letter.ref)))

    async def _until_settled(self, send: Callable[[Instance], Awaitable[Result | None]]) -> Result | None:
        """Send as a broker or an operator would: after RETRY again, with a pause."""
        reason = ""
        for _ in range(_TRIES):
            try:
                result = await send(self._fleet.anyone())
            except Overloaded as error:
                reason = error.reason
            else:
                if result is None or result.outcome is not Outcome.RETRY:
                    return result
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
            self._loop.run_until(lambda: self.failure is not None or done(), self._loop.time() + DRAIN_S)
        except Stuck as stuck:
            raise Broken(DRAINS, str(stuck)) from None
        if self.failure is not None:
            raise _Failed

    def _fail(self, error: BaseException | str) -> None:
        """Record the first failure; later ones may follow from it."""
        if self.failure is None:
            if isinstance(error, Broken):
                self.failure = WorldFailure(error.checker, error.text)
            else:
                self.failure = WorldFailure("nothing unexpected", f"{type(error).__name__}: {error}")
                if isinstance(error, BaseException):
                    self._tell("".join(traceback.format_exception(error)))
            self._tell(f"BROKEN {self.failure.checker}: {self.failure.text}")

    def _tell(self, text: str) -> None:
        if self._traced:
            self._lines.append(f"{self._loop.time():10.3f} {text}")


class _Failed(Exception):
    """Ends the run; the reason is in `failure`."""


async def deliver(message: PublishedMessage, instance: Instance) -> Result:
    """Deliver a message once more, outside the broker."""
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
