"""Taking turns at contended documents: when a turn comes, how long an instance rests, when a turn is divided."""

from __future__ import annotations

import random

import pytest

from millpond.core.model import Delivery, Ref
from millpond.engine.contention import CONTENDED_FOR_S, OtherWriters
from millpond.engine.lane import Lane
from millpond.engine.ticket import Ticket
from tests.common.faulty_store import FaultyStore
from tests.common.pond import service
from tests.common.rig import Bench

TRY_S = 0.1
A, B = Ref("c", "a"), Ref("c", "b")


def waiting(lane: Lane, count: int) -> None:
    lane.waiting.extend(ticket_of(service(f"m{n}", n, "ok", n)) for n in range(count))


def ticket_of(delivery: Delivery) -> Ticket:
    bench = Bench(FaultyStore())
    return Ticket(bench.router.route(delivery, bench.now), 0.0, 1)


def turn(lane: Lane, now: float, *, won: int = 0, lost: int = 0, others_seen: int = 0, messages: int = 10) -> None:
    lane.begin(won + lost)
    for _ in range(won):
        lane.won(TRY_S, messages, others_seen)
        lane.end(now)
    for _ in range(lost):
        lane.lost(TRY_S, others_seen, exists=False)
        lane.end(now)


def test_after_a_turn_the_others_have_theirs() -> None:
    """The rest is as long as the tries of the others that were seen; without others there is none."""
    alone, among_others = Lane(random.Random(1)), Lane(random.Random(1))
    for _ in range(50):
        turn(alone, 5.0, won=1)
        turn(among_others, 5.0, won=1, others_seen=2)
    assert alone.due_at == 5.0
    assert among_others.due_at - 5.0 == pytest.approx(2 * TRY_S, rel=0.2)


def test_a_rest_is_bounded() -> None:
    """A message has seconds only, however many instances there are."""
    lane = Lane(random.Random(1))
    for _ in range(50):
        turn(lane, 5.0, won=1, others_seen=100)
    assert lane.due_at - 5.0 <= 1.0


def test_a_long_queue_goes_first() -> None:
    """If as much waits as in the last turns, half of the rest is enough."""
    lane = Lane(random.Random(1))
    for _ in range(50):
        turn(lane, 5.0, won=1, others_seen=2, messages=3)
    waiting(lane, 2)
    assert lane.begins_at - 5.0 == pytest.approx(2 * TRY_S, rel=0.2)
    waiting(lane, 1)
    assert lane.begins_at - 5.0 == pytest.approx(TRY_S, rel=0.2)


def test_a_lost_turn_is_tried_again_soon() -> None:
    """The winner rests: the next read is the best one."""
    lane = Lane(random.Random(1))
    for _ in range(10):
        turn(lane, 5.0, won=1, others_seen=2)
    turn(lane, 6.0, lost=1, others_seen=1)
    assert 6.0 <= lane.due_at < 6.0 + TRY_S / 2


def test_who_loses_again_and_again_divides_its_turn() -> None:
    """Small commits win against large ones; when they do, the turn is whole again."""
    lane = Lane(random.Random(1))
    parts = []
    for _ in range(7):
        parts.append(lane.parts)
        turn(lane, 5.0, lost=lane.parts)
    assert parts == [1, 1, 1, 2, 4, 8, 8]
    for _ in range(7):
        turn(lane, 5.0, won=lane.parts)
    assert lane.parts == 1


def test_a_commit_that_fails_ends_its_part_of_the_turn() -> None:
    """The store did not answer: neither won nor lost, and the next turn can begin."""
    lane = Lane(random.Random(1))
    lane.begin(2)
    lane.end(5.0)
    assert lane.is_busy
    lane.end(5.0)
    assert not lane.is_busy
    assert lane.begins_at <= 5.0


def test_others_are_noticed_by_what_they_change() -> None:
    """The more documents a commit depends on, the smaller the share of changed ones that is too many."""
    others = OtherWriters()
    assert not others.distrusts(10_000)
    others.compared(100, 5)
    assert others.distrusts(50)
    assert not others.distrusts(5)
    for _ in range(10):
        others.compared(100, 0)
    assert others.changed_share == 0.0


def test_a_document_is_contended_for_a_while() -> None:
    """Until no other writer has changed it for some seconds."""
    others = OtherWriters()
    others.contend([A], now=1.0)
    assert others.is_contended([B, A], now=1.0 + CONTENDED_FOR_S / 2)
    assert not others.is_contended([B], now=1.0)
    assert not others.is_contended([A], now=1.0 + CONTENDED_FOR_S)
    assert not others.contended


def test_documents_that_are_no_longer_contended_are_forgotten() -> None:
    """Most are never looked up again; without it a long outage would fill the memory, and hide new contention."""
    others = OtherWriters()
    others.contend((Ref("c", f"{n}") for n in range(9_000)), now=0.0)
    others.contend((Ref("d", f"{n}") for n in range(2_000)), now=CONTENDED_FOR_S)
    assert len(others.contended) == 2_000
    assert others.is_contended([Ref("d", "1")], now=CONTENDED_FOR_S)
