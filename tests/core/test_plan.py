"""What `plan` decides, case by case: reasons, receipts, adoption, poison."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from typing import Any

from millpond import Event, Latest, Tally
from millpond.core.collections import RECEIPTS
from millpond.core.errors import ViewError
from millpond.core.model import Delivery, Document, Outcome, Ref, Snapshot
from millpond.core.stamp import decode_stamp
from tests.common.pond import NOW, SECOND, Orders, Pond, at, delivery, order, service, signal

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


def test_a_view_may_add_to_source_and_forge_nothing_in_it() -> None:
    """With a stamp of its own making it could freeze a document, or let an older event win."""

    class Forger(Latest):
        topics = ("forged",)
        collection = "forged"
        key = "id"
        time = "at"

        def document(self, event: Event) -> Document:
            mine = dict.fromkeys(("stamp", "key", "topic", "messageId", "publishedAt"), "forged")
            return {"n": event.require("n"), "source": {**mine, "revisionAt": event.require("n")}}

    def forged(number: int) -> Delivery:
        return delivery({"topic": "forged", "id": "a", "n": number, "at": at(number)}, f"m{number}", number)

    pond = Pond([Forger()])
    assert reasons(pond, forged(1), forged(3), forged(2)) == ["applied", "applied", "stale_event_ignored"]
    document = pond.get("forged/a")
    source = document["source"]
    assert "forged" not in {source[name] for name in ("stamp", "key", "messageId", "publishedAt")}
    assert (document["n"], source["messageId"], source["topic"]) == (3, "m3", "forged")
    assert decode_stamp(source["stamp"]).message_id == "m3"
    assert source["revisionAt"] == 3


def test_a_republished_copy_moves_provenance_only() -> None:
    """The document says the same, and now names the greater copy."""
    pond = Pond()
    pond.send(service("m1", 1, "ok", 1))
    before = dict(pond.get("ops_services/dev__api"))
    pond.send(service("m2", 2, "ok", 1))
    after = dict(pond.get("ops_services/dev__api"))
    assert after["source"]["messageId"] == "m2"
    assert {k: v for k, v in after.items() if k != "source"} == {k: v for k, v in before.items() if k != "source"}


def heartbeat(message_id: str, publish_s: float, **fields: Any) -> Any:
    return delivery({"topic": "system.events", "service": "api", "eventId": "k1", **fields}, message_id, publish_s)


def test_a_word_never_hides_a_change() -> None:
    """A copy with the same id and time and other content is applied; the same content again is a duplicate."""
    pond = Pond()
    assert reasons(
        pond,
        heartbeat("m1", 1, timestamp=at(0), status="ok"),
        heartbeat("m2", 2, timestamp=at(0), status="down"),
        heartbeat("m3", 3, timestamp=at(0), status="down"),
        heartbeat("m4", 4, timestamp=at(0), status="down", version="2"),
        heartbeat("m1", 1, timestamp=at(0), status="ok"),  # lower: nothing changes
    ) == ["applied", "applied", "duplicate_event_noop", "applied", "duplicate_message_noop"]
    assert pond.get("ops_services/dev__api")["version"] == "2"


def test_what_was_filled_in_from_publish_time_is_no_change() -> None:
    """Each copy has a publish time of its own; an event without a time shows it."""
    pond = Pond()
    first, second = heartbeat("m1", 1, status="ok"), heartbeat("m2", 2, status="ok")
    assert reasons(pond, first, second) == ["applied", "duplicate_event_noop"]
    # Said by the event itself, the same two times are two contents.
    other = Pond()
    told = [signal(f"m{n}", n, eventId="k", ts=at(0), createdAt=at(n)) for n in (1, 2)]
    assert reasons(other, *told) == ["applied", "applied"]


def test_a_merge_compares_the_fields_it_won() -> None:
    """Another copy of an update that says something else of a field it holds is applied."""
    pond = Pond()
    assert reasons(
        pond,
        signal("m1", 1, eventId="k", updatedAt=at(0), state="new"),
        signal("m2", 2, eventId="k", updatedAt=at(0), state="new"),
        signal("m3", 3, eventId="k", updatedAt=at(0), state="ack"),
        signal("m4", 4, eventId="k", updatedAt=at(0), state="ack", confidence=1),
    ) == ["applied", "duplicate_event_noop", "applied", "applied"]
    assert pond.get("trade_signals/s1")["state"] == "ack"


def test_a_tally_counts_the_first_copy_and_says_so_of_another() -> None:
    """What was counted cannot be taken back out of a fold, and the word does not hide it."""
    pond = Pond([Orders()])

    def copy(message_id: str, amount: int) -> Any:
        payload = {"topic": "orders", "eventId": "o1", "day": "d1", "amount": amount, "ts": at(0)}
        return delivery(payload, message_id, int(message_id[1:]))

    told = reasons(pond, copy("m1", 5), copy("m1", 5), copy("m2", 5), copy("m3", 7), copy("m2", 5))
    assert told == [
        "applied",
        "duplicate_message_noop",
        "duplicate_event_noop",
        "other_content_not_counted",
        "duplicate_event_noop",
    ]
    assert (pond.get("sales/d1")["count"], pond.get("sales/d1")["sum"]) == (1, 5)


def test_a_receipt_from_before_says_nothing_about_content() -> None:
    """An earlier build did not keep it: a copy that differs is a duplicate like any other."""
    pond = Pond([Orders()])
    payload = {"topic": "orders", "eventId": "o1", "day": "d1", "amount": 5, "ts": at(0)}
    pond.send(delivery(payload, "m1", 1))
    (receipt,) = [found for ref, found in pond.documents.items() if ref.collection == RECEIPTS]
    assert receipt.data is not None
    del receipt.data["views"]["sales"]["content"]
    assert reasons(pond, delivery({**payload, "amount": 7}, "m2", 2)) == ["duplicate_event_noop"]


def test_a_result_says_which_view_wrote() -> None:
    """As if its events had come one by one, also within a batch."""
    pond = Pond()
    messages = [
        service("m1", 1, "ok", 1),
        service("m2", 2, "ok", 1),
        service("m2", 2, "ok", 1),
        service("m0", 0, "x", 0),
    ]
    results = pond.send(*messages)
    assert [view.wrote for result in results for view in result.views] == [True, True, False, False]


def test_an_event_id_is_identity_together_with_its_time() -> None:
    """Producers reuse an id for every update of a thing; that must not swallow the update."""
    one = delivery({"service": "api", "timestamp": at(1), "eventId": "e", "status": "ok"}, "m1", 1)
    same = delivery({"service": "api", "timestamp": at(1), "eventId": "e", "status": "ok", "note": 1}, "m2", 2)
    other = delivery({"service": "api", "timestamp": at(2), "eventId": "e", "status": "down"}, "m3", 3)
    assert reasons(Pond(), one, same, other) == ["applied", "duplicate_event_noop", "applied"]


def test_what_makes_one_logical_event() -> None:
    """An eventId with its time and sequence, else what the event says; without any time, each message its own."""
    ids = (f"m{number}" for number in itertools.count())

    def receipt(**payload: Any) -> str | None:
        (result,) = Pond().send(delivery({"topic": "system.events", "service": "logical", **payload}, next(ids)))
        return result.receipt

    assert receipt(timestamp=at(1), status="a") == receipt(timestamp=at(1), status="a")
    assert receipt(timestamp=at(1), status="a") != receipt(timestamp=at(1), status="b")
    assert receipt(timestamp=at(1), status="a") == receipt(status="a", timestamp=at(1))
    assert receipt(eventId="e", timestamp=at(1), status="a") == receipt(eventId="e", timestamp=at(1), status="b")
    assert receipt(eventId="e", timestamp=at(1)) != receipt(eventId="e", timestamp=at(2))
    assert receipt(eventId="e", timestamp=at(1), sequence=1) != receipt(eventId="e", timestamp=at(1), sequence=2)
    assert receipt(status="a") != receipt(status="a")


def test_the_receipt_says_what_became_of_the_event() -> None:
    """One document serves both tiers: message id, views, documents, outcome, both stamps, and when it goes."""
    pond = Pond()
    newer, older = pond.send(service("m1", 1, "ok", -1), service("m2", 2, "down", -5))
    stamp = pond.get("ops_services/dev__api")["source"]["stamp"]
    assert newer.receipt is not None
    assert older.receipt is not None
    assert re.fullmatch(r"ops_dedupe/dev__system\.events__[A-Z2-7]{52}", newer.receipt)
    applied, stale = pond.get(newer.receipt), pond.get(older.receipt)
    assert (applied["messageId"], applied["topic"]) == ("m1", "system.events")
    assert (applied["outcome"], applied["reason"]) == ("applied", "applied")
    told = {"document": "ops_services/dev__api", "outcome": "applied", "reason": "applied"}
    assert applied["views"] == {"ops_services": {**told, "stamp": stamp, "winner": stamp}}
    assert applied["expireAt"] - applied["createdAt"] == dt.timedelta(days=7)
    assert (stale["outcome"], stale["reason"]) == ("stale_ignored", "stale_event_ignored")
    verdict = stale["views"]["ops_services"]
    assert verdict["reason"] == "stale_event_ignored"
    assert verdict["stamp"] < verdict["winner"] == stamp
    (copy,) = pond.send(service("m3", 3, "ok", -1))
    assert copy.receipt == newer.receipt
    assert pond.get(newer.receipt) == applied


def test_an_expired_receipt_no_longer_counts() -> None:
    """TTL deletion lags, so the date is compared here."""
    pond = Pond()
    pond.send(service("m1", 1, "ok", 1), service("m2", 2, "down", 5))
    assert reasons(pond, service("m1", 1, "ok", 1)) == ["duplicate_message_noop"]
    pond.now = NOW + 8 * DAY
    assert reasons(pond, service("m1", 1, "ok", 1)) == ["stale_event_ignored"]


def test_receipts_by_message() -> None:
    """RECEIPTS=message: `ops_dedupe/{messageId}`, so that a republished copy is a message of its own."""
    pond = Pond(RECEIPTS="message")
    told = reasons(
        pond,
        service("plain/1", 1, "ok", 1),
        service("plain/1", 1, "ok", 1),
        service("m2", 2, "down", 0),
        service("m2", 2, "down", 0),
        service("m3", 3, "down", 0),
    )
    assert told == [
        "applied",
        "duplicate_message_noop",
        "stale_event_ignored",
        "duplicate_message_noop",
        "stale_event_ignored",
    ]
    receipt = pond.get("ops_dedupe/plain%2F1")
    assert receipt["messageId"] == "plain/1"
    assert {"createdAt", "expireAt"} <= set(receipt)


def test_receipts_of_tallies_only() -> None:
    """RECEIPTS=tallies: a service leaves none, and is right without; an order leaves one, and counts once."""
    pond = Pond(VIEWS="tests.common.pond", RECEIPTS="tallies")
    counted = order("o1", 5, 0)
    assert reasons(pond, service("m1", 1, "ok", 1), service("m2", 2, "down", 5), service("m1", 1, "ok", 1)) == [
        *("applied", "applied", "stale_event_ignored")
    ]
    assert reasons(pond, counted, counted) == ["applied", "duplicate_message_noop"]
    assert pond.get("sales/d1")["count"] == 1
    assert [ref.id.split("__")[1] for ref in pond.documents if ref.collection == "ops_dedupe"] == ["orders"]


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


class Broken(Tally):
    topics = ("orders",)
    collection = "broken"
    key = "day"
    time = "ts"

    def fold(self, event: Event, current: Document) -> Document:
        current["touched"] = True
        raise ZeroDivisionError(event.get("amount"))


def test_a_failing_fold_is_retried_alone() -> None:
    """Its neighbours in the batch and its own other view are applied, and nothing it touched leaks out."""
    pond = Pond([Orders(), Broken()])
    good = delivery({"service": "api", "timestamp": at(1)}, "g", 1)
    pond.router = Pond([Orders(), Broken(), *Pond().router.views]).router
    results = pond.send(order("m1", 10, 1), good)
    assert [result.outcome for result in results] == [Outcome.RETRY, Outcome.APPLIED]
    assert isinstance(results[0].error, ViewError)
    assert "10" not in str(results[0].error), "an error's text is logged, so it must not quote the payload"
    assert [(view.view, view.outcome) for view in results[0].views] == [
        ("sales", Outcome.APPLIED),
        ("broken", Outcome.RETRY),
    ]
    assert list(pond.state()) == ["ops_services/dev__api", "sales/d1"]


def test_a_tally_refuses_what_its_receipts_no_longer_cover() -> None:
    """Older than retention, it is unknown whether it was counted: an operator decides."""
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
