"""What an hour cost is kept with the history: on a real store, from several instances, whatever else lies there."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from millpond.core.collections import HISTORY
from millpond.core.model import Committed, Put, Ref
from millpond.live.day import Day, read_spending
from millpond.live.minutes import slot_of
from millpond.live.sample import Step
from millpond.live.spending import TEXT_CHARS_MAX, HourSpent
from millpond.stores.memory import MemoryStore
from millpond.stores.operations import COLLECTIONS_MAX, NAME_CHARS_MAX, Operations, Spent
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics
from tests.common.stores import Run

NOON = 1_790_000_000 // 3_600 * 3_600
HOUR = NOON // 3_600


class Instance:
    """A day with counters of its own, and a clock that the test sets."""

    def __init__(self, store: MemoryStore, name: str, **more: Any) -> None:
        self.operations = Operations()
        self.now_s = NOON
        log = Log(io.BytesIO(), env="dev", metrics=Metrics())
        clock = {"wall_clock": lambda: self.now_s * 1_000_000, "operations": self.operations}
        self.day = Day(store, log, instance=name, bounds=(1.0,), **clock, **more)  # type: ignore[arg-type]

    def step(self, at: int, applied: int = 0) -> None:
        self.now_s = NOON + at
        gauges: dict[str, Any] = {"p50": None, "p99": None, "waiting": 0, "letters": None, "seconds": (applied, 0)}
        counted: dict[str, Any] = {"outcomes": {"applied": applied}, "views": {}, "signals": {}}
        commits = min(1, applied)
        self.day.add(Step(at=self.now_s, **counted, commits=commits, committed=applied, buried=0, **gauges))


def test_an_hour_is_stored_with_its_own_write(run: Run) -> None:
    """The last save of a run says what it costs itself, and a save that is repeated does not count twice."""
    store = MemoryStore()
    one = Instance(store, "a")
    for minute in (3, 4, 5):
        one.operations.of("ticks").writes += 7
        one.step(60 * minute + 2, applied=7)
        run(one.day.save())
    # The store in memory bills nothing, so only the guess of the last save is there.
    spending = run(read_spending(store))
    assert spending.hours == {HOUR: HourSpent(3, {"ticks": Spent(writes=21), HISTORY: Spent(writes=1)})}
    assert sum(sums.outcomes["applied"] for sums in spending.minutes.values()) == 21


def test_instances_are_added(run: Run) -> None:
    """The first minute is that of the first; each knows its own at once, and what the other stored."""
    store = MemoryStore()
    first, second = Instance(store, "a"), Instance(store, "b")
    for instance, minute in ((first, 30), (second, 10)):
        instance.operations.of("ticks").reads += 5
        instance.step(60 * minute + 2, applied=1)
        run(instance.day.save())
    first.operations.of("ticks").reads += 100
    spending = run(first.day.spending())
    assert spending.hours[HOUR].since == 10
    assert spending.hours[HOUR].collections["ticks"] == Spent(reads=110)
    assert (spending.complete, spending.kept, spending.read) == (True, True, 2)
    assert run(first.day.spending()).read == 0


def test_an_idle_instance_writes_once_an_hour_and_at_its_end(run: Run) -> None:
    """What it reads to watch the store is kept, and does not cost a write a minute."""
    store = MemoryStore()
    one = Instance(store, "a")
    for minute in range(59):
        one.operations.of("dead_letters").reads += 4
        one.step(60 * minute + 2)
        run(one.day.save())
    assert run(store.list_documents(HISTORY, 10, None)) == []
    one.operations.of("dead_letters").reads += 4
    one.step(3_600 + 62)
    run(one.day.save())
    assert {
        hour: spent.collections["dead_letters"].reads for hour, spent in run(read_spending(store)).hours.items()
    } == {HOUR: 59 * 4}
    run(one.day.close())
    hours = run(read_spending(store)).hours
    assert sum(spent.collections["dead_letters"].reads for spent in hours.values()) == 60 * 4


def test_a_command_leaves_no_document(run: Run) -> None:
    """It opens a service, and starts nothing: what it spent is not the history of a server."""
    store = MemoryStore()
    one = Instance(store, "a")
    one.operations.of("ticks").reads += 5
    run(one.day.close())
    assert run(store.collections()) == []


def test_without_a_history_a_process_knows_its_own(run: Run) -> None:
    """HISTORY=off: nothing is written and nothing read."""
    store = MemoryStore()
    one = Instance(store, "a", kept=False)
    one.operations.of("ticks").reads += 5
    one.step(2, applied=1)
    run(one.day.close())
    assert run(store.collections()) == []
    spending = run(one.day.spending())
    assert (spending.kept, spending.hours[HOUR].collections) == (False, {"ticks": Spent(reads=5)})


def saved(run: Run, store: MemoryStore) -> dict[str, Any]:
    """The document of an instance that counted five reads and applied one message."""
    one = Instance(store, "a")
    one.operations.of("ticks").reads += 5
    one.step(2, applied=1)
    run(one.day.save())
    (ours,) = run(store.list_documents(HISTORY, 10, None))
    return dict(ours.data)


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "{",
        "[]",
        json.dumps({"collections": {}}),
        json.dumps({"from": 60, "collections": {}}),
        json.dumps({"from": 1, "collections": {"c": {"reads": -1}}}),
        json.dumps({"from": 1, "collections": {"c": {"reads": 2**60}}}),
        json.dumps({"from": 1, "collections": {"c" * TEXT_CHARS_MAX: {"reads": 1}}}),
        "[" * 100_000,
    ],
)
def test_what_is_none_of_ours_is_ignored(run: Run, text: Any) -> None:
    """Documents of earlier builds have no such field; people and programs may write anything."""
    store = MemoryStore()
    ours = saved(run, store)
    data = {**ours, "operations": text}
    if text is None:
        del data["operations"]
    foreign = Put(Ref(HISTORY, f"b-{slot_of(HOUR)}"), None, data, checked=True)
    assert isinstance(run(store.commit([foreign])), Committed)
    spending = run(read_spending(store))
    assert spending.hours[HOUR].collections["ticks"].reads == 5
    # The minutes of that document still count.
    assert sum(sums.outcomes["applied"] for sums in spending.minutes.values()) == 2


def test_a_later_build_may_add_to_it(run: Run) -> None:
    """Fields that this one does not know change nothing of those it knows."""
    store = MemoryStore()
    ours = saved(run, store)
    later = json.dumps({"from": 0, "more": 1, "collections": {"ticks": {"reads": 3, "more": 9}}})
    put = Put(Ref(HISTORY, f"b-{slot_of(HOUR)}"), None, {**ours, "operations": later})
    assert isinstance(run(store.commit([put])), Committed)
    assert run(read_spending(store)).hours[HOUR].collections["ticks"].reads == 8


def test_the_largest_hour_is_read_back(run: Run) -> None:
    """What the counters let through is never refused as too big, and it fits into a document."""
    store = MemoryStore()
    one = Instance(store, "a")
    for step in range(3):
        # Other names in each step of two seconds: they are counted anew each time.
        for number in range(COLLECTIONS_MAX + 1):
            spent = one.operations.of(f"{step} {number}".rjust(NAME_CHARS_MAX, "\u0001"))
            for name in Spent.__struct_fields__:
                setattr(spent, name, 2**40)
        one.step(2 + 2 * step, applied=1)
    run(one.day.save())
    (ours,) = run(store.list_documents(HISTORY, 10, None))
    assert 200_000 < len(ours.data["operations"]) < TEXT_CHARS_MAX < 400_000
    kept = run(read_spending(store)).hours[HOUR].collections
    assert len(kept) == COLLECTIONS_MAX + 1
    assert sum(spent.reads for spent in kept.values()) == 3 * (COLLECTIONS_MAX + 1) * 2**40
