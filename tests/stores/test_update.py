"""Read, decide, commit: what `update` returns and raises when others write, or the store fails."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from millpond.concurrency import Pauses
from millpond.core.errors import Unavailable, WriteRefused
from millpond.core.model import Conflict, Delete, Put, Ref, Snapshot, Write
from millpond.sim.virtual_time import VirtualLoop
from millpond.stores.update import Budget, Decided, Read, retry_conflicts, update
from tests.common.faulty_store import FaultyStore

T = TypeVar("T")
REF = Ref("counters", "a")
AWAY = Pauses(1.0, 4.0)
THREE_TRIES = Budget(tries=3)
A_MINUTE = Budget(seconds=60.0, away=AWAY)


class BusyStore(FaultyStore):
    """Another writer changes the document right before each of the first commits."""

    def __init__(self, others: int = 0) -> None:
        super().__init__()
        self.others = others

    async def commit(self, writes: Sequence[Write], log: Any = ()) -> Any:
        if self.others:
            self.others -= 1
            (found,) = await self.read([REF])
            self.reads.pop()
            n = 0 if found.data is None else found.data["n"]
            await super().commit([Put(REF, found.version, {"n": n + 100})])
            self.commits.pop()
        return await super().commit(writes, log)


def add_one(found: Sequence[Snapshot]) -> Decided[int]:
    """Counts each caller once: it recognises its own effect by the caller's mark."""
    (counter,) = found
    before = counter.data or {"n": 0}
    if before.get("by") == "me":
        return Decided(before["n"])
    n = before["n"] + 1
    return Decided(n, [Put(REF, counter.version, {"n": n, "by": "me"})])


def in_virtual_time(story: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, float]:
    """What the story returned or raised, and how many simulated seconds it took."""
    loop = VirtualLoop(1, lambda _: None)  # type: ignore[abstract]
    task = loop.create_task(story())
    loop.run_until(task.done, 1_000.0)
    try:
        return task.result(), loop.time()
    finally:
        loop.close()
        del task


async def count(store: FaultyStore, budget: Budget = THREE_TRIES, **options: Any) -> int | Conflict:
    return await update(store, [REF], add_one, budget, jitter=random.Random(1), **options)


def stored(store: FaultyStore) -> Any:
    return asyncio.run(store.read([REF]))[0].data


def test_what_was_decided_is_stored_once() -> None:
    """One read, one commit."""
    store = BusyStore()
    assert asyncio.run(count(store)) == 1
    assert (len(store.reads), len(store.commits)) == (1, 1)
    assert stored(store) == {"n": 1, "by": "me"}


def test_a_decision_without_writes_commits_nothing() -> None:
    """Its result is returned, and `after_commit` is not called."""
    store = BusyStore()
    sent: list[Sequence[Write]] = []

    def look(found: Sequence[Snapshot]) -> Decided[str]:
        return Decided(f"version {found[0].version}")

    assert asyncio.run(update(store, [REF], look, THREE_TRIES, after_commit=sent.append)) == "version None"
    assert (store.commits, sent) == ([], [])


def test_after_a_conflict_the_decision_rests_on_what_the_other_wrote() -> None:
    """Read again, decide again, under the new version."""
    store = BusyStore(others=2)
    assert asyncio.run(count(store)) == 201
    assert (len(store.reads), len(store.commits)) == (3, 3)


def test_what_a_first_reading_names_is_read_too() -> None:
    """In every try anew; all that was read stands in the order it was asked for."""
    store = BusyStore(others=1)
    parts = [Ref("parts", "1"), Ref("parts", "2")]
    asyncio.run(store.commit([Put(one, None, {}) for one in parts]))
    store.reads.clear()

    def delete_all(found: Sequence[Snapshot]) -> Decided[list[Ref]] | Read:
        if len(found) == 1:
            return Read(parts)
        return Decided([one.ref for one in found], [Delete(one.ref, one.version) for one in found if one.version])

    assert asyncio.run(update(store, [REF], delete_all, THREE_TRIES)) == [REF, *parts]
    assert store.reads == [[REF], parts]
    assert asyncio.run(store.collections()) == []


def test_tries_that_are_used_up_return_the_conflict() -> None:
    """The caller says what that means. No pause follows the last try."""
    store = BusyStore(others=9)
    quick = Budget(tries=3, after_conflict=Pauses(1.0, 4.0))
    result, took_s = in_virtual_time(lambda: count(store, quick))
    assert isinstance(result, Conflict)
    assert len(store.commits) == 3
    assert 1.5 <= took_s <= 3.0, "a pause of 0.5 to 1 s, and one of 1 to 2 s"


def test_time_that_is_used_up_returns_the_conflict() -> None:
    """By the event loop's clock, which passes only in the simulation here; no pause goes beyond the end."""
    store = BusyStore(others=10**6)
    result, took_s = in_virtual_time(lambda: count(store, Budget(seconds=60.0)))
    assert isinstance(result, Conflict)
    assert 59.0 < took_s < 60.0
    assert 120 < len(store.commits) < 260, "pauses grow to between 0.25 and 0.5 s"


def test_an_unknown_outcome_is_raised_unless_the_budget_waits() -> None:
    """The commit was applied and its reply lost: without `away` the caller has to find that out."""
    store = BusyStore()
    store.after = [Unavailable("the reply was lost")]
    with pytest.raises(Unavailable, match="the reply was lost"):
        asyncio.run(count(store))
    assert stored(store)["n"] == 1


def test_after_an_unknown_outcome_the_decision_sees_its_own_effect() -> None:
    """It is not made twice, whether or not the commit was applied."""
    applied, lost = BusyStore(), BusyStore()
    applied.after = [Unavailable("the reply was lost")]
    lost.before = [Unavailable("the request was lost")]
    for store, commits in ((applied, 1), (lost, 2)):
        result, took_s = in_virtual_time(lambda store=store: count(store, A_MINUTE))  # type: ignore[misc]
        assert (result, len(store.commits)) == (1, commits)
        assert 0.5 <= took_s <= 1.0
        assert stored(store)["n"] == 1


def test_a_store_that_stays_away_raises_its_own_error() -> None:
    """The last one, after the whole time; also if conflicts came after it: the earlier outcome is still unknown."""
    store = BusyStore()
    store.before = [Unavailable(f"away {n}", code="UNAVAILABLE") for n in range(100)]
    with pytest.raises(Unavailable, match="away"):
        in_virtual_time(lambda: count(store, A_MINUTE))
    tried = len(store.commits)
    assert 15 < tried < 40, "pauses grow to between 2 and 4 s"
    contended = BusyStore(others=10**6)
    contended.before = [None, Unavailable("away once")]
    with pytest.raises(Unavailable, match="away once"):
        in_virtual_time(lambda: count(contended, A_MINUTE))


def test_a_call_that_hangs_ends_with_the_budget() -> None:
    """In the first try that is said; after conflicts it is contention."""
    store = BusyStore()
    store.commit_s = 500.0
    with pytest.raises(Unavailable, match="the store did not answer in time"):
        in_virtual_time(lambda: count(store, A_MINUTE))
    outcomes: Iterator[float] = iter((0.0, 500.0))

    async def attempt() -> Conflict:
        await asyncio.sleep(next(outcomes))
        return Conflict()

    result, took_s = in_virtual_time(lambda: retry_conflicts(attempt, A_MINUTE))
    assert (result, took_s) == (Conflict(), 60.0)


def test_after_every_commit_that_was_sent_the_caller_is_told() -> None:
    """After a conflict, an error and a success: versions that are remembered elsewhere may be outdated."""
    store = BusyStore(others=1)
    store.after = [None, None, Unavailable("the reply was lost")]
    sent: list[Sequence[Write]] = []
    in_virtual_time(lambda: count(store, A_MINUTE, after_commit=sent.append))
    assert sent == store.commits
    assert len(sent) == 2


def test_other_errors_are_raised_at_once() -> None:
    """Those of the store, and those of `decide`, which is a bug."""
    store = BusyStore()
    store.before = [WriteRefused("over 1 MiB")]
    with pytest.raises(WriteRefused):
        in_virtual_time(lambda: count(store, A_MINUTE))
    assert len(store.commits) == 1

    def broken(_: Sequence[Snapshot]) -> Decided[None]:
        raise AssertionError("a bug")

    with pytest.raises(AssertionError, match="a bug"):
        asyncio.run(update(store, [REF], broken, A_MINUTE))


def test_a_cancelled_update_ends_at_once() -> None:
    """In a call of the store, and in a pause; a cancellation is no timeout."""

    async def story(store: FaultyStore, after_s: float) -> int:
        task = asyncio.get_running_loop().create_task(count(store, A_MINUTE))
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(store.commits)

    hanging, away = BusyStore(), BusyStore()
    hanging.commit_s = 500.0
    away.before = [Unavailable("away")] * 100
    assert in_virtual_time(lambda: story(hanging, 30.0)) == (1, 30.0)
    assert in_virtual_time(lambda: story(away, 0.1)) == (1, 0.1)


def test_an_update_without_a_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="tries or seconds"):
        Budget(away=AWAY)


@pytest.mark.parametrize("heals", [True, False])
def test_no_reference_cycle_is_left(*, heals: bool) -> None:
    """A raised error leads to the frames it passed; kept in one of them, both wait for the garbage collector."""

    async def story() -> None:
        for _ in range(10):
            store = BusyStore()
            store.before = [Unavailable("away") for _ in range(1 if heals else 1_000)]
            quick = Budget(tries=3, seconds=60.0, away=Pauses(0.001, 0.001))
            try:
                await count(store, quick)
            except Unavailable:
                assert not heals

    async def measure() -> int:
        await story()
        gc.collect()
        gc.disable()
        try:
            await story()
            return gc.collect()
        finally:
            gc.enable()

    assert asyncio.run(measure()) == 0
