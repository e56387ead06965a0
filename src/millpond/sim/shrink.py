"""Shrinks a failing world: fewer messages, faults and instances, with the same promise broken.

The messages are drawn once from the seed, and removed from there, so the remaining ones do not change. A removal is
kept if the world still fails, until no removal is left. Called by `millpond simulate` and the planted bugs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from millpond.sim.facts import PublishedMessage, draw_messages
from millpond.sim.world import World
from millpond.sim.world_frame import WorldReport
from millpond.sim.world_parameters import FAULTS, Swarm, draw, without

RUNS_MAX = 600
NONE = "none"


class Stage(Protocol):
    """Whose worlds they are: of the built-in facts, or of a user's events and views."""

    @property
    def options(self) -> str:
        """The options of `millpond simulate` that select it, each followed by a space."""

    def draw(self, seed: int) -> tuple[Swarm, list[PublishedMessage]]: ...

    def run(
        self, seed: int, swarm: Swarm, messages: Sequence[PublishedMessage], *, trace: bool = False
    ) -> WorldReport: ...


class BuiltInStage(msgspec.Struct, frozen=True):
    """Worlds of the built-in facts, views and flow runs."""

    options: str = ""

    def draw(self, seed: int) -> tuple[Swarm, list[PublishedMessage]]:
        swarm = draw(seed)
        return swarm, draw_messages(seed, swarm)

    def run(
        self, seed: int, swarm: Swarm, messages: Sequence[PublishedMessage], *, trace: bool = False
    ) -> WorldReport:
        return World(seed, swarm, messages, trace=trace).run()


BUILT_IN = BuiltInStage()


class Smaller(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a seed's world: which messages and faults, on how many instances."""

    seed: int
    stage: Stage = BUILT_IN
    messages: tuple[str, ...] | None = None
    # Faults that may happen; None means all that were drawn.
    faults: tuple[str, ...] | None = None
    instances: int | None = None

    def run(self, *, trace: bool = False) -> WorldReport:
        swarm, messages = self._drawn()
        return self.stage.run(self.seed, swarm, messages, trace=trace)

    def _drawn(self) -> tuple[Swarm, list[PublishedMessage]]:
        swarm, messages = self.stage.draw(self.seed)
        kept = [m for m in messages if self.messages is None or m.id in self.messages]
        for fault in FAULTS:
            if self.faults is not None and fault not in self.faults:
                swarm = without(swarm, fault)
        if self.instances is not None:
            swarm = msgspec.structs.replace(swarm, instances=self.instances)
        return swarm, kept

    def shown_messages(self) -> list[PublishedMessage]:
        return self._drawn()[1]

    def shown_ids(self) -> list[str]:
        return [message.id for message in self.shown_messages()]

    def options(self) -> str:
        """The options of `millpond simulate` that run exactly this world."""
        words = [f"{self.stage.options}--seed {self.seed}"]
        if self.instances is not None:
            words.append(f"--instances {self.instances}")
        if self.faults is not None:
            words.append(f"--faults {','.join(self.faults) or NONE}")
        if self.messages is not None:
            words.append(f"--messages {','.join(self.messages) or NONE}")
        return " ".join(words)


def shrink(
    seed: int, checker: str, advance: Callable[[int], None] = lambda _: None, stage: Stage = BUILT_IN
) -> Smaller:
    """The smallest world found in which this checker still fails."""
    return _Shrinking(seed, checker, advance, stage).shrink()


class _Shrinking:
    def __init__(self, seed: int, checker: str, advance: Callable[[int], None], stage: Stage) -> None:
        swarm, messages = stage.draw(seed)
        ids = tuple(message.id for message in messages)
        on = tuple(fault for fault, never in FAULTS.items() if getattr(swarm, fault) != never)
        self._best = Smaller(seed=seed, stage=stage, messages=ids, faults=on, instances=swarm.instances)
        self._checker = checker
        self._advance = advance
        self._runs = 0

    def shrink(self) -> Smaller:
        before = None
        while before != self._best and self._runs < RUNS_MAX:
            before = self._best
            self._take_messages()
            self._take_faults()
            self._take_instances()
        return self._best

    def _take_messages(self) -> None:
        """Remove big pieces first, then smaller ones."""
        size = max(1, len(self._best.messages or ()) // 2)
        while True:
            at = 0
            while at < len(self._best.messages or ()):
                ids = self._best.messages or ()
                if not self._try(messages=(*ids[:at], *ids[at + size :])):
                    at += size
            if size == 1:
                return
            size //= 2

    def _take_faults(self) -> None:
        for fault in self._best.faults or ():
            self._try(faults=tuple(other for other in self._best.faults or () if other != fault))

    def _take_instances(self) -> None:
        for instances in range(1, self._best.instances or 1):
            if self._try(instances=instances):
                return

    def _try(self, **changes: Sequence[str] | int) -> bool:
        """Whether the world still fails after this removal; if so the removal is kept."""
        if self._runs >= RUNS_MAX:
            return False
        self._runs += 1
        self._advance(1)
        candidate = msgspec.structs.replace(self._best, **changes)
        failure = candidate.run().failure
        if failure is None or failure.checker != self._checker:
            return False
        self._best = candidate
        return True
