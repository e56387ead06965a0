"""Turns at contended documents, in a whole engine: what wakes them, what they read, and whom they leave alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import cast

import pytest
import uvloop

from millpond.concurrency import Alarm
from millpond.core.errors import Unavailable
from millpond.core.model import Committed, Conflict, LogEntry, Outcome, Ref, Write
from millpond.engine import engine
from millpond.engine.contention import OtherWriters
from millpond.engine.room import WaitingRoom
from millpond.engine.ticket import Ticket
from tests.common.faulty_store import FaultyStore
from tests.common.pond import at, delivery, service
from tests.common.rig import Bench, Rig
from tests.common.waiting import until
from tests.engine.support import Unnamed

API = Ref("ops_services", "dev__api")
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> OtherWriters:
    """What the next engine knows of other instances."""
    known = OtherWriters()
    monkeypatch.setattr(engine, "OtherWriters", lambda: known)
    return known


def now() -> float:
    return asyncio.get_running_loop().time()


@LOOPS
def test_an_alarm_rings_once_at_the_earliest_time(new_loop: NewLoop) -> None:
    """Also within a millisecond, of which uvloop's timers know nothing."""
    rung: list[float] = []

    async def story() -> None:
        alarm = Alarm(lambda: rung.append(now()))
        for later_s in (0.2, 0.0003, 0.0002, 0.1):
            alarm.set(now() + later_s)
        await asyncio.sleep(0.05)
        assert len(rung) == 1
        alarm.set(now() + 0.0001)
        await asyncio.sleep(0.3)
        assert len(rung) == 2

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())


@LOOPS
def test_two_instances_share_a_document_on_every_event_loop(new_loop: NewLoop) -> None:
    """The server runs on uvloop: no turn, however soon it is due, ends in an error."""
    errors: list[object] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        store = Unnamed()
        ours, theirs = Bench(store), Rig(store)
        for turn in range(60):
            sent = [service(f"m{turn}-{n}", n, "ok", turn * 10 + n) for n in range(4)]
            found = await asyncio.gather(ours.send(*sent[:2]), theirs.send(*sent[2:]))
            assert {result.outcome for results in found for result in results} <= {Outcome.APPLIED, Outcome.STALE}
        assert store.refused_commits > 10

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(story())
    assert errors == []


async def test_redelivered_messages_do_not_make_every_turn_lose(others: OtherWriters) -> None:
    """A receipt that exists makes the turn lose; the next one reads the receipts of all its messages."""
    store = Unnamed()
    theirs = Rig(store.inner)
    known = [service(f"d{n}", n, "old", n) for n in range(20)]
    await theirs.send(*known)
    ours = Bench(store)
    others.contend([API], now())
    left = iter(known[1:])
    store.on_refusal = lambda: ours.engine.submit(next(left), lambda _: None)
    results = await ours.send(known[0], service("new", 100, "new", 100))
    assert [result.outcome for result in results] == [Outcome.DUPLICATE, Outcome.APPLIED]
    assert store.refused_commits == 1


async def test_a_turn_that_fails_does_not_hold_up_the_next(others: OtherWriters) -> None:
    """Its messages back off by themselves; another contended document has its turn meanwhile."""
    store = Unnamed()
    bench = Bench(store, FIRESTORE_RETRY_INITIAL_BACKOFF_S="20", FIRESTORE_RETRY_MAX_BACKOFF_S="20")
    others.contend([API, Ref("ops_services", "dev__web")], now())
    store.gate.clear()
    store.before = [Unavailable("away")]
    failing = asyncio.ensure_future(bench.send(service("m1", 1, "ok", 1)))
    await until(lambda: store.commits_running)
    other = asyncio.ensure_future(bench.send(delivery({"service": "web", "timestamp": at(1)}, "m2")))
    await asyncio.sleep(0.05)
    store.gate.set()
    async with asyncio.timeout(8):
        assert (await other)[0].outcome is Outcome.APPLIED
    assert not failing.done()
    failing.cancel()


async def test_what_changed_long_ago_is_not_contended(
    others: OtherWriters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A document that was edited or expired costs one read and one more commit, and no turn."""
    monkeypatch.setattr("millpond.engine.reader.CONTENDED_WITHIN_S", 0.0)
    store = Unnamed()
    ours = Bench(store)
    await ours.send(service("m1", 1, "one", 1))
    await Rig(store.inner).send(service("m2", 2, "two", 2))
    store.reads.clear()
    (result,) = await ours.send(service("m3", 3, "three", 3))
    assert result.outcome is Outcome.APPLIED
    assert store.reads == [[API]]
    assert not others.contended


async def test_a_conflict_after_a_lost_reply_is_no_contention(others: OtherWriters) -> None:
    """The commit was applied late, and its receipt is in the way: that tells nothing of other instances."""
    store = Unnamed()
    ours = Bench(store)
    message = service("m1", 1, "one", 1)

    async def late(writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        if len(store.commits) == 1:
            raise Unavailable("no answer")
        if len(store.commits) == 2:
            # It arrives between our read and our second commit.
            await Rig(store.inner).send(message)
        return await Unnamed.commit(store, writes, log)

    async def counted(writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        store.commits.append(writes)
        return await late(writes, log)

    ours.store.commit = counted  # type: ignore[method-assign]
    (result,) = await ours.send(message)
    assert result.outcome is Outcome.DUPLICATE
    assert store.refused_commits == 1
    assert not others.contended


async def test_a_named_receipt_costs_a_read_of_its_message_alone() -> None:
    """SQLite says which receipt exists: the others of the batch are not read."""
    store = FaultyStore(in_flight_max=1)
    sent = [delivery({"service": f"s{n}", "timestamp": at(1)}, f"m{n}") for n in range(100)]
    await Bench(store).send(sent[0])
    again = Bench(store)
    store.reads.clear()
    results = await again.send(*sent)
    assert [result.outcome for result in results] == [Outcome.DUPLICATE] + [Outcome.APPLIED] * 99
    read = sum(map(len, store.reads))
    assert read <= 100 + 3, read


async def test_messages_that_rest_do_not_hold_up_bulk_work(others: OtherWriters) -> None:
    """They wait for other instances, not for the store; those of a turn under way do wait for it."""
    store = Unnamed()
    bench = Bench(store)
    store.gate.clear()
    others.contend([API], now())
    turn = asyncio.ensure_future(bench.send(service("m1", 1, "ok", 1)))
    await until(lambda: store.commits_running)
    more = asyncio.ensure_future(bench.send(service("m2", 2, "ok", 2)))
    await until(lambda: bench.engine.waiting)
    assert bench.engine.held_up == 1
    store.gate.set()
    await asyncio.gather(turn, more)
    assert bench.engine.held_up == 0


def test_the_lane_rests_between_two_turns(others: OtherWriters) -> None:
    """What it holds then is not held up."""
    room = WaitingRoom(
        rules=Bench(Unnamed()).engine.rules, others=others, jitter=random.Random(1), batches_at_once=1
    )
    assert room.resting == 0
    room.lane.waiting.append(cast("Ticket", None))
    assert room.resting == 1
    room.lane.begin(1)
    assert room.resting == 0
