"""The store port's contract, held against every implementation."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from millpond.core.errors import WriteRefused
from millpond.core.model import Committed, Conflict, Delete, LogEntry, LogPage, Outcome, Patch, Put, Ref, Snapshot
from millpond.core.ports import StoreWithCatalog
from millpond.stores.firestore.store import FirestoreStore
from tests.common.stores import Run
from tests.contract.writes import entry, now_us

A, B = Ref("ponds", "a"), Ref("ponds", "b")
NOW = dt.datetime(2026, 1, 8, 12, 34, 56, 789_012, tzinfo=dt.UTC)


def put(run: Run, store: StoreWithCatalog, ref: Ref, data: dict[str, Any], base: Any = None) -> Any:
    committed = run(store.commit([Put(ref, base, data)]))
    assert isinstance(committed, Committed)
    return committed.versions[0]


def read(run: Run, store: StoreWithCatalog, *refs: Ref) -> list[Snapshot]:
    found: list[Snapshot] = run(store.read(refs))
    return found


def test_absent_documents_read_as_absent(run: Run, store: StoreWithCatalog) -> None:
    """Reading answers every ref, in the order asked, absence included."""
    version = put(run, store, A, {"n": 1})
    assert read(run, store, B, A, B) == [
        Snapshot(B, None, None),
        Snapshot(A, version, {"n": 1}),
        Snapshot(B, None, None),
    ]


EVERY_TYPE: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "zero": 0,
    "one": 1,
    "one as float": 1.0,
    "negative zero": -0.0,
    "largest": 2**63 - 1,
    "smallest": -(2**63),
    "tiny": 5e-324,
    "huge": 1.7976931348623157e308,
    "infinity": float("inf"),
    "text": "naïve 🌊 \u2028 \x00 \x1b",
    "empty text": "",
    "bytes": b"\x00\xff",
    "time": NOW,
    "list": [1, "two", None, {"deep": [True]}],
    "empty list": [],
    "map": {"a.b": {"c/d": 1}, "ключ": 2},
    "empty map": {},
}


def test_a_document_read_back_equals_the_document_written(run: Run, store: StoreWithCatalog) -> None:
    """Types included: 1 stays an int, 1.0 a float, True a bool, and times keep their microseconds."""
    put(run, store, A, EVERY_TYPE)
    (found,) = read(run, store, A)
    assert found.data == EVERY_TYPE
    assert _types(found.data) == _types(EVERY_TYPE)
    assert repr(found.data["negative zero"]) == "-0.0"


def _types(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _types(item) for name, item in value.items()}
    return [_types(item) for item in value] if isinstance(value, list) else type(value)


def is_conflict(answer: Committed | Conflict, ref: Ref) -> bool:
    """Whether it is a conflict about this document. Firestore names none; it says only if one exists."""
    return isinstance(answer, Conflict) and answer.refs in (frozenset({ref}), frozenset())


def test_create_conflicts_when_the_document_exists(run: Run, store: StoreWithCatalog) -> None:
    """Absence is a precondition like any other."""
    put(run, store, A, {"n": 1})
    assert is_conflict(run(store.commit([Put(A, None, {"n": 2})])), A)
    assert read(run, store, A)[0].data == {"n": 1}


def test_a_stale_version_conflicts(run: Run, store: StoreWithCatalog) -> None:
    """Only the writer that saw the current version may replace it."""
    first = put(run, store, A, {"n": 1})
    put(run, store, A, {"n": 2}, base=first)
    for write in (Put(A, first, {"n": 3}), Patch(A, first, {("n",): 3}), Delete(A, first)):
        assert is_conflict(run(store.commit([write])), A)
    assert read(run, store, A)[0].data == {"n": 2}


def test_a_commit_applies_whole_or_not_at_all(run: Run, store: StoreWithCatalog) -> None:
    """One failed precondition undoes every write and every log entry beside it."""
    first = put(run, store, A, {"n": 1})
    wrong = [Put(B, None, {"n": 1}), Put(A, None, {"n": 2})]
    assert is_conflict(run(store.commit(wrong, [entry("m1")])), A)
    assert read(run, store, A, B) == [Snapshot(A, first, {"n": 1}), Snapshot(B, None, None)]
    assert run(store.count_events()) == {}


def test_versions_are_never_reused(run: Run, store: StoreWithCatalog) -> None:
    """A document made anew after a delete does not come back under a version that another writer may still hold."""
    seen = set()
    for n in range(5):
        version = put(run, store, A, {"n": n})
        assert version not in seen
        seen.add(version)
        assert isinstance(run(store.commit([Delete(A, version)])), Committed)
    assert isinstance(run(store.commit([Put(A, min(seen), {"n": 9})])), Conflict)


def test_a_patch_touches_only_the_named_fields(run: Run, store: StoreWithCatalog) -> None:
    """Field names with dots are names, not paths; maps on the way are made."""
    version = put(run, store, A, {"steps": {"a.b": {"status": "READY", "mine": 1}}, "other": [1]})
    fields = {("steps", "a.b", "status"): "RUNNING", ("lease", "owner"): "w1"}
    committed = run(store.commit([Patch(A, version, fields)]))
    assert isinstance(committed, Committed)
    (found,) = read(run, store, A)
    assert found.version == committed.versions[0]
    assert found.data == {
        "steps": {"a.b": {"status": "RUNNING", "mine": 1}},
        "other": [1],
        "lease": {"owner": "w1"},
    }


def test_deleting_reports_no_version(run: Run, store: StoreWithCatalog) -> None:
    """Versions come back in the order of the writes, None for a delete."""
    version = put(run, store, A, {"n": 1})
    committed = run(store.commit([Delete(A, version), Put(B, None, {})]))
    assert isinstance(committed, Committed)
    assert committed.versions[0] is None
    assert read(run, store, A, B) == [Snapshot(A, None, None), Snapshot(B, committed.versions[1], {})]


def deep(levels: int) -> dict[str, Any]:
    return {"down": deep(levels - 1)} if levels else {"bottom": 1}


UNREPRESENTABLE = {
    "integer over 64 bits": {"n": 2**63},
    "list in a list": {"n": [[1]]},
    "reserved field name": {"__x__": 1},
    "reserved name further down": {"map": {"list": [{"__x__": 1}]}},
    "empty field name": {"": 1},
    "field name over 1,500 bytes": {"n" * 1_501: 1},
    "deeper than 20 maps": deep(20),
    "a time without a zone": {"t": NOW.replace(tzinfo=None)},
    "a set": {"s": {1, 2}},
    "a lone surrogate": {"s": "\ud800"},
    "over a mebibyte": {"s": "x" * 1_048_577},
}


@pytest.mark.parametrize("data", UNREPRESENTABLE.values(), ids=UNREPRESENTABLE.keys())
def test_what_no_document_can_hold_is_refused_everywhere(
    run: Run, store: StoreWithCatalog, data: dict[str, Any]
) -> None:
    """The real service's limits hold on every store, and refusing changes nothing."""
    with pytest.raises(WriteRefused, match="ponds/a"):
        run(store.commit([Put(B, None, {"fine": 1}), Put(A, None, data)], [entry("m1")]))
    assert read(run, store, A, B) == [Snapshot(A, None, None), Snapshot(B, None, None)]
    assert run(store.count_events()) == {}


@pytest.mark.parametrize(
    "ref",
    [Ref("ponds", ""), Ref("ponds", "."), Ref("ponds", ".."), Ref("ponds", "a/b"), Ref("ponds", "__x__"),
     Ref("ponds", "x" * 1_501), Ref("", "a"), Ref("ponds/a", "b"), Ref("ponds//x", "a"), Ref("__x__", "a")],
)  # fmt: skip
def test_illegal_paths_are_refused_everywhere(run: Run, store: StoreWithCatalog, ref: Ref) -> None:
    """A path the real service would refuse never gets as far as a store."""
    with pytest.raises(WriteRefused):
        run(store.commit([Put(ref, None, {})]))


def test_just_representable_documents_are_kept(run: Run, store: StoreWithCatalog) -> None:
    """The limits are limits, not approximations of them."""
    documents = [deep(19), {"n" * 1_500: 1}, {"list": [{"list": [1]}]}, {"__x": 1, "x__": 2, "_": 3}]
    for number, data in enumerate(documents):
        put(run, store, Ref("ponds", str(number)), data)
    assert [found.data for found in run(store.list_documents("ponds", 10, None))] == documents


def test_the_log_keeps_each_message_once(run: Run, store: StoreWithCatalog) -> None:
    """A redelivery's entry is passed over: its first outcome stays, and counts cannot over-count."""
    run(store.commit([], [entry("m1"), entry("m2", Outcome.STALE)]))
    run(store.commit([], [entry("m1", Outcome.DUPLICATE), entry("m3", topic="u")]))
    assert run(store.count_events()) == {"t": {"applied": 1, "stale_ignored": 1}, "u": {"applied": 1}}


@pytest.mark.parametrize("count", [1, 15, 16, 63, 64, 65, 150])
def test_a_commit_of_many_holds_each_of_them(run: Run, store: StoreWithCatalog, count: int) -> None:
    """Documents, receipts and entries, made and then replaced: none is dropped on the way, none is doubled."""
    refs = [Ref(collection, f"{n:03d}") for n in range(count) for collection in ("ponds", "ops_dedupe")]
    made = run(store.commit([Put(ref, None, {"n": 1}) for ref in refs], [entry(f"m{n}") for n in range(count)]))
    assert isinstance(made, Committed)
    writes = [Put(ref, base, {"n": 2}) for ref, base in zip(refs, made.versions, strict=True)]
    assert isinstance(run(store.commit(writes)), Committed)
    assert [found.data for found in read(run, store, *refs)] == [{"n": 2}] * len(refs)
    assert run(store.count_events()) == {"t": {"applied": count}}


def test_the_first_entry_of_a_message_in_a_commit_counts(run: Run, store: StoreWithCatalog) -> None:
    """Whatever else is in the commit: an applied message is not logged as its own duplicate."""
    log = [entry("y", Outcome.DUPLICATE), entry("m", Outcome.APPLIED), entry("m", Outcome.DUPLICATE)]
    run(store.commit([], log))
    assert run(store.count_events()) == {"t": {"applied": 1, "duplicate": 1}}


def test_the_same_id_on_another_topic_is_another_message(run: Run, store: StoreWithCatalog) -> None:
    """Message ids are unique within a topic, not beyond."""
    run(store.commit([], [entry("m1", topic="t"), entry("m1", topic="u")]))
    assert run(store.count_events()) == {"t": {"applied": 1}, "u": {"applied": 1}}


def test_a_replay_replaces_the_poison_entry(run: Run, store: StoreWithCatalog) -> None:
    """Also when the message has found its topic only now: it still counts once."""
    run(store.commit([], [entry("m1", Outcome.POISON, topic="")]))
    run(store.commit([], [entry("m1", Outcome.APPLIED, replay=True)]))
    run(store.commit([], [entry("m1", Outcome.DUPLICATE, replay=True)]))
    assert run(store.count_events()) == {"t": {"applied": 1}}


def views_logged(run: Run, store: StoreWithCatalog, message_id: str = "m1") -> dict[str, str]:
    (found,) = run(store.find_events(message_id))
    return {view.view: str(view.outcome) for view in found.result.views}


def test_a_later_delivery_completes_an_open_entry(run: Run, store: StoreWithCatalog) -> None:
    """Views are only upgraded, a view that was not asked before is added, and the first arrival stays."""
    first = {"a": Outcome.APPLIED, "b": Outcome.RETRY, "c": Outcome.RETRY}
    run(store.commit([], [entry("m1", Outcome.RETRY, views=first, arrived_at=9)]))
    again = {"a": Outcome.DUPLICATE, "b": Outcome.POISON, "c": Outcome.RETRY, "d": Outcome.STALE}
    run(store.commit([], [entry("m1", Outcome.RETRY, views=again, arrived_at=10)]))
    assert views_logged(run, store) == {"a": "applied", "b": "poison", "c": "retry", "d": "stale_ignored"}
    last = {"a": Outcome.DUPLICATE, "b": Outcome.RETRY, "c": Outcome.APPLIED}
    run(store.commit([], [entry("m1", Outcome.RETRY, views=last, arrived_at=11)]))
    assert views_logged(run, store) == {"a": "applied", "b": "poison", "c": "applied", "d": "stale_ignored"}
    assert run(store.count_events()) == {"t": {"poison": 1}}
    run(store.commit([], [entry("m1", Outcome.APPLIED, views={"b": Outcome.APPLIED}, arrived_at=12, replay=True)]))
    (found,) = run(store.find_events("m1"))
    assert (found.result.outcome, found.arrived_at) == (Outcome.APPLIED, 9)
    assert run(store.count_events()) == {"t": {"applied": 1}}


def test_an_entry_that_is_complete_stays_as_it_is(run: Run, store: StoreWithCatalog) -> None:
    run(store.commit([], [entry("m1", Outcome.APPLIED, views={"a": Outcome.APPLIED})]))
    run(store.commit([], [entry("m1", Outcome.POISON, views={"a": Outcome.DUPLICATE, "b": Outcome.POISON})]))
    assert views_logged(run, store) == {"a": "applied"}


def test_copies_in_one_commit_complete_each_other(run: Run, store: StoreWithCatalog) -> None:
    one = entry("m1", Outcome.RETRY, views={"a": Outcome.APPLIED, "b": Outcome.RETRY})
    other = entry("m1", Outcome.APPLIED, views={"a": Outcome.DUPLICATE, "b": Outcome.APPLIED})
    run(store.commit([], [one, entry("m2"), other]))
    assert views_logged(run, store) == {"a": "applied", "b": "applied"}
    assert run(store.count_events()) == {"t": {"applied": 2}}


def test_a_replay_completes_the_entry_of_its_own_topic(run: Run, store: StoreWithCatalog) -> None:
    """Also if an entry from before its topic was known is open: no view's effect is lost, none is forgotten."""
    run(store.commit([], [entry("m1", Outcome.POISON, topic="", views={}, subscription="s")]))
    partly = {"a": Outcome.APPLIED, "b": Outcome.POISON}
    run(store.commit([], [entry("m1", Outcome.POISON, subscription="s", views=partly)]))
    replay = entry("m1", Outcome.APPLIED, subscription="s", views={"b": Outcome.APPLIED}, replay=True)
    run(store.commit([], [replay]))
    found = {
        one.topic: {view.view: str(view.outcome) for view in one.result.views}
        for one in run(store.find_events("m1"))
    }
    assert found == {"": {}, "t": {"a": "applied", "b": "applied"}}


def test_reading_on_shows_what_was_completed(run: Run, store: StoreWithCatalog) -> None:
    """A fold that has read the open entry must meet the views that were settled after it, however late."""
    start = now_us()
    run(store.commit([], [entry("m1", Outcome.RETRY, arrived_at=start), entry("m2", arrived_at=start + 1)]))
    _, position = read_whole_log(run, store)
    later = start + 3_600 * 1_000_000
    run(store.commit([], [entry("m3", arrived_at=later - 1)]))
    _, position = read_whole_log(run, store, position)
    run(store.commit([], [entry("m1", Outcome.APPLIED, arrived_at=later)]))
    seen, _ = read_whole_log(run, store, position)
    assert "m1" in seen


def logged(run: Run, store: StoreWithCatalog, message_id: str = "m1") -> set[tuple[str, str, str]]:
    """Subscription, topic and outcome of each line about a message id."""
    found: list[LogEntry] = run(store.find_events(message_id))
    return {(e.delivery.subscription, e.topic, str(e.result.outcome)) for e in found}


@pytest.mark.parametrize("subscriptions", [("", ""), ("s", "z"), ("", "z"), ("s", "")])
def test_a_replay_leaves_the_line_of_another_topic(
    run: Run, store: StoreWithCatalog, subscriptions: tuple[str, str]
) -> None:
    """Two letters of one message id on two topics are two messages; counts follow."""
    one, other = subscriptions
    run(store.commit([], [entry("m1", Outcome.POISON, topic="t", subscription=one)]))
    run(store.commit([], [entry("m1", Outcome.POISON, topic="u", subscription=other)]))
    run(store.commit([], [entry("m1", Outcome.APPLIED, topic="t", subscription=one, replay=True)]))
    assert logged(run, store) == {(one, "t", "applied"), (other, "u", "poison")}
    assert run(store.count_events()) == {"t": {"applied": 1}, "u": {"poison": 1}}
    run(store.commit([], [entry("m1", Outcome.APPLIED, topic="u", subscription=other, replay=True)]))
    assert run(store.count_events()) == {"t": {"applied": 1}, "u": {"applied": 1}}


@pytest.mark.parametrize(
    ("buried", "replayed"),
    [
        ({"subscription": "s"}, {"subscription": "z"}),
        ({"subscription": ""}, {"subscription": "z"}),
        ({"data": b"one"}, {"data": b"other"}),
    ],
    ids=["another subscription's", "one without a subscription", "other data without a subscription"],
)
def test_a_replay_leaves_the_line_of_another_message_without_a_topic(
    run: Run, store: StoreWithCatalog, buried: dict[str, Any], replayed: dict[str, Any]
) -> None:
    """Where neither had a topic the log holds the first of them: it gives way only to its own replay."""
    run(store.commit([], [entry("m1", Outcome.POISON, topic="", **buried)]))
    run(store.commit([], [entry("m1", Outcome.POISON, topic="", **replayed)]))
    run(store.commit([], [entry("m1", Outcome.APPLIED, topic="t", replay=True, **replayed)]))
    assert run(store.count_events()) == {"": {"poison": 1}, "t": {"applied": 1}}
    run(store.commit([], [entry("m1", Outcome.APPLIED, topic="u", replay=True, **buried)]))
    assert run(store.count_events()) == {"t": {"applied": 1}, "u": {"applied": 1}}


def test_a_replay_under_another_topic_replaces_the_line_of_its_subscription(
    run: Run, store: StoreWithCatalog
) -> None:
    """Settings changed in between: a subscription has one topic of the broker's, so it is the same message."""
    run(store.commit([], [entry("m1", Outcome.POISON, topic="t", subscription="s")]))
    run(store.commit([], [entry("m1", Outcome.APPLIED, topic="u", subscription="s", replay=True)]))
    assert run(store.count_events()) == {"u": {"applied": 1}}


def test_log_entries_are_found_by_message_and_event_id(run: Run, store: StoreWithCatalog) -> None:
    """What was appended comes back whole."""
    first, second = entry("m1", event_id="e1"), entry("m2", event_id="e1")
    run(store.commit([], [first, second, entry("m3")]))
    assert run(store.find_events("e1")) == [first, second]
    assert run(store.find_events("m2")) == [second]
    assert run(store.find_events("m4")) == []


def test_an_event_id_of_any_length_is_found(run: Run, store: StoreWithCatalog) -> None:
    """What producers send may be longer than an index takes."""
    event_id = "e" * 5_000
    run(store.commit([], [entry("m1", event_id=event_id)]))
    assert [found.delivery.message_id for found in run(store.find_events(event_id))] == ["m1"]


def test_a_log_entry_comes_back_with_all_of_its_delivery(run: Run, store: StoreWithCatalog) -> None:
    """Also what few of them have: verify must not take data that could not be read for none."""
    fault = msgspec.structs.replace(
        entry("m1").delivery, data=None, data_fault="not base64", ordering_key="o", subscription="s", attempt=None
    )
    run(store.commit([], [msgspec.structs.replace(entry("m1"), delivery=fault)]))
    (found,) = run(store.read_log(None, 9)).entries
    assert found.delivery == fault


def read_whole_log(run: Run, store: StoreWithCatalog, position: str | None = None) -> tuple[list[str], str | None]:
    """The message ids from a position on, two entries at a time, and where to read on."""
    found: list[str] = []
    more = True
    while more:
        page = run(store.read_log(position, 2))
        assert len(page.entries) <= 2
        found += [logged.delivery.message_id for logged in page.entries]
        position, more = page.position, page.more
    return found, position


def test_the_log_is_read_from_beginning_to_end_and_on(run: Run, store: StoreWithCatalog) -> None:
    """Nothing is left out, whatever is appended meanwhile; an entry comes back whole. Some may come again."""
    assert run(store.read_log(None, 2)) == LogPage([], None, False)
    now = now_us()
    log = [entry(f"m{n}", event_id=f"e{n}", arrived_at=now + n) for n in range(5)]
    run(store.commit([], log))
    assert run(store.read_log(None, 9)).entries == log
    found, position = read_whole_log(run, store)
    assert found == ["m0", "m1", "m2", "m3", "m4"]
    run(store.commit([], [entry(name, arrived_at=now + 5) for name in ("m5", "m6", "m7")]))
    following, position = read_whole_log(run, store, position)
    assert sorted(following[-3:]) == ["m5", "m6", "m7"]
    assert set(read_whole_log(run, store, position)[0]) <= {*found, *following}


def test_reading_on_shows_what_was_committed_late(run: Run, store: StoreWithCatalog) -> None:
    """By an instance whose clock is behind, or that tried for long: others seem to have arrived after it."""
    arrived_at = now_us()
    run(store.commit([], [entry("m1", arrived_at=arrived_at)]))
    _, position = read_whole_log(run, store)
    run(store.commit([], [entry("late", arrived_at=arrived_at - 30_000_000)]))
    assert "late" in read_whole_log(run, store, position)[0]


def test_reading_on_shows_what_was_replayed(run: Run, store: StoreWithCatalog) -> None:
    """Its poison entry went, its new one comes after all that were there: no number is used twice."""
    arrived_at = now_us()
    run(store.commit([], [entry(f"m{n}", Outcome.POISON, arrived_at=arrived_at) for n in range(4)]))
    _, position = read_whole_log(run, store)
    replayed = [entry(f"m{n}", Outcome.APPLIED, replay=True, arrived_at=arrived_at + n) for n in (2, 3)]
    run(store.commit([], [entry("new", arrived_at=arrived_at + 4), *replayed]))
    following, position = read_whole_log(run, store, position)
    assert {"m2", "m3", "new"} <= set(following)
    again = entry("m0", Outcome.APPLIED, replay=True, arrived_at=arrived_at + 5)
    run(store.commit([], [again]))
    assert "m0" in read_whole_log(run, store, position)[0]
    page = run(store.read_log(None, 9))
    assert {(e.delivery.message_id, str(e.result.outcome)) for e in page.entries} == {
        *(("m0", "applied"), ("m1", "poison"), ("m2", "applied"), ("m3", "applied"), ("new", "applied")),
    }


def test_a_log_that_was_deleted_begins_anew(run: Run, store: StoreWithCatalog) -> None:
    """A reader that waits at its end still gets what comes then."""
    now = now_us()
    run(store.commit([], [entry(f"m{n}", arrived_at=now) for n in range(3)]))
    _, position = read_whole_log(run, store)
    assert run(store.sweep(0, now + 1)) == 3
    run(store.commit([], [entry("later", arrived_at=now + 2)]))
    assert read_whole_log(run, store, position)[0] == ["later"]


def test_documents_are_counted(run: Run, store: StoreWithCatalog) -> None:
    for name in ("a", "b"):
        put(run, store, Ref("ponds", name), {})
    put(run, store, Ref("ops_dedupe", "r"), {})
    counts = [run(store.count_documents(name)) for name in ("ponds", "ops_dedupe", "nothing")]
    assert counts == [2, 1, 0]


def test_a_store_stands_still_where_it_can(run: Run, store: StoreWithCatalog) -> None:
    """Documents, listings and the log as of one moment, whatever is written afterwards; or it says it cannot."""
    version = put(run, store, A, {"n": 1})
    run(store.commit([], [entry("m1")]))
    still = run(store.snapshot())
    if isinstance(store, FirestoreStore):
        assert still is None
        return
    assert still is not None
    put(run, store, A, {"n": 2}, base=version)
    put(run, store, B, {"n": 3})
    run(store.commit([], [entry("m2")]))
    assert [found.data for found in run(still.read([A, B]))] == [{"n": 1}, None]
    assert [found.data for found in run(still.list_documents("ponds", 9, None))] == [{"n": 1}]
    assert [logged.delivery.message_id for logged in run(still.read_log(None, 9)).entries] == ["m1"]
    run(still.close())
    assert [found.data for found in run(store.read([A, B]))] == [{"n": 2}, {"n": 3}]


def test_a_write_is_tried_where_it_leaves_no_trace(run: Run, store: StoreWithCatalog) -> None:
    """On Firestore every write leaves a document: there it says that it has not tried, which proves nothing."""
    assert run(store.try_write()) is not isinstance(store, FirestoreStore)
    assert run(store.collections()) == []


def test_documents_are_listed_by_id_in_pages(run: Run, store: StoreWithCatalog) -> None:
    """A page begins after the id it is given."""
    for name in ("b", "a", "c", "é", "B"):
        put(run, store, Ref("ponds", name), {"name": name})
    put(run, store, Ref("ponds/a/fish", "x"), {})
    put(run, store, Ref("ops_dedupe", "r2"), {})
    put(run, store, Ref("ops_dedupe", "r1"), {})
    ids = [found.ref.id for found in run(store.list_documents("ponds", 10, None))]
    assert ids == ["B", "a", "b", "c", "é"]
    assert [found.ref.id for found in run(store.list_documents("ponds", 2, "a"))] == ["b", "c"]
    assert [found.ref.id for found in run(store.list_documents("ops_dedupe", 9, "r1"))] == ["r2"]
    assert run(store.collections()) == [("ops_dedupe", 2), ("ponds", 5), ("ponds/a/fish", 1)]


def test_receipts_are_documents_like_any_other(run: Run, store: StoreWithCatalog) -> None:
    """The embedded store keeps them apart; the contract does not know."""
    ref = Ref("ops_dedupe", "dev__t__KEY")
    version = put(run, store, ref, {"n": 1})
    assert is_conflict(run(store.commit([Put(ref, None, {"n": 2})])), ref)
    newer = put(run, store, ref, {"n": 2}, base=version)
    assert is_conflict(run(store.commit([Put(ref, version, {"n": 3})])), ref), "it has changed since"
    assert read(run, store, ref) == [Snapshot(ref, newer, {"n": 2})]
    assert is_conflict(run(store.commit([Delete(ref, version)])), ref)
    assert isinstance(run(store.commit([Delete(ref, newer)])), Committed)
    assert read(run, store, ref)[0].data is None


def test_sweeping_deletes_what_has_expired(run: Run, store: StoreWithCatalog) -> None:
    """Documents by `expireAt`, log entries by arrival; everything else stays."""
    for ref in (A, Ref("ops_dedupe", "r1")):
        put(run, store, ref, {"expireAt": NOW})
    put(run, store, B, {"expireAt": NOW + dt.timedelta(seconds=1)})
    put(run, store, Ref("ponds", "c"), {})
    run(store.commit([], [entry("m1", arrived_at=1)]))
    run(store.commit([], [entry("m2", arrived_at=2)]))
    now = int(NOW.timestamp()) * 1_000_000 + NOW.microsecond
    assert run(store.sweep(now, 2)) == 3
    assert run(store.sweep(now, 2)) == 0
    assert run(store.collections()) == [("ponds", 2)]
    assert run(store.count_events()) == {"t": {"applied": 1}}
