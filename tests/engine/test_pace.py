"""The pace of bulk work, on a clock that jumps: Google's rule, slower if the store asks, live traffic first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from millpond.engine.bulk_rate import EXHAUSTED, STEP_S
from millpond.engine.pace import Pace, Wording
from tests.common.ruled_store import in_steps
from tests.common.warped_time import run_warped

USUAL_S = 0.02


def now() -> float:
    return asyncio.get_running_loop().time()


class Worker:
    """Bulk work in pages, one after the other, each committed at once."""

    def __init__(self, pace: Pace, page: int = 20) -> None:
        self.pace = pace
        self.page = page
        self.code: str | None = None
        self.took_s = USUAL_S

    async def work(self, seconds: float) -> float:
        """Writes a second."""
        written, until, began = 0, now() + seconds, now()
        while now() < until:
            async with self.pace.turn(self.page):
                self.pace.committed(self.page, self.took_s, self.code)
            written += self.page
        return written / max(now() - began, 0.001)


@pytest.mark.parametrize("step", range(3))
def test_it_begins_at_500_and_grows_by_half_every_five_minutes(step: int) -> None:
    """It writes over 90 % of what the rule allows, and never more than all of it."""

    async def story() -> float:
        worker = Worker(Pace())
        await worker.work(step * STEP_S)
        return await worker.work(60)

    assert 0.9 * in_steps(step * 300) < run_warped(story()) <= in_steps(step * 300)


def test_no_second_has_more_writes_than_the_rule_allows() -> None:
    """Nor has the first one, nor one after a pause, when a group of turns is free at once."""

    async def story() -> list[tuple[float, int]]:
        pace, written = Pace(), []

        async def message() -> None:
            async with pace.turn():
                written.append((now(), 2))
                pace.committed(2, USUAL_S)
                pace.settled(None)

        for _ in range(5):
            await asyncio.gather(*(message() for _ in range(700)))
            await asyncio.sleep(0.3)
        return written

    written = run_warped(story())
    assert len(written) == 3_500
    worst = max(sum(n for at, n in written if began <= at < began + 1) for began, _ in written[::10])
    assert 450 < worst <= 500


def test_little_work_makes_no_step() -> None:
    """The store is not used to a rate that it was never given: by a replay now and then, or while it refuses."""

    async def story() -> tuple[float, float]:
        seldom = Worker(Pace())
        for _ in range(15):
            await seldom.work(0.01)
            await asyncio.sleep(STEP_S - 60)
        refused = Worker(Pace())
        refused.code = EXHAUSTED
        await refused.work(4 * STEP_S)
        refused.code = None
        await refused.work(120)
        return await seldom.work(5), await refused.work(5)

    assert max(run_warped(story())) <= 500


def test_reads_count_like_writes() -> None:
    """Google's rule is about operations."""

    async def story() -> float:
        pace, operations, began = Pace(), 0, now()
        while now() < began + 30:
            async with pace.turn(40):
                pace.read(20)
                pace.committed(20, USUAL_S)
            operations += 40
        return operations / (now() - began)

    assert 450 < run_warped(story()) <= 500


def test_after_five_minutes_without_bulk_work_it_begins_anew() -> None:
    """A shorter pause changes nothing: the store still knows the traffic."""

    async def story() -> tuple[float, float]:
        worker = Worker(Pace())
        await worker.work(301)
        await asyncio.sleep(STEP_S - 10)
        soon = await worker.work(5)
        await asyncio.sleep(STEP_S + 10)
        return soon, await worker.work(5)

    soon, late = run_warped(story())
    assert soon > 600
    assert late < 500


def test_it_counts_what_was_committed_and_not_what_was_reserved() -> None:
    """Messages that write nothing are not slowed down; those with many writes are, by their number."""

    async def rate(writes: int) -> float:
        pace, messages, began = Pace(), 0, now()
        while now() < began + 20:
            async with pace.turn():
                await asyncio.sleep(0.001)
                pace.committed(writes, USUAL_S)
                pace.settled(None)
            messages += 1
        return messages * writes / (now() - began) if writes else messages / (now() - began)

    assert run_warped(rate(0)) > 900
    assert 450 < run_warped(rate(8)) <= 500


def test_a_refusal_makes_it_slower_and_it_comes_back() -> None:
    """Never above the rule; and the reason says so until then."""

    async def story() -> list[tuple[float, str | None]]:
        worker, seen = Worker(Pace()), []
        for code in (None, EXHAUSTED, None):
            worker.code = code
            seen.append((await worker.work(10), worker.pace.reason))
        await worker.work(60)
        return [*seen, (await worker.work(10), worker.pace.reason)]

    (before, ramp), (refused, exhausted), (after, still), (last, ramp_again) = run_warped(story())
    assert before == pytest.approx(465, rel=0.05)
    assert after < refused < before / 3
    assert last == pytest.approx(465, rel=0.05)
    assert exhausted is not None
    assert exhausted.startswith("Firestore is exhausted: at most ")
    assert exhausted.split(":")[0] == (still or "").split(":")[0]
    assert ramp == ramp_again == "ramping up: 500 operations/s, half as much again every 5 minutes"


def test_refusals_of_the_same_second_count_once() -> None:
    """Commits that were under way together meet the same fault: it is one."""

    async def story(refusals: int) -> float:
        worker = Worker(Pace())
        await worker.work(5)
        for _ in range(refusals):
            worker.pace.committed(1, USUAL_S, EXHAUSTED)
        return await worker.work(1)

    assert run_warped(story(8)) == pytest.approx(run_warped(story(1)), rel=0.05)


def test_a_store_that_refuses_everything_still_gets_a_few_writes() -> None:
    """So that the work goes on when it takes writes again."""

    async def story() -> float:
        worker = Worker(Pace())
        worker.code = EXHAUSTED
        await worker.work(60)
        return await worker.work(60)

    assert 5 < run_warped(story()) < 30


def test_commits_that_take_longer_make_it_slower_and_it_comes_back() -> None:
    """Longer than twice their own usual time: a store that is slow from the beginning is not waited for."""

    async def story(usual_s: float) -> list[tuple[float, str]]:
        worker, seen = Worker(Pace()), []
        for took_s in (usual_s, usual_s * 5, usual_s):
            worker.took_s = took_s
            await worker.work(15)
            seen.append((await worker.work(10), (worker.pace.reason or "").split(":")[0]))
        await worker.work(60)
        return [*seen, (await worker.work(10), (worker.pace.reason or "").split(":")[0])]

    for usual_s in (0.02, 0.5):
        (before, ramp), (slow, longer), _, (last, at_last) = run_warped(story(usual_s))
        assert [before, last] == pytest.approx([465, 465], rel=0.05)
        assert 90 < slow < before / 2
        assert (ramp, longer, at_last) == ("ramping up", "commits take longer", "ramping up")


def test_one_slow_commit_is_no_reason() -> None:
    """A single one says nothing about the store, also after a pause."""

    async def story() -> str | None:
        worker = Worker(Pace())
        await worker.work(10)
        await asyncio.sleep(30)
        worker.pace.committed(1, 0.2)
        await worker.work(1)
        return worker.pace.reason

    assert (run_warped(story()) or "").startswith("ramping up")


def test_while_live_messages_wait_bulk_work_gets_a_trickle() -> None:
    """A twentieth of the rule, and all of it again when no live message waits."""

    async def story() -> tuple[float, str | None, float, str | None]:
        waiting = [5]
        worker = Worker(Pace(waiting=lambda: waiting[0]))
        behind, why = await worker.work(60), worker.pace.reason
        waiting[0] = 0
        return behind, why, await worker.work(60), worker.pace.reason

    behind, why, free, ramp = run_warped(story())
    assert behind == pytest.approx(25, rel=0.1)
    assert why == "live traffic goes first"
    assert free == pytest.approx(465, rel=0.05)
    assert ramp is not None
    assert ramp.startswith("ramping up")


def test_messages_of_bulk_work_that_wait_in_the_engine_are_not_live_ones() -> None:
    """Else bulk work would wait for itself."""

    async def story() -> float:
        under_way = [0]
        pace = Pace(waiting=lambda: under_way[0])

        async def message() -> None:
            async with pace.turn():
                under_way[0] += 1
                await asyncio.sleep(0.03)
                under_way[0] -= 1
                pace.committed(2, USUAL_S)
                pace.settled(None)

        began = now()
        await asyncio.gather(*(message() for _ in range(5_000)))
        return 10_000 / (now() - began)

    assert run_warped(story()) > 450


@pytest.mark.parametrize(("live", "left"), [(200, 265), (2_000, 25)])
def test_live_writes_use_up_the_same_rate(live: int, left: float) -> None:
    """Bulk work gets the rest, and a trickle if there is none. It does not have to make up for too many."""

    async def story() -> tuple[float, str | None, float]:
        worker = Worker(Pace())

        async def others() -> None:
            while True:
                await asyncio.sleep(0.05)
                worker.pace.committed(live // 20, USUAL_S)

        task = asyncio.create_task(others())
        beside, why = await worker.work(60), worker.pace.reason
        task.cancel()
        await worker.work(3)
        return beside, why, await worker.work(10)

    beside, why, alone = run_warped(story())
    assert beside == pytest.approx(left, rel=0.1)
    assert (why == "live traffic goes first") is (live == 2_000)
    assert alone == pytest.approx(465, rel=0.05)


def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    """A file's messages are submitted in the order of its lines."""

    async def story() -> list[int]:
        pace, order = Pace(), []

        async def message(number: int) -> None:
            # Faster than the rule allows, so that more and more of them wait.
            await asyncio.sleep(number * 0.0007)
            async with pace.turn():
                order.append(number)
                pace.committed(2, USUAL_S)
                pace.settled(None)

        await asyncio.gather(*(message(number) for number in range(500)))
        return order

    assert run_warped(story()) == list(range(500))


def test_one_commit_is_a_small_part_of_a_second() -> None:
    """A page that took all operations of a second at once would exceed the next one. Each is read and written."""

    async def story() -> list[int]:
        pace = Pace()
        worker, pages = Worker(pace), []
        for _ in range(3):
            pages.append(pace.page(500))
            await worker.work(STEP_S)
        return [*pages, pace.page(10)]

    assert run_warped(story()) == [50, 75, 112, 10]


def test_the_text_names_the_rate_and_the_reason() -> None:
    """In the words of what is counted; and there is none before the first turn."""

    async def story(pace: Pace) -> tuple[str, str]:
        before = pace.text
        await Worker(pace).work(10)
        return before, pace.text

    def shown(pace: Callable[[], Pace]) -> tuple[str, str]:
        return run_warped(story(pace()))

    assert shown(Pace) == ("", "460 operations/s, ramping up: 500 operations/s, half as much again every 5 minutes")
    _, messages = shown(lambda: Pace(first=250, wording=Wording("messages", "", "")))
    assert messages.startswith("2")
    assert messages.endswith(" messages/s, ramping up: 250 messages/s, half as much again every 5 minutes")
