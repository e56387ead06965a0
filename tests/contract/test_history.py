"""The sums of a day in every store: bounded, of all instances, from before a restart, whatever else lies there."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any

import pytest

from millpond.core.collections import HISTORY
from millpond.core.errors import StoreError, Unavailable
from millpond.core.model import Committed, Conflict, Put, Ref, Snapshot, Write
from millpond.core.ports import StoreWithCatalog
from millpond.live import day as day_module
from millpond.live.day import Day
from millpond.live.minutes import TEXT_BYTES_MAX, DayShown
from millpond.live.sample import Step
from millpond.stores.memory import MemoryStore
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics
from tests.common.stores import Run

# A whole hour, far from every other.
NOON = 1_790_000_000 // 3_600 * 3_600
BOUNDS = (0.01, 0.1, 1.0)
HOSTILE = ("__proto__", "<img src=x onerror=alert(1)>", "a\u202eb", '"}', "\u0000", "x" * 400, "")


class Clock:
    def __init__(self, now_s: float = NOON) -> None:
        self.now_s = now_s

    def __call__(self) -> int:
        return int(self.now_s * 1e6)


def open_day(store: StoreWithCatalog, clock: Clock, instance: str = "local", **more: Any) -> Day:
    log = more.pop("log", None) or Log(io.BytesIO(), env="dev", metrics=Metrics())
    return Day(store, log, instance=instance, bounds=BOUNDS, wall_clock=clock, **more)


def step(at: float, applied: int = 0, views: dict[str, dict[str, int]] | None = None, **more: Any) -> Step:
    """A step in which so many messages were applied, each answered within a tenth of a second."""
    counted = {"applied": applied, "poison": 0}
    given = {"views": views or {}, "signals": {}, "commits": min(1, applied), "committed": applied, "buried": 0}
    gauges = {"p50": None, "p99": None, "waiting": 0, "letters": None, "seconds": (0, applied, 0, 0)}
    return Step(**{"at": at, "outcomes": counted, **given, **gauges, **more})


def applied(shown: DayShown) -> dict[int, int]:
    """What was applied in each minute, by its end."""
    return dict(zip(shown.at, shown.outcomes.get("applied", [0] * len(shown.at)), strict=True))


def test_the_minutes_survive_a_restart(run: Run, store: StoreWithCatalog) -> None:
    """A second run goes on in the hour of the first, and stores it again and again without counting twice."""
    clock = Clock(NOON + 130)
    first = open_day(store, clock)
    for at in (2, 4, 62):
        first.add(step(NOON + at, 5, {"ticks": {"applied": 5}}))
    run(first.save())
    # Killed here. The next run is in the same hour, and in the same minute as the last step.
    again = open_day(store, clock)
    again.add(step(NOON + 64, 1, {"ticks": {"stale_ignored": 1}}, outcomes={"applied": 0, "poison": 2}))
    again.add(step(NOON + 124))
    for _ in range(2):
        run(again.save())
        again.add(step(NOON + 126, 3))
        shown = run(again.shown())
        assert shown.outcomes["poison"] == [0, 2, 0]
    assert applied(shown) == {NOON + 60: 10, NOON + 120: 5, NOON + 180: 6}
    assert shown.views == {"ticks": {"applied": 15, "stale_ignored": 1}}
    assert (shown.committed, shown.step_seconds, shown.complete) == ([10, 6, 6], 60, True)
    assert shown.p50 == [0.055, 0.055, 0.055]
    run(again.close())
    third = open_day(store, clock)
    assert run(third.shown()) == shown


def test_the_sums_of_instances_are_added(run: Run, store: StoreWithCatalog) -> None:
    """Each has its own documents, so that they never conflict; every one shows the sums of all."""
    clock = Clock(NOON + 100)
    days = [open_day(store, clock, name) for name in ("a1", "b2", "c-3")]
    for number, day in enumerate(days, 1):
        day.add(step(NOON + 10, number))
        run(day.save())
    expected = {NOON + 60: 6}
    assert [applied(run(day.shown())) for day in days] == [expected] * 3
    assert run(store.collections()) == [(HISTORY, 3)]


def test_three_days_of_minutes_stay_small(run: Run, store: StoreWithCatalog) -> None:
    """However long it runs: 25 documents of an instance, each below its limit, and a day of it is shown."""
    clock = Clock()
    day = open_day(store, clock)
    views = {f"a_view_of_ours_{n}": {"applied": 123_456, "stale_ignored": 1_234} for n in range(6)}
    for minute in range(3 * 24 * 60):
        clock.now_s = NOON + 60 * minute
        day.add(step(clock.now_s + 2, 1_234_567, views))
        if minute % 60 == 59:
            run(day.save())
    found = run(store.list_documents(HISTORY, 1_000, None))
    assert len(found) == 25
    sizes = [len(snapshot.data["minutes"]) for snapshot in found]
    assert 1_000 < max(sizes) < 40_000
    last_hour = NOON + 71 * 3_600
    newest = [snapshot.data for snapshot in found if snapshot.data["hour"].timestamp() == last_hour]
    assert [data["expireAt"] for data in newest] == [dt.datetime.fromtimestamp(last_hour + 25 * 3_600, dt.UTC)]
    for known in (day, open_day(store, clock)):
        shown = run(known.shown())
        assert len(shown.at) == 24 * 60
        assert shown.at[-1] == NOON + 3 * 24 * 3_600
        assert set(shown.outcomes["applied"]) == {1_234_567}


def test_nothing_is_written_while_nothing_happens(run: Run) -> None:
    """Minutes without messages are remembered, and stored with the next one that has some."""
    store = CountingStore()
    clock = Clock(NOON + 300)
    day = open_day(store, clock)
    for at in range(2, 240, 2):
        day.add(step(NOON + at))
        run(day.save())
    assert store.commits == 0
    day.add(step(NOON + 242, 1))
    for _ in range(3):
        run(day.save())
    assert store.commits == 1
    assert applied(run(open_day(store, clock).shown())) == {NOON + 60 * n: int(n == 5) for n in range(1, 6)}


def test_it_can_be_switched_off(run: Run) -> None:
    """The store is then neither read nor written, and the day is what this process counted."""
    store = CountingStore()
    day = open_day(store, Clock(NOON + 10), kept=False)
    day.add(step(NOON + 2, 7))
    run(day.save())
    assert applied(run(day.shown())) == {NOON + 60: 7}
    run(day.close())
    assert (store.commits, store.reads) == (0, 0)


class CountingStore(MemoryStore):
    """Counts its calls, and fails when told to: before or after the commit is applied."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = self.reads = 0
        self.fault: StoreError | None = None
        self.applies = False

    async def read(self, refs: Any) -> list[Snapshot]:
        self.reads += 1
        return await super().read(refs)

    async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
        self.reads += 1
        return await super().list_documents(collection, limit, after)

    async def commit(self, writes: Any, log: Any = ()) -> Committed | Conflict:
        self.commits += 1
        if self.fault is None or self.applies:
            found = await super().commit(writes, log)
        if self.fault is not None:
            raise self.fault
        return found


@pytest.mark.parametrize("applies", [False, True])
def test_an_outage_loses_nothing_and_is_logged_once(run: Run, applies: bool) -> None:
    """If a commit was applied although it failed, nothing is counted twice; the shutdown does not try again."""
    store, clock, output = CountingStore(), Clock(NOON + 200), io.BytesIO()
    log = Log(output, env="dev", metrics=Metrics())
    day = open_day(store, clock, log=log)
    store.fault, store.applies = Unavailable("the store is away"), applies
    for at in (2, 62, 122):
        day.add(step(NOON + at, 4))
        run(day.save())
    tries = store.commits
    run(day.close())
    assert store.commits == tries
    store.fault = None
    run(day.save())
    assert applied(run(open_day(store, clock).shown())) == {NOON + 60: 4, NOON + 120: 4, NOON + 180: 4}
    log.close()
    assert output.getvalue().count(b"the sums of the last minutes could not be stored") == 1


def test_what_is_none_of_ours_is_ignored(run: Run, store: StoreWithCatalog) -> None:
    """A document that a person or another program put there changes no sum and breaks nothing."""
    clock = Clock(NOON + 100)
    day = open_day(store, clock)
    day.add(step(NOON + 2, 1))
    run(day.save())
    (ours,) = run(store.list_documents(HISTORY, 10, None))
    slot = ours.ref.id.rpartition("-")[2]
    hour = ours.data["hour"]
    bad: list[dict[str, Any]] = [
        {},
        {"hour": "noon", "minutes": ours.data["minutes"]},
        {"hour": hour, "minutes": 7},
        {"hour": hour, "minutes": "{"},
        {"hour": hour, "minutes": json.dumps({"60": {}})},
        {"hour": hour, "minutes": json.dumps({"1": {"outcomes": {"applied": -1}}})},
        {"hour": hour, "minutes": json.dumps({"1": {"outcomes": {"applied": 2**60}}})},
        {"hour": hour, "minutes": json.dumps({"1": {"more": 1}})},
        {"hour": hour, "minutes": json.dumps({"1": {"views": {"v" * TEXT_BYTES_MAX: {"applied": 1}}}})},
        {"hour": hour + dt.timedelta(seconds=1), "minutes": ours.data["minutes"]},
        {"hour": hour + dt.timedelta(hours=1), "minutes": ours.data["minutes"]},
    ]
    puts: list[Write] = [Put(Ref(HISTORY, f"bad{n}-{slot}"), None, data) for n, data in enumerate(bad)]
    puts.append(Put(Ref(HISTORY, "no slot"), None, ours.data))
    # Another version's: an outcome we do not have, and latencies within other bounds.
    strange = {"0": {"outcomes": {"vanished": 1, "applied": 1}, "views": {"v": {"vanished": 1}}, "seconds": [1, 1]}}
    puts.append(Put(Ref(HISTORY, f"other-{slot}"), None, {"hour": hour, "minutes": json.dumps(strange)}))
    assert isinstance(run(store.commit(puts)), Committed)
    shown = run(open_day(store, clock).shown())
    assert (applied(shown), shown.outcomes.keys(), shown.views) == ({NOON + 60: 2}, {"applied"}, {})
    # Garbage in our own place is overwritten.
    garbage = Put(ours.ref, run(store.read([ours.ref]))[0].version, {"hour": hour, "minutes": "{"})
    assert isinstance(run(store.commit([garbage])), Committed)
    fresh = open_day(store, clock)
    fresh.add(step(NOON + 4, 2))
    run(fresh.save())
    assert applied(run(open_day(store, clock).shown())) == {NOON + 60: 3}


def test_hostile_names_of_views_come_back_as_they_are(run: Run, store: StoreWithCatalog) -> None:
    """They are part of one text, and never a field or an id."""
    clock = Clock(NOON + 10)
    day = open_day(store, clock)
    day.add(step(NOON + 2, 1, {name: {"applied": 1} for name in HOSTILE}))
    run(day.save())
    assert set(run(open_day(store, clock).shown()).views) == set(HOSTILE)


def test_views_are_left_out_rather_than_an_hour_too_big(run: Run, store: StoreWithCatalog) -> None:
    """The totals of the messages stay."""
    clock = Clock(NOON + 3_599)
    day = open_day(store, clock)
    views = {f"{n}".rjust(200, "v"): {"applied": 1} for n in range(100)}
    for minute in range(60):
        day.add(step(NOON + 60 * minute + 2, 1, views))
    run(day.save())
    (stored,) = run(store.list_documents(HISTORY, 10, None))
    assert len(stored.data["minutes"]) < TEXT_BYTES_MAX
    shown = run(open_day(store, clock).shown())
    assert (sum(shown.outcomes["applied"]), shown.views) == (60, {})


def test_more_documents_than_are_read_are_admitted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page then says that the sums are too low."""
    monkeypatch.setattr(day_module, "_DOCUMENTS_MAX", 2)
    monkeypatch.setattr(day_module, "_PAGE", 1)
    store, clock = MemoryStore(), Clock(NOON + 10)
    for number in range(3):
        day = open_day(store, clock, f"i{number}")
        day.add(step(NOON + 2, 1))
        run(day.save())
    shown = run(open_day(store, clock, "reader").shown())
    assert (applied(shown), shown.complete) == ({NOON + 60: 2}, False)


def test_a_clock_that_is_set_back_keeps_nothing_of_the_future(run: Run) -> None:
    """What it counted there is not shown, and it goes on in the present."""
    store, clock = MemoryStore(), Clock(NOON + 10)
    day = open_day(store, clock)
    day.add(step(NOON + 40 * 86_400, 9))
    run(day.save())
    day.add(step(NOON + 2, 1))
    run(day.save())
    assert applied(run(day.shown())) == {NOON + 60: 1}
    assert applied(run(open_day(store, clock).shown())) == {NOON + 60: 1}
