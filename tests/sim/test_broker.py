"""The simulated broker: what it does with an answer that comes after the lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from millpond.sim.broker import Broker
from millpond.sim.checks import Checks
from millpond.sim.facts import draw_messages
from millpond.sim.virtual_time import WORLD, Process, VirtualLoop
from millpond.sim.world_parameters import FAULTS, Swarm, draw, without

LASTS_S = 300.0


class Slow:
    """An instance that refuses each delivery, some time after it came."""

    name = "slow"
    stopping = False

    def __init__(self, loop: VirtualLoop, answers_after_s: float) -> None:
        self.process = Process()
        self.received = 0
        self._loop = loop
        self._answers_after_s = answers_after_s

    def push(self, _: bytes, respond: Callable[[int, object, bytes], None]) -> None:
        self.received += 1
        self._loop.call_later(self._answers_after_s, respond, 503, None, b"", context=WORLD)


class NoChecks:
    def add(self, _: object) -> None: ...


def calm_swarm(lease_s: float) -> Swarm:
    swarm = draw(0)
    for fault in FAULTS:
        swarm = without(swarm, fault)
    return msgspec.structs.replace(swarm, lease_s=lease_s, receipts_expire=False, dead_letter_attempts=None)


@pytest.mark.parametrize("lease_s", [1_000.0, 1.0], ids=["within the lease", "after the lease"])
def test_a_refusal_brings_one_more_copy_and_no_more(lease_s: float) -> None:
    """A broker that sent a copy for the lease and another for the late refusal would double them each time."""
    failures: list[BaseException | str] = []
    loop = VirtualLoop(1, failures.append)  # type: ignore[abstract]
    slow = Slow(loop, answers_after_s=20.0)
    swarm = calm_swarm(lease_s)
    checks = cast("Checks", NoChecks())
    broker = Broker(1, swarm, loop, checks, Counter(), lambda _: slow, lambda _: None)
    broker.publish(draw_messages(0, swarm)[0])
    over: list[bool] = []
    loop.call_at(LASTS_S, over.append, True, context=WORLD)
    loop.run_until(lambda: bool(over), time_max=2 * LASTS_S)
    loop.close()

    assert failures == []
    # A round takes 20 s and a backoff of at most 15 s, or with the short lease at least 6 s.
    assert LASTS_S / 35 - 1 <= slow.received <= LASTS_S / 6
