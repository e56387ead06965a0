"""Firestore's event log: one segment a commit, read without an index on the time, each message once."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from grpc import StatusCode

from millpond.core import timestamps
from millpond.core.collections import EVENT_LOG, EVENT_SEGMENTS
from millpond.core.errors import Unavailable
from millpond.core.log_filter import LogFilter
from millpond.core.model import Committed, LogEntry, Outcome, Put, Ref, ViewResult
from millpond.core.time_range import TimeRange
from millpond.stores.firestore import event_log, log_counts, log_reader, segments
from millpond.stores.firestore.store import FirestoreStore
from millpond.stores.log_entry import encode_body
from tests.common.firestore_proxy import AFTER, COMMIT, Counts, Fault
from tests.common.stores import Run
from tests.contract.rig import Firestore
from tests.contract.writes import START, entry, now_us

SECOND_US = 1_000_000
NOW = time.time_ns() // 1_000


@pytest.fixture
def log(fire: Firestore) -> FirestoreStore:
    return fire.store(keeps_log=True)


def redelivered(message_id: str, **more: Any) -> LogEntry:
    """The entry of a message that each view has taken before."""
    one = entry(message_id, Outcome.DUPLICATE, **more)
    views = [msgspec.structs.replace(view, reason="duplicate_message_noop") for view in one.result.views]
    return msgspec.structs.replace(one, result=msgspec.structs.replace(one.result, views=views))


def segments_of(run: Run, store: FirestoreStore) -> list[Any]:
    """Every segment, without the list of their keys."""
    return [one for one in run(store.list_documents(EVENT_SEGMENTS, 1_000, None)) if one.ref.id != "keys"]


def ids(entries: Sequence[LogEntry]) -> list[str]:
    return [one.delivery.message_id for one in entries]


def whole_log(run: Run, store: FirestoreStore, position: str | None = None, limit: int = 7) -> list[LogEntry]:
    found: list[LogEntry] = []
    for _ in range(1_000):
        page = run(store.read_log(position, limit))
        found += page.entries
        position = page.position
        if not page.more:
            return found
    raise AssertionError("the log does not end")


def listed(run: Run, store: FirestoreStore, wanted: LogFilter | None = None, limit: int = 7) -> list[LogEntry]:
    found: list[LogEntry] = []
    before = None
    for _ in range(1_000):
        page = run(store.list_events(wanted or LogFilter(), limit, before))
        found += page.entries
        before = page.position
        if not page.more:
            return found
    raise AssertionError("the list does not end")


def put_old(fire: Firestore, one: LogEntry, *, completed_at: int | None = None) -> None:
    """An entry as a build before segments stored it."""
    message_id = one.delivery.message_id
    document = {
        "messageId": message_id,
        "eventId": one.event_id,
        "topic": one.topic,
        "outcome": str(one.result.outcome),
        "arrivedAt": timestamps.to_datetime(completed_at or one.arrived_at),
        "body": zlib.compress(encode_body(one), level=1),
    }
    if completed_at is not None:
        document["firstArrivedAt"] = timestamps.to_datetime(one.arrived_at)
    fire.others().collection(EVENT_LOG).document(f"XYZ123__{message_id}__{one.topic or '-'}").set(document)


def test_a_commit_adds_one_segment(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """However many messages it has: in the same call, and what is searched is indexed by hash only."""
    run(log.commit([], [entry("first")]))
    before = fire.counts.since(Counts())
    done = run(
        log.commit([Put(Ref("ponds", "a"), None, {})], [entry(f"m{n}", event_id=f"e{n}") for n in range(300)])
    )
    assert isinstance(done, Committed)
    spent = fire.counts.since(before)
    assert (spent.writes, spent.calls) == (2, {COMMIT: 1})
    (segment,) = (one for one in segments_of(run, log) if one.data["n"] == 300)
    assert segment.data.keys() == {"ids", "counts", "n", "body", "from", "to"}
    assert (len(segment.data["ids"]), segment.data["counts"]) == (600, {"applied t": 300})
    assert len(run(log.find_events("m299"))) == len(run(log.find_events("e0"))) == 1


def test_ids_do_not_begin_with_the_time(log: FirestoreStore, run: Run) -> None:
    """One server would get all writes, and take about 500 a second. Within a shard they are in order."""
    for n in range(40):
        run(log.commit([], [entry(f"m{n}", arrived_at=NOW + n)]))
    found = [one.ref.id for one in segments_of(run, log)]
    assert len({one[0] for one in found}) > 5
    assert sorted(segments.time_of(one) for one in found) == [NOW + n for n in range(40)]
    assert ids(whole_log(run, log)) == [f"m{n}" for n in range(40)]


def test_a_redelivery_adds_nothing(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """Not even a call, unless another message of the commit is new. A replay is kept: it settles a letter."""
    run(log.commit([], [entry("m1")]))
    before = fire.counts.since(Counts())
    assert run(log.commit([], [redelivered("m1")])) == Committed(())
    assert fire.counts.since(before).rpcs == 0
    run(log.commit([], [redelivered("m1"), entry("m2")]))
    assert sorted(ids(whole_log(run, log))) == ["m1", "m2"]
    run(log.commit([], [entry("m3", Outcome.POISON)]))
    run(log.commit([], [redelivered("m3", replay=True)]))
    assert [str(one.result.outcome) for one in run(log.find_events("m3"))] == ["duplicate"]


def test_a_lost_reply_counts_once(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """The commit was applied and seemed to fail. Its message came again, and was overtaken by then."""
    fire.inject(Fault(COMMIT, AFTER, StatusCode.UNAVAILABLE))
    with pytest.raises(Unavailable):
        run(log.commit([], [entry("m1", arrived_at=NOW)]))
    # Split from its batch meanwhile, so the time of its segment is before that of the first one.
    run(log.commit([], [entry("m1", Outcome.STALE, arrived_at=NOW - 5)]))
    (found,) = run(log.find_events("m1"))
    assert found.result.outcome is Outcome.APPLIED
    assert ids(listed(run, log)) == ["m1"]
    assert run(log.count_events()) == {"t": {"applied": 1}}


def test_equal_hashes_are_told_apart(log: FirestoreStore, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "hash_id", lambda _: 1)
    monkeypatch.setattr(event_log, "hash_id", lambda _: 1)
    run(log.commit([], [entry("m1", event_id="e1"), entry("m2")]))
    run(log.commit([], [entry("m3", Outcome.STALE)]))
    assert [ids(run(log.find_events(one))) for one in ("m1", "e1", "m2", "m3", "m4")] == [
        *(["m1"], ["m1"], ["m2"], ["m3"], [])
    ]
    assert sorted(ids(listed(run, log))) == ["m1", "m2", "m3"]


def test_entries_of_earlier_builds_are_read(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """Found, listed, counted and folded, in one order with the segments; a replay completes them."""
    poison = entry("old-1", Outcome.POISON, topic="", arrived_at=START + 1, event_id="e1")
    put_old(fire, poison)
    run(log.commit([], [entry("new-1", arrived_at=START + 2)]))
    put_old(fire, entry("old-2", arrived_at=START), completed_at=START + 3)
    run(log.commit([], [entry("new-2", arrived_at=START + 4)]))
    assert ids(whole_log(run, log, limit=1)) == ["old-1", "new-1", "old-2", "new-2"]
    assert ids(listed(run, log, LogFilter(TimeRange(START, START + SECOND_US)), 1)) == [
        *("new-2", "old-2", "new-1", "old-1")
    ]
    assert run(log.find_events("e1")) == [poison]
    (completed,) = run(log.find_events("old-2"))
    assert completed.arrived_at == START
    run(log.commit([], [entry("old-1", replay=True, arrived_at=START + 9)]))
    (replayed,) = run(log.find_events("old-1"))
    assert (replayed.result.outcome, replayed.arrived_at) == (Outcome.APPLIED, START + 1)
    assert run(log.count_events()) == {"t": {"applied": 4}}


def test_a_long_log_is_summed(
    fire: Firestore, log: FirestoreStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without reading it. A replay moves the count of its letter; what is not settled does not count yet."""
    put_old(fire, entry("old", topic="u"))
    for n in range(6):
        run(
            log.commit(
                [], [entry(f"m{n}"), entry(f"p{n}", Outcome.POISON), entry(f"s{n}", Outcome.STALE, topic="")]
            )
        )
    run(log.commit([], [entry("r1", Outcome.RETRY)]))
    run(log.commit([], [entry("p1", replay=True)]))
    run(log.commit([], [entry("p2", Outcome.POISON, replay=True)]))
    exact = run(log.count_events())
    assert exact == {
        "": {"stale_ignored": 6},
        "t": {"applied": 7, "poison": 5, "retry": 1},
        "u": {"applied": 1},
    }
    monkeypatch.setattr(log_counts, "SEGMENTS_READ_MAX", 2)
    del exact["t"]["retry"]
    before = fire.counts.since(Counts())
    assert run(log.count_events()) == exact
    assert fire.counts.since(before).reads < 10
    # Another process adds its own keys to the list, and takes none away.
    other = fire.store(keeps_log=True)
    run(other.commit([], [entry("x", Outcome.FILTERED, topic="w`.x")]))
    assert run(log.count_events()) == {**exact, "w`.x": {"filtered": 1}}


def test_a_segment_fits_into_a_document(log: FirestoreStore, run: Run) -> None:
    """Entries that do not fit are in another one of the same commit; data that fits nowhere is left out."""
    big = [entry(f"m{n}", data=random.Random(n).randbytes(400_000)) for n in range(5)]
    run(log.commit([], big))
    assert sorted(one.data["n"] for one in segments_of(run, log)) == [1, 2, 2]
    assert sorted(whole_log(run, log), key=lambda one: one.delivery.message_id) == big
    compressible = entry("zeros", data=b"0" * 2_000_000)
    run(log.commit([], [compressible]))
    assert run(log.find_events("zeros")) == [compressible]
    run(log.commit([], [entry("huge", data=random.Random(0).randbytes(1_000_000)), entry("beside")]))
    (huge,) = run(log.find_events("huge"))
    assert huge.delivery.data is None
    assert huge.delivery.data_fault == segments.TOO_LARGE
    assert ids(run(log.find_events("beside"))) == ["beside"]


def test_a_segment_expires_with_its_last_message(fire: Firestore, run: Run) -> None:
    store = fire.store(keeps_log=True, log_keep=3_600 * SECOND_US)
    run(store.commit([], [entry("m1", arrived_at=START), entry("m2", arrived_at=START + 5 * SECOND_US)]))
    (segment,) = segments_of(run, store)
    assert timestamps.from_datetime(segment.data["expireAt"]) == START + 3_605 * SECOND_US
    assert timestamps.from_datetime(segment.data["from"]) == START


def test_the_log_is_in_order_of_firestores_clock(log: FirestoreStore, run: Run) -> None:
    """So that a reader need not look back as far as the clocks of instances may differ."""
    run(log.commit([], [entry("right", arrived_at=NOW)]))
    slow = NOW - 300 * SECOND_US
    log.connection.clock.learn_us(NOW, slow, slow)  # a clock that is five minutes slow
    run(log.commit([], [entry("slow", arrived_at=NOW - 300 * SECOND_US + 1)]))
    assert ids(whole_log(run, log)) == ["right", "slow"]


def test_a_page_goes_on_within_a_segment(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """Each segment is read once, whatever the size of the pages, as long as one reader reads."""
    for n in range(0, 60, 20):
        run(log.commit([], [entry(f"m{n + k:02}", arrived_at=NOW + n + k) for k in range(20)]))
    expected = [f"m{n:02}" for n in range(60)]
    before = fire.counts.since(Counts())
    assert ids(whole_log(run, log, limit=7)) == expected
    # A document for each segment, and one answer without a document is no read here.
    assert fire.counts.since(before).reads == 3
    page = run(log.read_log(None, 27))
    other = fire.store(keeps_log=True)
    assert ids(page.entries) + ids(whole_log(run, other, page.position)) == expected
    assert ids(listed(run, log, limit=7)) == expected[::-1]


def test_a_full_second_is_listed_in_shorter_windows(
    log: FirestoreStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backwards, although Firestore has ids in ascending order only."""
    monkeypatch.setattr(log_reader, "_FULL", 1)
    for n in range(60):
        run(log.commit([], [entry(f"m{n:02}", arrived_at=NOW - 60 + n)]))
    run(log.commit([], [entry("long-ago", arrived_at=START)]))
    assert ids(listed(run, log)) == [*(f"m{n:02}" for n in reversed(range(60))), "long-ago"]
    recent = LogFilter(TimeRange(NOW - 30, NOW - 10))
    assert ids(listed(run, log, recent)) == [f"m{n:02}" for n in reversed(range(30, 50))]


def test_a_message_found_by_its_event_id_has_all_of_its_entries(log: FirestoreStore, run: Run) -> None:
    """Also those from before its event id could be read."""
    views = [ViewResult("v", "ponds/a", Outcome.POISON, "invalid")]
    unread = entry("m1", Outcome.POISON, arrived_at=NOW)
    unread = msgspec.structs.replace(unread, result=msgspec.structs.replace(unread.result, views=views))
    run(log.commit([], [unread]))
    run(log.commit([], [entry("m1", event_id="e1", arrived_at=NOW + 9, replay=True)]))
    (found,) = run(log.find_events("e1"))
    assert (found.arrived_at, found.result.outcome) == (NOW, Outcome.APPLIED)


def test_what_is_committed_late_is_read(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """As long after the end was read as a message is tried, and a call may take; also if nothing else is new."""
    store = fire.store(keeps_log=True, tried_s=100.0, deadline_s=10.0)
    now = now_us()
    run(store.commit([], [entry("m1", arrived_at=now)]))
    position = run(store.read_log(None, 9)).position
    position = run(store.read_log(position, 9)).position
    run(log.commit([], [entry("late", arrived_at=now - 110 * SECOND_US)]))
    assert "late" in ids(whole_log(run, store, position))


def test_what_comes_while_the_log_is_read_is_not_missed(
    log: FirestoreStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fold may take minutes: a shard that was read to its end gets more, and others get later times."""
    now = time.time_ns() // 1_000
    shards = iter("111101")
    monkeypatch.setattr("secrets.choice", lambda _: next(shards))
    for n in range(4):
        run(log.commit([], [entry(f"m{n}", arrived_at=now + n)]))
    page = run(log.read_log(None, 2))
    run(log.commit([], [entry("in shard 0", arrived_at=now + 10 * SECOND_US)]))
    run(log.commit([], [entry("in shard 1", arrived_at=now + 90 * SECOND_US)]))
    seen = ids(page.entries)
    for _ in range(6):
        page = run(log.read_log(page.position, 2))
        seen += ids(page.entries)
    assert {"in shard 0", "in shard 1", "m3"} <= set(seen)


@pytest.mark.parametrize(
    "position", ["-1", "5 -3 0 x", "1 -100000000 0 {name}", "1 1 0 ..", "9" * 17, "1 1 0 a/b", ""]
)
def test_a_position_that_is_none_is_refused(log: FirestoreStore, run: Run, position: str) -> None:
    """It comes from clients. A negative number of entries would keep the event loop busy for ever."""
    run(log.commit([], [entry("m1", arrived_at=NOW)]))
    (segment,) = segments_of(run, log)
    named = position.format(name=segment.ref.id)
    with pytest.raises(ValueError, match="no position"):
        run(log.list_events(LogFilter(), 1, named))
    with pytest.raises(ValueError, match="no position"):
        run(log.read_log(named, 1))


def test_a_new_process_adds_only_keys_that_are_missing(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """If each one wrote the list of keys again, their first commits would contend for it."""
    run(log.commit([], [entry("m1")]))
    other = fire.store(keeps_log=True)
    before = fire.counts.since(Counts())
    run(other.commit([], [entry("m2"), entry("m3")]))
    run(other.commit([], [entry("m4")]))
    spent = fire.counts.since(before)
    assert (spent.writes, spent.reads) == (2, 1)


def test_a_letter_that_was_replayed_in_vain_is_one_message(log: FirestoreStore, run: Run) -> None:
    """Its topic was not known when it was buried, nor at the first replay; then it was corrected."""
    for outcome, topic in ((Outcome.POISON, ""), (Outcome.POISON, ""), (Outcome.APPLIED, "t")):
        arrived_at = NOW + len(segments_of(run, log))
        run(log.commit([], [entry("m1", outcome, topic=topic, arrived_at=arrived_at, replay=arrived_at > NOW)]))
    (found,) = run(log.find_events("m1"))
    assert (found.topic, found.result.outcome, found.arrived_at) == ("t", Outcome.APPLIED, NOW)
    assert run(log.count_events()) == {"t": {"applied": 1}}


def test_a_view_that_failed_may_filter_the_redelivery(
    log: FirestoreStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code was changed meanwhile. Otherwise the message would be open for ever."""
    run(log.commit([], [entry("m1", Outcome.RETRY, views={"a": Outcome.APPLIED, "b": Outcome.RETRY})]))
    run(log.commit([], [again("m1", b=Outcome.FILTERED)]))
    (found,) = run(log.find_events("m1"))
    assert {view.view: str(view.outcome) for view in found.result.views} == {"a": "applied", "b": "filtered"}
    # A plain redelivery looks the same, and must not be summed again.
    run(log.commit([], [entry("m2", views={"a": Outcome.APPLIED, "b": Outcome.FILTERED})]))
    run(log.commit([], [again("m2", b=Outcome.FILTERED)]))
    monkeypatch.setattr(log_counts, "SEGMENTS_READ_MAX", -1)
    assert run(log.count_events()) == {"t": {"applied": 1}}


def again(message_id: str, **others: Outcome) -> LogEntry:
    """A redelivery: view `a` took it before, the others say something else."""
    one = redelivered(message_id, views={"a": Outcome.DUPLICATE})
    views = [*one.result.views, *entry(message_id, views=others).result.views]
    return msgspec.structs.replace(one, result=msgspec.structs.replace(one.result, views=views))


def test_a_message_that_was_applied_twice_is_listed_once(log: FirestoreStore, run: Run) -> None:
    """Its document was deleted meanwhile, and no receipt told. Also if the two are on different pages."""
    for n, name in enumerate(("m1", "m2", "m1", "m3")):
        run(log.commit([], [entry(name, arrived_at=NOW + n)]))
    assert ids(run(log.list_events(LogFilter(), 9, None)).entries) == ["m3", "m2", "m1"]
    listed: list[str] = []
    position: str | None = None
    for _ in range(4):
        page = run(log.list_events(LogFilter(), 1, position))
        listed, position = listed + ids(page.entries), page.position
    assert listed == ["m3", "m2", "m1"]


def test_poison_beside_a_view_that_took_the_message_is_summed_once(
    log: FirestoreStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the log with that view's effect, and again with its burial; a replay takes the count back."""
    partly = {"a": Outcome.APPLIED, "b": Outcome.POISON}
    buried = entry("m1", Outcome.POISON, views=partly)
    unburied = msgspec.structs.replace(buried, result=msgspec.structs.replace(buried.result, buried=False))
    run(log.commit([], [unburied]))
    run(log.commit([], [buried]))
    monkeypatch.setattr(log_counts, "SEGMENTS_READ_MAX", -1)
    assert run(log.count_events()) == {"t": {"poison": 1}}
    run(log.commit([], [entry("m1", views={"b": Outcome.APPLIED}, replay=True)]))
    assert run(log.count_events()) == {"t": {"applied": 1}}


def test_a_replay_takes_back_the_count_of_an_old_letter(
    fire: Firestore, log: FirestoreStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The letter was counted by an earlier build, in an entry of its own."""
    put_old(fire, entry("m1", Outcome.POISON))
    run(log.commit([], [entry("m1", replay=True)]))
    monkeypatch.setattr(log_counts, "SEGMENTS_READ_MAX", -1)
    assert run(log.count_events()) == {"t": {"applied": 1}}


def test_a_replay_completes_a_burial_that_seems_to_be_later(log: FirestoreStore, run: Run) -> None:
    """Clocks that differ by less than a second are not corrected. What the other views did must not be lost."""
    partly = {"a": Outcome.APPLIED, "b": Outcome.POISON}
    run(log.commit([], [entry("m1", Outcome.POISON, views=partly, arrived_at=NOW)]))
    run(log.commit([], [entry("m1", views={"b": Outcome.APPLIED}, arrived_at=NOW - 500_000, replay=True)]))
    (found,) = run(log.find_events("m1"))
    assert {view.view: str(view.outcome) for view in found.result.views} == {"a": "applied", "b": "applied"}


def test_replays_that_failed_under_several_topics_are_one_message(log: FirestoreStore, run: Run) -> None:
    """Each time an operator corrected the topic, and the first that succeeds takes all of them."""
    for n, (topic, outcome) in enumerate((("", Outcome.POISON), ("u", Outcome.POISON), ("t", Outcome.APPLIED))):
        one = entry("m1", outcome, topic=topic, subscription="s", replay=n > 0, arrived_at=NOW + n)
        run(log.commit([], [one]))
    (found,) = run(log.find_events("m1"))
    assert (found.topic, found.result.outcome) == ("t", Outcome.APPLIED)


def test_a_message_that_was_logged_very_often_is_found_whole(
    log: FirestoreStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The segment that settles it may be in the last shard, beyond what is looked at at first."""
    monkeypatch.setattr(event_log, "_FOUND_MAX", 3)
    shards = iter("000f")
    monkeypatch.setattr("secrets.choice", lambda _: next(shards))
    for n in range(3):
        run(log.commit([], [entry("m1", Outcome.RETRY, arrived_at=NOW + n)]))
    run(log.commit([], [entry("m1", arrived_at=NOW + 3)]))
    (found,) = run(log.find_events("m1"))
    assert found.result.outcome == Outcome.APPLIED


def test_a_search_for_what_is_no_text_finds_nothing(log: FirestoreStore, run: Run) -> None:
    """Such as bytes of a command line that are no UTF-8."""
    assert run(log.find_events("\udcff")) == []


def test_the_end_of_an_idle_log_is_not_read_again(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """A rebuild reads on before each page that it swaps."""
    long_ago = now_us() - 3_600 * SECOND_US
    for n in range(30):
        run(log.commit([], [entry(f"m{n}", arrived_at=long_ago + n)]))
    page = run(log.read_log(None, 100))
    before = fire.counts.reads
    page = run(log.read_log(page.position, 100))
    assert (page.entries, fire.counts.reads - before) == ([], 0)


def test_a_reader_asks_for_firestores_time(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """Its own clock is five minutes fast, and it has called nothing yet: what is committed next is not missed."""
    now = now_us()
    run(log.commit([], [entry("m1", arrived_at=now)]))
    with pytest.MonkeyPatch.context() as patched:
        right = time.time_ns
        patched.setattr(time, "time_ns", lambda: right() + 300 * SECOND_US * 1_000)
        position = run(fire.store(keeps_log=True).read_log(None, 9)).position
    run(log.commit([], [entry("m2", arrived_at=now + 1)]))
    assert "m2" in ids(whole_log(run, log, position))


def test_the_first_segment_of_a_process_is_named_by_firestores_time(fire: Firestore, run: Run) -> None:
    """Its clock is five minutes slow, and its first commit reads the keys before it."""
    store = fire.store(keeps_log=True)
    with pytest.MonkeyPatch.context() as patched:
        right = time.time_ns
        patched.setattr(time, "time_ns", lambda: right() - 300 * SECOND_US * 1_000)
        run(store.commit([], [entry("m1", arrived_at=now_us())]))
    (segment,) = segments_of(run, store)
    assert abs(segments.time_of(segment.ref.id) - now_us()) < 60 * SECOND_US


def test_a_search_from_a_time_on_finds_what_a_fast_clock_wrote(log: FirestoreStore, run: Run) -> None:
    """The message arrived by its instance's clock, and its segment is named by Firestore's."""
    since = now_us()
    log.connection.clock.learn_us(since, since + 20 * SECOND_US, since + 20 * SECOND_US)
    run(log.commit([], [entry("m1", arrived_at=since + 1)]))
    found = run(log.list_events(LogFilter(TimeRange(since, None)), 9, None))
    assert ids(found.entries) == ["m1"]


def test_an_answer_that_comes_late_says_nothing_about_the_clock(log: FirestoreStore, run: Run) -> None:
    """The process was stopped between sending and the answer: Firestore's time is not in the middle."""
    log.connection.clock.learn_us(NOW, NOW, NOW)
    log.connection.clock.learn_us(NOW, NOW, NOW + 3_600 * SECOND_US)
    run(log.commit([], [entry("m1", arrived_at=NOW)]))
    (segment,) = segments_of(run, log)
    assert segments.time_of(segment.ref.id) == NOW


def test_long_ids_fit_into_a_segment(log: FirestoreStore, run: Run) -> None:
    long = [entry(f"{n:04}" + "i" * 1_490, event_id="e" * 1_490, data=b"x" * 1_700) for n in range(500)]
    assert isinstance(run(log.commit([], long)), Committed)
    assert len(whole_log(run, log, limit=500)) == 500


def test_a_page_of_the_list_costs_a_bounded_number_of_calls(fire: Firestore, log: FirestoreStore, run: Run) -> None:
    """Also if nothing matches and each entry may have others: then the page is short, and there is more."""
    now = time.time_ns() // 1_000
    for n in range(10):
        run(log.commit([], [entry(f"m{n}-{k}", Outcome.STALE, arrived_at=now - n) for k in range(100)]))
    before = fire.counts.since(Counts())
    page = run(log.list_events(LogFilter(outcome=Outcome.POISON), 50, None))
    assert (page.entries, page.more) == ([], True)
    assert fire.counts.since(before).rpcs < 100
    assert listed(run, log, LogFilter(outcome=Outcome.POISON)) == []
    assert len(listed(run, log, limit=100)) == 1_000
