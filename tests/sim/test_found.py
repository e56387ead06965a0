"""Bugs of the product that the simulation found: each as a test of its own, and the seed that showed it.

A seed means the same world only while worlds are drawn the same way, so the test of its own is what stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from millpond.core.model import Delivery, Ref, Snapshot
from millpond.engine import reader
from millpond.sim.views import GateLast, GatePasses
from millpond.sim.world import run_seed
from tests.common.faulty_store import FaultyStore
from tests.common.pond import NOW, SECOND, at, delivery
from tests.common.rig import Bench, Rig

# Seed → what went wrong in its world.
SEEDS = {
    243: "a pass that was counted long ago came again, and was buried as too old to be counted",
    712: "one view failed on a pass and counted a copy of it, and the log said retry of the first message for ever",
    1938: "the clock of an instance was behind: its replay seemed to be before the burial, and hid the other view",
}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_world_that_showed_it_holds_now(seed: int) -> None:
    assert run_seed(seed).failure is None


def gate(message_id: str, number: int, at_s: float, **more: str) -> Delivery:
    return delivery({"topic": "gates", "gate": "g", "pass": number, "at": at(at_s), **more}, message_id, at_s)


class SlowReads(FaultyStore):
    """A store whose reads take two seconds of its reader's clock."""

    bench: Bench | None = None

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        if self.bench is not None:
            self.bench.now += 2 * SECOND
        return await super().read(refs)


async def test_an_event_that_becomes_too_old_while_it_is_planned_is_known_by_its_receipt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The documents were read again, the receipt was still assumed absent, and by then the limit was passed."""
    store = SlowReads()
    rules = {"VIEWS": "millpond.sim.views", "RECEIPT_TTL_DAYS": "0.01", "MAX_FUTURE_SKEW_S": "300"}
    first, second = Bench(store, **rules), Bench(store, **rules)
    await first.send(gate("1", 1, 0))
    await first.send(gate("2", 2, 1))
    await second.send(gate("3", 3, 2))
    # The second instance knows the documents, and from now on doubts what it knows; the receipt it never saw.
    monkeypatch.setattr(reader, "TRUSTED_FOR_S", -1.0)
    limit_s = 864 - 300
    second.now = NOW + (limit_s - 1) * SECOND
    store.bench = second
    (result,) = await second.send(gate("1", 1, 0))
    assert (result.outcome, result.reason) == ("duplicate", "duplicate_message_noop")
    assert (await second.document("gate_passes/g"))["passes"] == [1, 2, 3]
    assert second.now > NOW + limit_s * SECOND


async def test_a_message_whose_copy_was_counted_is_a_copy_and_no_redelivery() -> None:
    """The receipt named only the message that made it: the log then left out what became of that message."""
    store, passes = FaultyStore(), GatePasses()
    bench = Rig(store, [GateLast(), passes])

    async def reasons(message_id: str) -> list[str]:
        (result,) = await bench.send(gate(message_id, 1, 0, passes="bug"))
        return [view.reason for view in result.views]

    assert await reasons("1") == ["applied", "view_error"]
    passes.mended = True
    assert await reasons("2") == ["duplicate_event_noop", "applied"]
    assert await reasons("1") == ["duplicate_message_noop", "duplicate_event_noop"]
    assert await reasons("2") == ["duplicate_message_noop", "duplicate_message_noop"]
