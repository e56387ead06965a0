"""Properties of `plan` behind the real router and in front of a real store: order, duplication and batching vanish.

`histories.py` makes what happens, `mill.py` runs it, `oracle.py` says how it must end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millpond.core.model import Delivery, Outcome, Result
from millpond.core.plan import plan
from tests.common.properties import examples
from tests.core.histories import KINDS, Batch, arrivals, histories, histories_with_arrivals
from tests.core.mill import Mill, stamps_of
from tests.core.oracle import count_events, fold, picture

# Other settings choose other ids, so other messages share a document.
OTHERWISE: Mapping[str, dict[str, str]] = {
    "default": {},
    "ids by event": {"BARS_ID": "event", "SIGNALS_ID": "event", "OPS_SERVICE_ID": "env_service_region"},
    "nested bars, no lateness": {"BARS_ID": "nested", "TICKS_MAX_LATE_S": "0", "OPS_SERVICE_ID": "service"},
    "late bars, no skew": {"BARS_MAX_BACKFILL_DAYS": "0.01", "MAX_FUTURE_SKEW_S": "0", "TICK_HISTORY": "off"},
}
TwoWays = tuple[list[Delivery], list[list[Batch]]]


def comparable(mill: Mill) -> dict[str, Any]:
    """Documents outside `ingestedAt`.

    A tally's `source` is left out: it names the copy that was counted, and of two copies that is the first to come.
    """
    documents = mill.documents()
    for path, document in documents.items():
        if mill.is_tally(path):
            del document["source"]
    return documents


@pytest.mark.parametrize("environment", OTHERWISE.values(), ids=OTHERWISE.keys())
@examples(100)
@given(histories_with_arrivals(ways=2))
def test_documents_do_not_depend_on_how_messages_arrive(environment: dict[str, str], both: TwoWays) -> None:
    """Any permutation, duplication and batching, on clocks that differ: the same documents, field by field."""
    one, other = Mill(**environment), Mill(**environment)
    for mill, batches in zip((one, other), both[1], strict=True):
        mill.grind_all(batches)
    assert comparable(one) == comparable(other)


@pytest.mark.parametrize("kind", KINDS)
@examples(60)
@given(st.data())
def test_documents_are_what_a_plain_fold_says(kind: str, data: st.DataObject) -> None:
    """Sorted by the tuple and folded by code that knows nothing of ours: the same winners and the same values."""
    history, (batches,) = data.draw(histories_with_arrivals(kind=kind))
    mill = Mill()
    mill.grind_all(batches)
    expected, documents = fold(history), mill.documents()
    assert documents.keys() == expected.keys()
    assert {path: picture(documents[path], expected[path]) for path in documents} == expected


@examples(150)
@given(histories_with_arrivals())
def test_each_logical_event_is_counted_once(both: TwoWays) -> None:
    """By a tally, whatever was redelivered or republished; exactly one arrival of each is answered `applied`."""
    history, (batches,) = both
    mill = Mill()
    results = mill.grind_all(batches)
    for topic, view, total in (("orders", "sales", "count"), ("parcels", "parcel_scans", "scans")):
        counted = [
            one for result in results for one in result.views if (one.view, one.outcome) == (view, "applied")
        ]
        stored = sum(data[total] for path, data in mill.documents().items() if path.startswith(f"{view}/"))
        assert len(counted) == stored == count_events(history, topic)


def logged(mill: Mill) -> list[Any]:
    """Exceptions are compared by their text: each is an object of its own."""
    return [
        ((entry.delivery, entry.topic, entry.arrived_at), answers([entry.result])) for entry in mill.events_logged()
    ]


def answers(results: list[Result]) -> list[tuple[Any, ...]]:
    return [(r.outcome, r.reason, r.topic, r.views, r.receipt, str(r.error)) for r in results]


@examples(200)
@given(histories().flatmap(lambda history: st.lists(st.sampled_from(history), min_size=1, max_size=12)))
def test_a_batch_is_its_events_one_by_one(messages: list[Delivery]) -> None:
    """The same answers, stamps and winners, the same documents, receipts and log."""
    together, alone = Mill(), Mill()
    in_one = together.grind(Batch(messages, 0)).planned.results
    one_by_one = alone.grind_all([Batch([message], 0) for message in messages])
    assert answers(in_one) == answers(one_by_one)
    assert together.documents() == alone.documents()
    assert together.receipts_stored() == alone.receipts_stored()
    assert logged(together) == logged(alone)


@examples(150)
@given(histories_with_arrivals())
def test_a_plan_is_pure_and_writes_each_document_once(both: TwoWays) -> None:
    """The same arguments give the same plan and are left as they were; one write a document; all are answered."""
    mill = Mill()
    for batch in both[1][0]:
        done = mill.grind(batch)
        assert repr((done.items, done.snapshots)) == done.given
        again = plan(done.items, done.snapshots, done.now, mill.receipts)
        assert repr(again) == repr(done.planned)
        written = [write.ref for write in done.planned.writes]
        assert len(written) == len(set(written))
        assert all(write.base == done.snapshots[write.ref].version for write in done.planned.writes)
        assert len(done.planned.results) == len(batch.messages)


@examples(150)
@given(histories_with_arrivals())
def test_stamps_only_grow(both: TwoWays) -> None:
    """Whatever is written, no document and no field of one ever names a lesser stamp than before, or loses it."""
    mill = Mill()
    before: dict[str, dict[str, str]] = {}
    for batch in both[1][0]:
        mill.grind(batch)
        after = {path: stamps_of(document) for path, document in mill.documents().items()}
        for path, stamps in before.items():
            for name, stamp in stamps.items():
                assert after[path][name] >= stamp, (path, name)
        before = after


@examples(150)
@given(histories_with_arrivals(), st.data())
def test_redelivery_writes_nothing_though_every_receipt_is_gone(both: TwoWays, data: st.DataObject) -> None:
    """Latest and merged documents keep even their version: receipts choose a word there, and nothing else."""
    history, (batches,) = both
    mill = Mill()
    mill.grind_all(batches)
    before = mill.snapshots()
    mill.forget_receipts()
    results = mill.grind_all(data.draw(arrivals(history)))
    after = mill.snapshots()
    assert after.keys() == before.keys()
    assert [path for path in after if after[path] != before[path] and not mill.is_tally(path)] == []
    applied = {one.doc for result in results for one in result.views if one.outcome is Outcome.APPLIED}
    assert [path for path in applied if not mill.is_tally(path)] == []
