"""The instances of the simulated world: starts, crashes, freezes, stops and restarts them. Owned by `world.py`."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from millpond.flow.step import StepFunction
from millpond.settings import Settings
from millpond.sim.instance import Instance, OnAnswer
from millpond.sim.store import Storehouse
from millpond.sim.virtual_time import WORLD

# A killed process runs up to this many more callbacks, so it may die at any await, not only at a timer.
_STEPS_LEFT_MAX = 60


class Fleet:
    def __init__(
        self, seed: int, settings: Settings, house: Storehouse, seen: Counter[str], tell: Callable[[str], None]
    ) -> None:
        self._seed = seed
        self._settings = settings
        self._house = house
        self._swarm = house.swarm
        self._loop = house.loop
        self._seen = seen
        self._tell = tell
        self._dice = random.Random(f"{seed}/fleet")  # noqa: S311 - repeatable on purpose
        self._slots: list[Instance | None] = [None] * house.swarm.instances
        self._lives = 0
        self._calm = False
        self._answered: OnAnswer = lambda *_: None
        self._step: StepFunction | None = None

    def start(self, answered: OnAnswer, step: StepFunction) -> None:
        self._answered, self._step = answered, step
        for slot in range(len(self._slots)):
            self._start(slot)
        self._later(self._swarm.crash_every_s, self._crash)
        self._later(self._swarm.stop_every_s, self._stop)
        self._later(self._swarm.freeze_every_s, self._freeze)

    def pick(self, dice: random.Random) -> Instance | None:
        """A living instance; a stopping one still takes what reaches it, and answers that it must come again."""
        living = [instance for instance in self._slots if instance is not None]
        return living[int(dice.random() * len(living))] if living else None

    def anyone(self) -> Instance:
        """An instance. Only for the phase in which no instance dies."""
        instance = self.pick(self._dice)
        assert instance is not None  # noqa: S101 - all of them live
        return instance

    def calm_down(self) -> None:
        """No more crashes, and a new version everywhere: one without the bug of a view."""
        self._calm = True
        for slot, instance in enumerate(self._slots):
            if instance is not None and not instance.stopping and self._swarm.outlives_faults:
                # Anything it leaked during the faults (room, slots, busy documents) must not block it.
                instance.process.steps_left = None
                instance.mend()
                continue
            if instance is not None:
                instance.stopping = True
                instance.process.kill()
            self._start(slot)

    def _start(self, slot: int) -> None:
        self._lives += 1
        assert self._step is not None  # noqa: S101 - given by start()
        instance = Instance(
            f"i{slot}.{self._lives}",
            self._settings,
            self._house,
            dice=random.Random(f"{self._seed}/life/{self._lives}"),  # noqa: S311 - as above
            answered=self._answered,
            step=self._step,
            mended=self._calm,
        )
        instance.process.on_death = lambda: self._died(slot, instance)
        self._slots[slot] = instance
        self._tell(f"{instance.name} starts")

    def _later(self, every_s: float | None, call: Callable[[], None]) -> None:
        if every_s is not None and not self._calm:
            self._loop.call_later(self._dice.expovariate(1 / every_s), call, context=WORLD)

    def _crash(self) -> None:
        self._later(self._swarm.crash_every_s, self._crash)
        instance = self.pick(self._dice)
        if instance is not None and not self._calm:
            instance.process.steps_left = self._dice.randint(1, _STEPS_LEFT_MAX)

    def _stop(self) -> None:
        self._later(self._swarm.stop_every_s, self._stop)
        instance = self.pick(self._dice)
        if instance is not None and not instance.stopping and not self._calm:
            self._seen["stopped in an orderly way"] += 1
            # The signal is sent even to a frozen instance, which handles it later.
            instance.stopping = True
            instance.start(instance.stop())

    def _freeze(self) -> None:
        """Pause the instance's machine: when it continues, its view of time and leases is out of date."""
        self._later(self._swarm.freeze_every_s, self._freeze)
        instance = self.pick(self._dice)
        if instance is not None and not self._calm:
            self._seen["frozen for a while"] += 1
            instance.process.frozen_until = self._loop.time() + self._dice.uniform(1.0, 40.0)
            self._tell(f"{instance.name} is frozen")

    def _died(self, slot: int, instance: Instance) -> None:
        self._tell(f"{instance.name} dies")
        self._seen["verdict from the cache checked by a read"] += instance.metrics.verdicts_checked
        if not instance.stopping:
            self._seen["crash"] += 1
            self._seen["crash with a commit under way"] += instance.store.commits_under_way > 0
        self._slots[slot] = None
        if not self._calm:
            pause_s = self._swarm.restart_s * self._dice.uniform(0.5, 1.5)
            self._loop.call_later(pause_s, self._restart, slot, context=WORLD)

    def _restart(self, slot: int) -> None:
        if self._slots[slot] is None:
            self._start(slot)
