"""Past events are listed newest first, by range, topic and outcome, in pages, on every store."""

from __future__ import annotations

import pytest

from millpond.core.log_filter import LogFilter
from millpond.core.model import LogEntry, Outcome
from millpond.core.ports import StoreWithCatalog
from millpond.core.time_range import TimeRange
from millpond.stores.log_entry import without_data
from tests.common.stores import Run
from tests.contract.writes import START, entry

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US


def at(minutes: int) -> int:
    return START + minutes * MINUTE_US


def listed(run: Run, store: StoreWithCatalog, wanted: LogFilter, limit: int = 3) -> list[LogEntry]:
    """All pages, one after another; each ends after a bounded number of calls."""
    found: list[LogEntry] = []
    before: str | None = None
    for _ in range(100):
        page = run(store.list_events(wanted, limit, before))
        assert len(page.entries) <= limit
        found += page.entries
        if not page.more:
            return found
        assert page.position not in {None, before}
        before = page.position
    raise AssertionError("the pages do not end")


def ids(found: list[LogEntry]) -> list[str]:
    return [one.delivery.message_id for one in found]


def test_an_empty_log_is_an_empty_page(run: Run, store: StoreWithCatalog) -> None:
    assert listed(run, store, LogFilter()) == []
    assert listed(run, store, LogFilter(TimeRange(at(0), at(1)))) == []


def test_pages_hold_every_entry_once_newest_first(run: Run, store: StoreWithCatalog) -> None:
    """Also those of one commit, and those that arrived in the same microsecond; none has its data."""
    log = [entry(f"m{n}", event_id=f"e{n}", arrived_at=at(n // 2)) for n in range(8)]
    for two in range(0, 8, 2):
        run(store.commit([], log[two : two + 2]))
    found = listed(run, store, LogFilter())
    assert [one.arrived_at for one in found] == sorted((one.arrived_at for one in log), reverse=True)
    assert sorted(found, key=lambda one: one.delivery.message_id) == [without_data(one) for one in log]
    assert all(one.delivery.data is None for one in found)


@pytest.mark.parametrize(
    ("times", "minutes"),
    [
        (TimeRange(at(300)), [600, 540, 480, 420, 360, 300]),
        (TimeRange(None, at(120)), [60, 0]),
        (TimeRange(at(120), at(240)), [180, 120]),
        (TimeRange(at(120), at(120) + 1), [120]),
        (TimeRange(at(601)), []),
        (TimeRange(None, at(0)), []),
        (TimeRange(at(-600), at(-1)), []),
    ],
)
def test_a_range_holds_its_beginning_and_not_its_end(
    run: Run, store: StoreWithCatalog, times: TimeRange, minutes: list[int]
) -> None:
    for n in range(0, 660, 60):
        run(store.commit([], [entry(f"m{n}", arrived_at=at(n))]))
    assert ids(listed(run, store, LogFilter(times))) == [f"m{n}" for n in minutes]


def test_topic_and_outcome_narrow_the_list(run: Run, store: StoreWithCatalog) -> None:
    outcomes = (Outcome.APPLIED, Outcome.STALE, Outcome.APPLIED, Outcome.POISON)
    for n, outcome in enumerate(outcomes):
        run(store.commit([], [entry(f"m{n}", outcome, topic="tu"[n // 2], arrived_at=at(n))]))
    assert ids(listed(run, store, LogFilter(outcome=Outcome.APPLIED))) == ["m2", "m0"]
    assert ids(listed(run, store, LogFilter(topic="t"))) == ["m1", "m0"]
    assert ids(listed(run, store, LogFilter(TimeRange(at(1)), "u", Outcome.APPLIED))) == ["m2"]
    assert listed(run, store, LogFilter(topic="")) == []


def test_a_completed_entry_is_listed_once_with_its_first_arrival(run: Run, store: StoreWithCatalog) -> None:
    """It is in a range that holds its arrival and has no end, and in none that begins after it.

    It stands where it was completed, or where it first arrived.
    """
    run(store.commit([], [entry("m1", Outcome.POISON, arrived_at=at(0))]))
    for n in range(1, 5):
        run(store.commit([], [entry(f"x{n}", arrived_at=at(n * 60))]))
    run(store.commit([], [entry("m1", Outcome.APPLIED, arrived_at=at(600), replay=True)]))
    found = listed(run, store, LogFilter(TimeRange(at(0))))
    others = ["x4", "x3", "x2", "x1"]
    assert ids(found) in (["m1", *others], [*others, "m1"])
    (completed,) = (one for one in found if one.delivery.message_id == "m1")
    assert (completed.arrived_at, completed.result.outcome) == (at(0), Outcome.APPLIED)
    assert ids(listed(run, store, LogFilter(TimeRange(at(60))))) == ["x4", "x3", "x2", "x1"]


def test_a_redelivery_leaves_one_entry_in_the_range_of_its_first_arrival(run: Run, store: StoreWithCatalog) -> None:
    run(store.commit([], [entry("m1", Outcome.APPLIED, arrived_at=at(0))]))
    run(store.commit([], [entry("m1", Outcome.DUPLICATE, arrived_at=at(60))]))
    assert ids(listed(run, store, LogFilter(TimeRange(None, at(30))))) == ["m1"]
    assert listed(run, store, LogFilter(TimeRange(at(30)))) == []
