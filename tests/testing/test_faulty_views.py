"""Every faulty view is caught, with its cause and at most three events, whatever the seed."""

from __future__ import annotations

import sys

import pytest

from millpond.testing import ViewFault, check_view
from millpond.testing.faults import CAUSES
from tests.testing import faulty
from tests.testing.faulty import FAULTY, Faulty

NAMES = [case.view.__name__ for case in FAULTY]


@pytest.fixture(autouse=True)
def _fresh_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A faulty view may leave state in its module: each test begins with the same."""
    monkeypatch.setitem(faulty._EMPTY, "states", [])  # noqa: SLF001 - the state that a faulty view shares
    faulty.DefaultList.fold.__defaults__[0].clear()  # type: ignore[index]


@pytest.mark.parametrize("case", FAULTY, ids=NAMES)
def test_a_faulty_view_is_caught(case: Faulty) -> None:
    """With the cause as a word and in the headline, the history, what to do, and the call that repeats it."""
    with pytest.raises(ViewFault) as raised:
        check_view(case.view, case.events)
    fault, text = raised.value, str(raised.value)
    headline = text.splitlines()[0]
    cause = next(cause for cause in CAUSES if cause.word == case.cause)
    assert (fault.cause, fault.view) == (case.cause, case.view.collection)
    assert headline.startswith(f"{case.view.__name__} ({case.view.kind}, {case.view.collection}): ")
    assert case.says in headline
    assert cause.why in text
    assert cause.remedy in text
    assert 1 <= len(fault.events) <= 3
    assert all(event in case.events for event in fault.events)
    assert f"To repeat it: check_view({case.view.__name__}(), events=" in text


@pytest.mark.parametrize("case", [case for case in FAULTY if case.cause != "nothing_applied"], ids=NAMES[:-1])
@pytest.mark.parametrize("seed", [1, 7])
def test_the_smallest_history_shows_the_fault_again(case: Faulty, seed: int) -> None:
    """Given back alone, the events of the failure show the same cause, also with another seed."""
    with pytest.raises(ViewFault) as raised:
        check_view(case.view, case.events, seed=seed)
    with pytest.raises(ViewFault) as again:
        check_view(case.view, raised.value.events, seed=seed + 1)
    assert again.value.cause == raised.value.cause


def test_every_cause_has_a_view() -> None:
    """`world_differs` is for faults outside the view; `test_worlds.py` has it."""
    assert {cause.word for cause in CAUSES} - {case.cause for case in FAULTY} == {"world_differs"}
    assert len(FAULTY) >= 12


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a check, of a faulty view too, the profile hook is the one that was there before."""

    def hook(*_: object) -> None:
        pass

    monkeypatch.setattr(sys, "setprofile", sys.setprofile)
    sys.setprofile(hook)
    try:
        with pytest.raises(ViewFault):
            check_view(faulty.ReadsClock, faulty.ORDERS)
        assert sys.getprofile() is hook
    finally:
        sys.setprofile(None)
