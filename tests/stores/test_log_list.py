"""A log of a hundred thousand entries is listed without reading all of it, and odd entries hide no others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.core.log_filter import LogFilter
from millpond.core.model import LogEntry, LogPage, Outcome
from millpond.core.time_range import TimeRange
from millpond.stores.sqlite.log_list import STRETCHES
from millpond.stores.sqlite.store import SqliteStore
from tests.common.stores import Run
from tests.contract.writes import START, entry

ENTRIES = 100_000
SECOND_US = 1_000_000
# Steps of SQLite's virtual machine between two calls of the counter.
COUNTED_STEPS = 100


def at(second: int) -> int:
    return START + second * SECOND_US


def fill(run: Run, store: SqliteStore, log: list[LogEntry]) -> None:
    for start in range(0, len(log), 1_000):
        run(store.commit([], log[start : start + 1_000]))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One entry a second."""
    path = tmp_path_factory.mktemp("log") / "pond.db"
    store = SqliteStore(path, durable=False)
    with asyncio.Runner() as runner:
        fill(runner.run, store, [entry(f"m{n}", arrived_at=at(n)) for n in range(ENTRIES)])
        runner.run(store.close())
    return path


class Counted:
    """A store whose queries for people count their steps."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.steps = 0
        store._look_connection.set_progress_handler(self._count, COUNTED_STEPS)  # noqa: SLF001 - to count

    def _count(self) -> bool:
        self.steps += COUNTED_STEPS
        return False


@pytest.fixture
def counted(filled: Path, run: Run) -> Iterator[Counted]:
    store = SqliteStore(filled, read_only=True)
    yield Counted(store)
    run(store.close())


def ids(page: LogPage) -> list[str]:
    return [one.delivery.message_id for one in page.entries]


def test_a_page_of_a_long_log_reads_a_small_part_of_it(run: Run, counted: Counted) -> None:
    """The newest entries, and a range in the middle: a full read would take more than a million steps."""
    newest = run(counted.store.list_events(LogFilter(), 50, None))
    assert ids(newest) == [f"m{n}" for n in range(ENTRIES - 1, ENTRIES - 51, -1)]
    middle = run(counted.store.list_events(LogFilter(TimeRange(at(40_000), at(50_000))), 50, None))
    assert ids(middle) == [f"m{n}" for n in range(49_999, 49_949, -1)]
    following = run(counted.store.list_events(LogFilter(TimeRange(at(40_000), at(50_000))), 50, middle.position))
    assert ids(following) == [f"m{n}" for n in range(49_949, 49_899, -1)]
    assert counted.steps < 100_000


def test_a_filter_that_matches_nothing_ends_after_a_bounded_number_of_rows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says that there is more, and the next one continues below it."""
    monkeypatch.setattr("millpond.stores.sqlite.log_list.STRETCHES", (10, 100))
    store = SqliteStore(tmp_path / "pond.db", durable=False)
    fill(run, store, [entry(f"m{n}", arrived_at=at(60 * n)) for n in range(300)])
    wanted = LogFilter(topic="none")
    pages = [run(store.list_events(wanted, 5, None))]
    while pages[-1].more:
        pages.append(run(store.list_events(wanted, 5, pages[-1].position)))
    assert len(pages) == 3
    assert all(page.entries == [] for page in pages)
    passed = run(store.list_events(LogFilter(TimeRange(at(60 * 295))), 50, None))
    assert (ids(passed), passed.more) == (["m299", "m298", "m297", "m296", "m295"], False)
    run(store.close())


def test_replays_of_old_letters_hide_no_entries(run: Run, tmp_path: Path) -> None:
    """Completed entries are old and stand among new ones: neither end of a range is found by them."""
    store = SqliteStore(tmp_path / "pond.db", durable=False)
    old = [entry(f"old{n}", Outcome.POISON, arrived_at=at(n)) for n in range(200)]
    fill(run, store, old)
    fill(run, store, [entry(f"m{n}", arrived_at=at(n)) for n in range(10_000, 10_300)])
    replayed = [
        entry(one.delivery.message_id, Outcome.APPLIED, replay=True, arrived_at=at(11_000)) for one in old[:150]
    ]
    fill(run, store, replayed)
    fill(run, store, [entry(f"m{n}", arrived_at=at(n)) for n in range(20_000, 20_300)])

    def listed(times: TimeRange) -> list[str]:
        return ids(run(store.list_events(LogFilter(times), 1_000, None)))

    assert len(listed(TimeRange(at(10_000), at(30_000)))) == 600
    assert listed(TimeRange(at(10_000), at(10_300))) == [f"m{n}" for n in range(10_299, 9_999, -1)]
    # The completed ones stand where they were completed; those that were not stand where they arrived.
    assert set(listed(TimeRange(at(0), at(10_000)))) >= {f"old{n}" for n in range(150, 200)}
    assert set(listed(TimeRange(at(0)))) >= {f"old{n}" for n in range(200)}
    run(store.close())


def test_messages_that_were_committed_late_are_in_their_range(run: Run, tmp_path: Path) -> None:
    """A message that waited a minute for its commit has a later number than its neighbours."""
    store = SqliteStore(tmp_path / "pond.db", durable=False)
    log = [entry(f"m{n}", arrived_at=at(n)) for n in range(1_000)]
    late = log.pop(300)
    log.insert(350, late)
    fill(run, store, log)
    found = ids(run(store.list_events(LogFilter(TimeRange(at(295), at(305))), 100, None)))
    assert sorted(found) == [f"m{n}" for n in range(295, 305)]
    run(store.close())


def test_odd_clock_readings_hide_no_entries(run: Run, tmp_path: Path) -> None:
    """Some entries claim to have arrived a day later than their neighbours."""
    store = SqliteStore(tmp_path / "pond.db", durable=False)
    log = [entry(f"m{n}", arrived_at=at(n) + (n % 20 == 0) * 86_400 * SECOND_US) for n in range(4_000)]
    fill(run, store, log)
    for start in range(100, 3_900, 100):
        found = ids(run(store.list_events(LogFilter(TimeRange(at(start), at(start + 10))), 100, None)))
        assert sorted(found) == sorted(f"m{n}" for n in range(start + 1, start + 10)), start
    run(store.close())


def test_large_payloads_make_a_page_short(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page reads a bounded number of bytes, and at least one entry."""
    monkeypatch.setattr("millpond.stores.sqlite.log_list._BYTES_MAX", 1)
    store = SqliteStore(tmp_path / "pond.db", durable=False)
    fill(run, store, [entry(f"m{n}", arrived_at=at(n)) for n in range(3)])
    first = run(store.list_events(LogFilter(), 10, None))
    assert (ids(first), first.more) == (["m2"], True)
    assert ids(run(store.list_events(LogFilter(), 10, first.position))) == ["m1"]
    run(store.close())


def test_the_last_stretch_is_the_longest() -> None:
    """Only a stretch of that length shows that a range is passed."""
    assert max(STRETCHES) == STRETCHES[-1] >= 100_000
