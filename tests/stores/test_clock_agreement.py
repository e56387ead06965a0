"""A wall clock that jumps deletes nothing: it is trusted only after it kept step with the monotonic clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond.core import timestamps
from millpond.core.model import Outcome, Put, Ref
from millpond.stores.clock_agreement import AGREED_S, DRIFT_S, ClockAgreement, ClockReading
from millpond.stores.sqlite.store import SqliteStore
from millpond.stores.sweeper import SWEEP_EVERY_S
from tests.common.pond import NOW, SECOND, Orders, Pond, delivery, order
from tests.common.rig import Rig

TWO_WEEKS_S = 14 * 86_400
RECEIPT, LETTER = Ref("ops_dedupe", "r"), Ref("dead_letters", "l")


class Clocks:
    """Both clocks of a machine. `ahead_s`: by how much the wall clock is set wrong."""

    def __init__(self) -> None:
        self.passed_s = 0.0
        self.ahead_s = 0.0

    def wall(self) -> int:
        return NOW + round((self.passed_s + self.ahead_s) * SECOND)

    def monotonic(self) -> float:
        return 77.0 + self.passed_s


def watch(clocks: Clocks, agreement: ClockAgreement, seconds: float) -> ClockReading:
    """ClockReading once a minute for so long; the last look."""
    end = clocks.passed_s + seconds
    look = agreement.look()
    while clocks.passed_s < end:
        clocks.passed_s += min(SWEEP_EVERY_S, end - clocks.passed_s)
        look = agreement.look()
    return look


def begin() -> tuple[Clocks, ClockAgreement]:
    clocks = Clocks()
    return clocks, ClockAgreement(clocks.wall, clocks.monotonic)


def test_a_process_that_has_just_begun_trusts_nothing() -> None:
    """It cannot know whether it was started with a wrong clock."""
    clocks, agreement = begin()
    assert not agreement.look().trusted
    assert not watch(clocks, agreement, AGREED_S - 1).trusted
    assert watch(clocks, agreement, 1).trusted
    assert watch(clocks, agreement, 86_400).trusted


@pytest.mark.parametrize("jump_s", [TWO_WEEKS_S, -TWO_WEEKS_S, 2 * DRIFT_S])
def test_a_jump_is_seen_and_waited_out(jump_s: float) -> None:
    """There and back: each starts the wait anew, and is told once."""
    clocks, agreement = begin()
    assert watch(clocks, agreement, AGREED_S).trusted
    clocks.ahead_s = jump_s
    look = agreement.look()
    assert (look.trusted, look.now, round(look.jump_s)) == (False, clocks.wall(), round(jump_s))
    assert watch(clocks, agreement, 120) == ClockReading(clocks.wall(), trusted=False, jump_s=0.0)
    clocks.ahead_s = 0
    assert round(agreement.look().jump_s) == round(-jump_s)
    assert not watch(clocks, agreement, AGREED_S - 1).trusted
    assert watch(clocks, agreement, 61).trusted


def test_small_steps_are_drift_until_they_add_up() -> None:
    """A second an hour is what clocks do. Four seconds a minute is a clock that is being moved."""
    clocks, agreement = begin()
    for _ in range(48):
        clocks.ahead_s += 1
        look = watch(clocks, agreement, AGREED_S)
        assert look.jump_s == 0
    assert look.trusted
    for _ in range(10):
        clocks.ahead_s += 4
        look = watch(clocks, agreement, 60)
    assert not look.trusted


def expiring(clocks: Clocks, days: float) -> dict[str, object]:
    return {"expireAt": timestamps.to_datetime(clocks.wall() + round(days * timestamps.DAY_US)), "views": {}}


async def test_a_jump_of_two_weeks_sweeps_nothing(tmp_path: Path) -> None:
    """Neither receipts nor letters nor the log; a line says so. What is really over goes later."""
    clocks = Clocks()
    store = SqliteStore(tmp_path / "pond.db")
    rig = Rig(store, None, clocks.wall, clocks.monotonic, EVENT_LOG_TTL_DAYS="7")
    service = rig.service
    await store.commit([Put(RECEIPT, None, expiring(clocks, 7)), Put(LETTER, None, expiring(clocks, 14))])
    await service.engine.handle(delivery({"service": "api", "timestamp": "2026-01-08T12:40:00Z"}))
    (logged,) = (await store.read_log(None, 10)).entries

    async def pass_minutes(minutes: float) -> int:
        swept = 0
        for _ in range(round(minutes)):
            clocks.passed_s += SWEEP_EVERY_S
            swept += await service.sweeper.sweep()
        return swept

    assert await pass_minutes(2 * AGREED_S / 60) == 0
    clocks.ahead_s = TWO_WEEKS_S + 3_600
    assert await pass_minutes(2) == 0
    clocks.ahead_s = 0
    assert await pass_minutes(2 * AGREED_S / 60) == 0
    assert None not in [found.data for found in await store.read([RECEIPT, LETTER])]
    assert (await store.read_log(None, 10)).entries == [logged]
    # Eight days go by in earnest: the receipts and the log's entry are over, the letter is not.
    clocks.passed_s += 8 * 86_400
    assert await pass_minutes(1) == 3
    kept = [found.data is not None for found in await store.read([RECEIPT, LETTER])]
    assert kept == [False, True]
    await service.close()
    told = [line["message"] for line in rig.lines() if line.get("reason") == "clock_jumped"]
    assert len(told) == 2
    assert told[0].startswith("the wall clock jumped by +1,213,200 s")
    assert told[1].startswith("the wall clock jumped by -1,213,200 s")


def test_a_tally_counts_nothing_twice_while_the_clock_is_ahead() -> None:
    """Its receipt looks expired then, and so does the event: it is refused, not counted. Afterwards it is known."""
    pond = Pond([Orders()])
    pond.send(order("1", 5, 0))
    pond.now += TWO_WEEKS_S * SECOND
    (ahead,) = pond.send(order("1", 5, 0))
    assert (ahead.outcome, ahead.reason) == (Outcome.POISON, "too_old_to_count")
    pond.now = NOW
    (after,) = pond.send(order("1", 5, 0))
    assert after.outcome is Outcome.DUPLICATE
    assert pond.documents[Ref("sales", "d1")].data["count"] == 1  # type: ignore[index]


async def test_a_letter_buried_while_the_clock_is_behind_lives_as_long(tmp_path: Path) -> None:
    """By the broker's clock: otherwise the first sweep after the clock is right would delete it."""
    clocks = Clocks()
    clocks.ahead_s = -TWO_WEEKS_S
    store = SqliteStore(tmp_path / "pond.db")
    service = Rig(store, None, clocks.wall).service
    result = await service.engine.handle(delivery({"nothing": 1}, "p"))
    assert result.buried
    (letter,) = await store.list_documents("dead_letters", 10, None)
    assert letter.data is not None
    assert letter.data["expireAt"] == timestamps.to_datetime(NOW + 14 * timestamps.DAY_US)
    assert letter.data["buriedAt"] == timestamps.to_datetime(clocks.wall())
    await service.close()
