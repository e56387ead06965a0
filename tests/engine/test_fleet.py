"""A fleet of real engines in virtual time, on one store behind a network: what instances cost each other."""

from __future__ import annotations

import pytest

from benchmarks.fleet_messages import Load
from benchmarks.fleet_results import FleetRun
from benchmarks.fleet_virtual import VirtualFleet


def run(**load: object) -> FleetRun:
    found = VirtualFleet(Load(**load)).run()  # type: ignore[arg-type]
    assert found.faults == []
    assert found.acknowledged == found.load.count
    return found


@pytest.mark.parametrize(
    ("documents", "commits", "writes"), [(2_000, 122, 12_122), (50, 51, 7_317), (2, 21, 6_063)]
)
def test_one_instance_reads_nothing_and_is_never_refused(documents: int, commits: int, writes: int) -> None:
    """Its counters are those of a build that knew nothing of other instances."""
    wire = run(instances=1, documents=documents, in_flight=300, count=6_000).wire
    assert (wire.reads, wire.refused) == (0, 0)
    assert (wire.commit_calls, wire.writes) == (commits, writes)


def test_three_instances_do_not_fight_over_many_documents() -> None:
    """Each reads what others may have changed, in one call, and is hardly ever refused."""
    one = run(instances=1, documents=2_000, in_flight=300, count=6_000)
    three = run(instances=3, documents=2_000, in_flight=300, count=6_000)
    assert three.per_second > 0.4 * one.per_second
    assert three.per_thousand(three.wire.refused) <= 5
    assert three.per_thousand(three.wire.reads) < 1_100


def test_three_instances_take_turns_at_few_documents() -> None:
    """Some commits in a thousand messages are refused, not hundreds, and no instance starves."""
    found = run(instances=3, documents=50, in_flight=300, count=9_000)
    assert found.per_second > 800
    assert found.per_thousand(found.wire.refused) <= 15
    assert found.per_thousand(found.wire.commit_calls) <= 40
    assert found.per_thousand(found.wire.reads) <= 700
    assert found.p99_ms < 1_500


def test_three_instances_share_two_documents() -> None:
    """What a turn that may be lost needs next is read along with it: without that it is 1,290 messages a second."""
    found = run(instances=3, documents=2, in_flight=300, count=9_000)
    assert found.per_second > 1_450
    assert found.per_thousand(found.wire.reads) < 60


def test_a_fleet_keeps_up_with_a_stream() -> None:
    """1,500 messages a second over 50 documents and four instances, from a cold start."""
    found = run(instances=4, documents=50, rate=1_500.0, count=9_000)
    assert found.p99_ms < 2_000
    assert found.nacked == 0


def test_instances_that_own_their_keys_do_not_meet() -> None:
    """By key nothing is refused or read, and three are about as fast as one."""
    one = run(instances=1, documents=50, in_flight=300, count=6_000)
    three = run(instances=3, documents=50, in_flight=300, count=6_000, routing="by key")
    assert (three.wire.refused, three.wire.reads) == (0, 0)
    assert three.per_second > 0.85 * one.per_second
