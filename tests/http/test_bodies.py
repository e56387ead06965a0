"""The budget of request bodies: what is granted, who waits, and that everything is given back."""

from __future__ import annotations

import random

import pytest

from millpond.http.bodies import BODY_WAIT_S, LARGE_S_MAX, SMALL_BYTES_MAX, TINY_BYTES_MAX, Bodies, Claim

LARGE = SMALL_BYTES_MAX + 1
MIB = 1024 * 1024


class Connection:
    """Counts how often reading was held and let go."""

    def __init__(self) -> None:
        self.holds = 0

    def hold_reading(self) -> None:
        self.holds += 1

    def go_on_reading(self) -> None:
        self.holds -= 1
        assert self.holds >= 0


class Budget:
    """A budget of one MiB with a clock of its own: three quarters for large bodies, a quarter for small ones."""

    def __init__(self) -> None:
        self.now = 0.0
        self.bodies = Bodies(MIB, lambda: self.now)
        self.connections: dict[Claim, Connection] = {}

    def claim(self, announced: int = 0) -> Claim:
        connection = Connection()
        claim = Claim(self.bodies, connection)
        self.connections[claim] = connection
        claim.announce(announced)
        return claim

    def held(self, claim: Claim) -> bool:
        return self.connections[claim].holds == 1


def test_a_large_body_waits_for_its_whole_length() -> None:
    """It is read when all of it fits, not before, and the first to come goes first."""
    budget = Budget()
    first, second = budget.claim(500_000), budget.claim(500_000)
    third = budget.claim(LARGE)
    assert [budget.held(claim) for claim in (first, second, third)] == [False, True, True]
    assert budget.bodies.held == 500_000
    first.release()
    assert [budget.held(claim) for claim in (second, third)] == [False, False]
    assert budget.bodies.held == 500_000 + LARGE
    second.release()
    third.release()
    assert budget.bodies.held == 0


def test_one_large_body_is_always_let_in() -> None:
    """The budget may be less than the largest body that is allowed."""
    budget = Budget()
    huge = budget.claim(14 * MIB)
    assert not budget.held(huge)
    assert budget.held(budget.claim(LARGE))


def test_large_bodies_that_stand_still_keep_no_small_one_out() -> None:
    """They have their own share; small ones count by what has arrived."""
    budget = Budget()
    budget.claim(14 * MIB)
    small = budget.claim(50_000)
    small.add(50_000)
    small.wait_if_crowded()
    assert not budget.held(small)


def test_small_bodies_wait_when_there_are_too_many() -> None:
    """Those that have sent next to nothing are read on: most messages are no larger."""
    budget = Budget()
    small = [budget.claim(60_000) for _ in range(6)]
    for claim in small:
        claim.add(50_000)
        claim.wait_if_crowded()
    assert [budget.held(claim) for claim in small] == [False] * 5 + [True]
    tiny = budget.claim(60_000)
    tiny.add(TINY_BYTES_MAX)
    tiny.wait_if_crowded()
    assert not budget.held(tiny)
    small[0].release()
    assert not budget.held(small[5])


def test_a_body_of_unknown_length_becomes_a_large_one() -> None:
    """What it had counted as a small one is not counted twice."""
    budget = Budget()
    chunked = budget.claim()
    chunked.add(SMALL_BYTES_MAX + 10)
    chunked.announce(500_000)
    assert budget.bodies.held == 500_000
    chunked.add(1_000)
    assert budget.bodies.held == 500_000
    chunked.release()
    assert budget.bodies.held == 0


def test_a_small_body_that_waits_may_turn_out_large() -> None:
    """Its token was verified meanwhile, and its length counts from now on: it waits in one queue, not in two."""
    budget = Budget()
    small = [budget.claim() for _ in range(6)]
    for claim in small:
        claim.add(50_000)
    large = budget.claim(700_000)
    both = budget.claim()
    both.add(20_000)
    both.wait_if_crowded()
    assert budget.held(both)
    both.announce(500_000)
    assert budget.held(both)
    for claim in small:
        claim.release()
    assert budget.held(both)
    assert budget.bodies.held == 720_000
    large.release()
    assert not budget.held(both)
    assert budget.bodies.held == 500_000
    both.release()
    assert (budget.bodies.held, budget.bodies.large_ones_wait) == (0, False)


def test_what_came_along_with_the_headers_counts() -> None:
    """Large bodies that wait have brought something along; when that is more than everything, they do not wait."""
    budget = Budget()
    budget.claim(700_000)
    waiting = [budget.claim(700_000) for _ in range(5)]
    for claim in waiting[:4]:
        claim.add(250_000)
        assert not claim.exceeds_everything
    waiting[4].add(250_000)
    assert waiting[4].exceeds_everything
    assert budget.bodies.held == 700_000 + 5 * 250_000
    waiting[4].release()
    assert not waiting[3].exceeds_everything


def test_time() -> None:
    """Who waits is overdue after a second; who was granted a place, two seconds later if others wait for it."""
    budget = Budget()
    first = budget.claim(500_000)
    budget.now = 10.0
    assert not first.is_overdue(budget.now)
    second = budget.claim(500_000)
    assert first.is_overdue(budget.now)
    assert not second.is_overdue(budget.now + BODY_WAIT_S)
    assert second.is_overdue(budget.now + BODY_WAIT_S + 0.01)
    second.release()
    assert not first.is_overdue(budget.now)
    first.release()
    # The time of one that waited begins when it is let in.
    third, fourth = budget.claim(500_000), budget.claim(500_000)
    budget.now = 20.0
    third.release()
    budget.claim(500_000)
    assert not fourth.is_overdue(budget.now + LARGE_S_MAX)
    assert fourth.is_overdue(budget.now + LARGE_S_MAX + 0.01)


@pytest.mark.parametrize("leaves_first", [False, True])
def test_whoever_leaves_while_waiting_leaves_nothing(*, leaves_first: bool) -> None:
    """Neither its place in the line, nor its bytes, nor a second release."""
    budget = Budget()
    first, second, third = (budget.claim(500_000) for _ in range(3))
    gone = second if leaves_first else third
    gone.release()
    gone.release()
    first.release()
    left = third if leaves_first else second
    assert not budget.held(left)
    assert budget.bodies.held == 500_000
    left.release()
    assert (budget.bodies.held, budget.bodies.large_ones_wait) == (0, False)


def test_any_order_of_calls() -> None:
    """What is held is the sum of what was granted and has arrived; in the end it is nothing, and none waits."""
    dice = random.Random(1)
    for _ in range(300):
        budget = Budget()
        claims: list[Claim] = []
        for _ in range(60):
            act = dice.random()
            if act < 0.4 or not claims:
                claims.append(budget.claim(dice.choice((0, 10_000, LARGE, 300_000, 700_000))))
            elif act < 0.7:
                claim = dice.choice(claims)
                if not budget.held(claim):
                    claim.add(dice.randrange(40_000))
                    if claim.small > SMALL_BYTES_MAX:
                        claim.announce(700_000)
                    claim.wait_if_crowded()
            else:
                claims.pop(dice.randrange(len(claims))).release()
            large = [claim.large for claim in claims if claim.large and not budget.held(claim)]
            assert all(claim.small == 0 for claim in claims if claim.large and not budget.held(claim))
            assert budget.bodies.held == sum(large) + sum(claim.small for claim in claims)
            assert sum(large) <= MIB * 3 // 4 or len(large) == 1
        for claim in claims:
            claim.release()
        assert (budget.bodies.held, budget.bodies.large_ones_wait) == (0, False)
        assert all(connection.holds == 0 for connection in budget.connections.values())
