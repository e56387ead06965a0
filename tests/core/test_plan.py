"""What `plan` decides, case by case: reasons, receipts, adoption, poison."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from common.pond import NOW, SECOND, Orders, Pond, at, delivery, order, service, signal
from millpond import Event, InvalidEvent, Latest, Tally
from millpond.errors import ViewError
from millpond.model import Document, Outcome, Ref, Snapshot
from millpond.plan import plan, refs_of
from millpond.route import RECEIPT_COLLECTION

DAY = 86_400 * SECOND


def reasons(pond: Pond, *messages: Any) -> list[str]:
    return [result.reason for message in messages for result in pond.send(message)]


def test_reasons_tell_a_redelivery_from_a_republished_copy_from_a_stale_event() -> None:
    """Each word of the specification means one thing."""
    pond = Pond()
    assert reasons(
        pond,
        service("m1", 1, "ok", 1),
        service("m1", 1, "ok", 1),  # the same message
        service("m2", 2, "ok", 1),  # the same event again
        service("m3", 3, "down", 5),
        service("m1", 1, "ok", 1),  # the first again, superseded by now
        service("m9", 2, "ok", 1),  # a third copy, lower
        service("m4", 4, "slow", 2),  # news to us, but old
        service("m4", 4, "slow", 2),
    ) == [
        "applied",
        "duplicate_message_noop",
        "duplicate_event_noop",
        "applied",
        "duplicate_message_noop",
        "duplicate_event_noop",
        "stale_event_ignored",
        "duplicate_message_noop",
    ]


def test_a_republished_copy_moves_provenance_only() -> None:
    """The document says the same, and now names the greater copy."""
    pond = Pond()
    pond.send(service("m1", 1, "ok", 1))
    before = dict(pond.get("ops_services/dev__api"))
    pond.send(service("m2", 2, "ok", 1))
    after = dict(pond.get("ops_services/dev__api"))
    assert after["source"]["messageId"] == "m2"
    assert {k: v for k, v in after.items() if k != "source"} == {k: v for k, v in before.items() if k != "source"}


def test_two_statuses_with_one_timestamp_are_two_events() -> None:
    """Identity includes what the event says, not only when."""
    assert reasons(Pond(), service("m1", 1, "ok", 1), service("m2", 2, "down", 1)) == ["applied", "applied"]


def test_an_event_id_is_identity_together_with_its_time() -> None:
    """Producers reuse an id for every update of a thing; that must not swallow the update."""
    one = delivery({"service": "api", "timestamp": at(1), "eventId": "e", "status": "ok"}, "m1", 1)
    same = delivery({"service": "api", "timestamp": at(1), "eventId": "e", "status": "ok", "note": 1}, "m2", 2)
    other = delivery({"service": "api", "timestamp": at(2), "eventId": "e", "status": "down"}, "m3", 3)
    assert reasons(Pond(), one, same, other) == ["applied", "duplicate_event_noop", "applied"]


def test_the_receipt_says_what_became_of_the_event() -> None:
    """One document serves both tiers: message id, views, documents, outcome, both stamps, and when it goes."""
    pond = Pond()
    newer, older = service("m1", 1, "ok", -1), service("m2", 2, "down", -5)
    pond.send(newer, older)
    receipts = {
        f.data["messageId"]: f.data
        for r, f in pond.documents.items()
        if r.collection == RECEIPT_COLLECTION and f.data
    }
    stale = receipts["m2"]
    assert (stale["outcome"], stale["reason"]) == ("stale_ignored", "stale_event_ignored")
    entry = stale["views"]["ops_services"]
    assert entry["document"] == "ops_services/dev__api"
    assert entry["stamp"] < entry["winner"] == receipts["m1"]["views"]["ops_services"]["stamp"]
    assert stale["expireAt"] - stale["createdAt"] == dt.timedelta(days=7)
    (ref,) = [r for r, f in pond.documents.items() if f.data is stale]
    assert ref.id.startswith("dev__system.events__")
    assert len(ref.id.rpartition("__")[2]) == 52


def test_an_expired_receipt_no_longer_counts() -> None:
    """TTL deletion lags, so the date is compared here."""
    pond = Pond()
    pond.send(service("m1", 1, "ok", 1), service("m2", 2, "down", 5))
    assert reasons(pond, service("m1", 1, "ok", 1)) == ["duplicate_message_noop"]
    pond.now = NOW + 8 * DAY
    assert reasons(pond, service("m1", 1, "ok", 1)) == ["stale_event_ignored"]


def test_receipts_by_message_keep_the_plain_id() -> None:
    """RECEIPTS=message gives 000's `ops_dedupe/{messageId}`."""
    pond = Pond(RECEIPTS="message")
    pond.send(service("m1", 1, "ok", 1))
    assert pond.get("ops_dedupe/m1")["messageId"] == "m1"


def test_a_receipt_of_the_earlier_consumer_counts() -> None:
    """It names no views, so it stands for all of them."""
    pond = Pond(RECEIPTS="message")
    pond.send(service("m2", 2, "down", 5))
    ref = Ref("ops_dedupe", "m1")
    pond.documents[ref] = Snapshot(ref, 99, {"messageId": "m1", "createdAt": dt.datetime.now(dt.UTC)})
    assert reasons(pond, service("m1", 1, "ok", 1)) == ["duplicate_message_noop"]


def test_documents_from_before_are_adopted() -> None:
    """A document without a stamp is ordered by the times and the source the earlier consumer left in it."""
    pond = Pond(OPS_SERVICE_ID="service")
    ref = Ref("ops_services", "api")
    then = dt.datetime.fromtimestamp(at(100), dt.UTC)
    source = {"topic": "system.events", "messageId": "old", "publishedAt": then}
    pond.documents[ref] = Snapshot(
        ref, 1, {"status": "ok", "updatedAt": then, "lastHeartbeatAt": then, "source": source}
    )
    assert reasons(pond, service("m1", 50, "down", 50), service("m2", 101, "down", 101)) == [
        "stale_event_ignored",
        "applied",
    ]
    assert pond.get("ops_services/api")["status"] == "down"


def test_an_adopted_merge_keeps_every_field_until_it_is_outranked() -> None:
    """All fields of the old document share its adopted stamp; new fields are news."""
    pond = Pond()
    ref = Ref("trade_signals", "s1")
    then = dt.datetime.fromtimestamp(at(100), dt.UTC)
    pond.documents[ref] = Snapshot(
        ref, 1, {"state": "executed", "updatedAt": then, "source": {"publishedAt": then}}
    )
    assert reasons(pond, signal("m1", 50, updatedAt=at(50), state="new", confidence=0.9)) == ["applied"]
    merged = pond.get("trade_signals/s1")
    assert (merged["state"], merged["confidence"]) == ("executed", 0.9)


def test_poison_in_one_view_means_applied_in_none() -> None:
    """A tick without a price is fine for history and latest; one with a broken price is poison for both."""
    pond = Pond()
    with pytest.raises(InvalidEvent, match="price"):
        pond.send(delivery({"topic": "market-ticks", "symbol": "SPY", "price": "cheap"}, "m1"))
    assert pond.state() == {}


class Broken(Tally):
    topics = ("orders",)
    collection = "broken"
    key = "day"
    time = "ts"

    def fold(self, event: Event, current: Document) -> Document:
        current["touched"] = True
        raise ZeroDivisionError(event.get("amount"))


def test_a_failing_fold_is_retried_alone() -> None:
    """Its neighbours in the batch are applied, its own other view is not, and nothing it touched leaks out."""
    pond = Pond([Orders(), Broken()])
    good = delivery({"service": "api", "timestamp": at(1)}, "g", 1)
    pond.router = Pond([Orders(), Broken(), *Pond().router.views]).router
    results = pond.send(order("m1", 10, 1), good)
    assert [result.outcome for result in results] == [Outcome.RETRY, Outcome.APPLIED]
    assert isinstance(results[0].error, ViewError)
    assert "10" not in str(results[0].error), "an error's text is logged, so it must not quote the payload"
    assert list(pond.state()) == ["ops_services/dev__api"]


def test_a_tally_refuses_what_its_receipts_no_longer_cover() -> None:
    """Older than retention, nobody can say whether it was counted: a person decides."""
    pond = Pond([Orders()])
    (result,) = pond.send(order("m1", 1, -7 * 86_400))
    assert (result.outcome, result.reason) == (Outcome.POISON, "too_old_to_count")
    (result,) = pond.send(order("m2", 1, -6 * 86_400))
    assert result.reason == "applied"


def test_an_event_from_the_future_keeps_its_receipt_that_much_longer() -> None:
    """Its receipt must outlive every moment at which a copy would still be counted."""
    pond = Pond([Orders()])
    pond.send(order("m1", 1, 30 * 86_400))
    pond.now = NOW + 20 * DAY
    assert reasons(pond, order("m2", 1, 30 * 86_400, publish_s=20 * 86_400)) == ["duplicate_event_noop"]


class Greedy(Latest):
    topics = ("orders",)
    collection = "greedy"
    key = "day"

    def document(self, event: Event) -> Document | None:
        return None if event.get("skip") else {"day": event.get("day")}


def test_a_view_may_decline_an_event() -> None:
    """`filtered`, and nothing is written, not even a receipt."""
    pond = Pond([Greedy()])
    (result,) = pond.send(delivery({"topic": "orders", "day": "d", "skip": True}))
    assert (result.outcome, result.reason) == (Outcome.FILTERED, "event_filtered")
    assert pond.documents == {}


def test_one_event_feeds_several_views_together() -> None:
    """Both outcomes are reported; the greater one is the message's."""
    pond = Pond([Greedy(), Orders()])
    pond.send(order("m1", 5, 1))
    (result,) = pond.send(order("m2", 5, 1, publish_s=1))
    assert [view.reason for view in result.views] == ["applied", "duplicate_event_noop"]
    assert result.outcome is Outcome.APPLIED


def test_plan_is_pure() -> None:
    """The same arguments give the same plan, and snapshots are left as they were."""
    pond = Pond()
    pond.send(signal("m1", 1, updatedAt=at(1), state="new"))
    item = pond.route(signal("m2", 2, updatedAt=at(2), state="ack"))
    refs = refs_of(item)[0]
    snapshots = {ref: pond.documents.get(ref, Snapshot(ref, None, None)) for ref in refs}
    frozen = repr(snapshots)
    first = plan([item], snapshots, NOW, pond.receipts)
    second = plan([item], snapshots, NOW, pond.receipts)
    assert repr(first) == repr(second)
    assert repr(snapshots) == frozen
