"""No healthy view is accused: user's views of every kind, the examples, and the built-in views, with many seeds."""

from __future__ import annotations

import os

import pytest

from millpond.testing import check_view
from tests.testing.healthy import HEALTHY, ORDERS, CountsSome, Filtering, Healthy, Late, Orders, Refusing

NAMES = [f"{at}-{type(case.view).__name__}" for at, case in enumerate(HEALTHY)]
# More by hand: MILLPOND_EXAMPLES=40 tries forty times as many seeds.
SEEDS = range(2 * int(os.environ.get("MILLPOND_EXAMPLES", "1")))
WORLDS = 40


@pytest.mark.parametrize("case", HEALTHY, ids=NAMES)
def test_a_healthy_view_is_not_accused(case: Healthy) -> None:
    for seed in SEEDS:
        report = check_view(case.view, case.events, worlds=WORLDS, seed=seed)
        assert report.applied > 0
        assert (report.view, report.events, report.worlds) == (case.view.name, len(case.events), WORLDS)


def test_there_are_enough_of_them() -> None:
    """Twenty of a user's own, beside the built-in ones."""
    own = [case for case in HEALTHY if not type(case.view).__module__.startswith("millpond.")]
    assert len(own) >= 20
    assert {case.view.kind for case in own} == {"latest", "merge", "tally"}


def test_the_report_counts_what_became_of_the_events() -> None:
    """Each event once, without copies, and the poison by its number with its text."""
    healthy = check_view(Orders, ORDERS, worlds=20)
    assert (healthy.applied, healthy.filtered, healthy.too_old, healthy.poison) == (7, 0, 0, {})
    assert healthy.documents == 3
    refusing = check_view(Refusing, ORDERS, worlds=20)
    assert refusing.poison == {1: "paid is no longer a state", 4: "paid is no longer a state"}
    assert refusing.applied == 5
    assert check_view(Filtering, ORDERS, worlds=20).filtered == 3
    assert check_view(Late, ORDERS, worlds=20).too_old > 0
    some = check_view(CountsSome, ORDERS, worlds=20)
    assert (some.applied, some.filtered, list(some.poison)) == (2, 3, [5, 6])
