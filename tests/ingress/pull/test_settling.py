"""Which messages are acknowledged, which are given back, and what is said about each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.common.sqlite_files import store_held
from tests.common.waiting import eventually
from tests.ingress.broker.support import ATTEMPTS
from tests.ingress.pull.support import Pull, PullBroker, Pulling

T0, T1, T2 = "2026-01-08T12:00:00Z", "2026-01-08T12:00:01Z", "2026-01-08T12:00:02Z"
# The shortest there is.
DEADLINE_S = 10
# Refuses noise, and fails until the file is there, as a view fails until a mended one is deployed.
PARCELS = """
from pathlib import Path
from millpond import Latest

class Parcels(Latest):
    topics = ("parcels",)
    collection = "parcels"
    key = "parcel"
    time = "at"

    def document(self, event):
        if event.get("fragile"):
            Path({mended!r}).read_text()
        return None if event.get("noise") else {{"status": event.require("status")}}
"""


@pytest.fixture
def mended(tmp_path: Path) -> Path:
    """Make it, and the view works for fragile parcels, too."""
    mended = tmp_path / "mended"
    (tmp_path / "parcels.py").write_text(PARCELS.format(mended=str(mended)))
    return mended


def parcel(at: str, **more: Any) -> dict[str, Any]:
    return {"topic": "parcels", "parcel": "p1", "at": at, "status": "sent", **more}


def settled(pulling: Pulling, broker: PullBroker, path: str, payload: Any, **attributes: str) -> dict[str, Any]:
    """Publish one message; its line."""
    message_id = broker.publish(path, payload, **attributes)
    (line,) = eventually(lambda: pulling.logged(message_id))
    assert isinstance(line, dict)
    return line


@pytest.mark.usefixtures("mended")
def test_what_is_settled_is_acknowledged(pull: Pull, broker: PullBroker) -> None:
    """Applied, duplicate, stale, filtered and buried: one line each, and none comes again."""
    topic = broker.topic("scans")
    subscription = broker.subscription("scans-pull", topic)
    pulling = pull("scans-pull", VIEWS="parcels")
    lines = [
        settled(pulling, broker, topic, payload)
        for payload in (
            parcel(T1, eventId="e1"),
            parcel(T1, eventId="e1"),
            parcel(T0),
            parcel(T2, noise=True),
            {"no view": "wants this"},
            b"\xff not JSON",
        )
    ]
    assert [(line["outcome"], line["reason"], line["severity"]) for line in lines] == [
        ("applied", "applied", "INFO"),
        ("duplicate", "duplicate_event_noop", "INFO"),
        ("stale_ignored", "stale_event_ignored", "INFO"),
        ("filtered", "event_filtered", "INFO"),
        ("poison", "unroutable_payload", "ERROR"),
        ("poison", "invalid_json", "ERROR"),
    ]
    same = {"ack_action": "ack", "http_status": None, "subscription": subscription, "deliveryAttempt": None}
    for line in lines:
        assert {**line, **same, "retryable": False} == line
    assert [line["write_kind"] for line in lines] == ["put", "put", "none", "none", "letter", "letter"]
    document = pulling.document("parcels/p1")
    assert document is not None
    assert document["status"] == "sent"
    assert {letter["reason"] for letter in pulling.letters()} == {"unroutable_payload", "invalid_json"}
    check_surface(pulling, subscription)
    assert pulling.terminate() == 0
    assert broker.unacknowledged(subscription) == set()


def check_surface(pulling: Pulling, subscription: str) -> None:
    """What `serve` has is there, but for the push endpoint."""
    assert pulling.output[1] == f"Pulls {subscription}"
    for path in ("/health", "/ready", "/live", "/api/stats"):
        assert pulling.get(path).status == 200
    metrics = pulling.http.get("/metrics").text
    assert 'millpond_messages_total{outcome="applied",reason="applied",topic="parcels"} 1.0' in metrics
    assert "millpond_message_seconds_count 6.0" in metrics
    # Straight from the connection, and through ASGI.
    for headers in ({}, {"expect": "100-continue"}):
        refused = pulling.push({"message": {}}, headers)
        assert (refused.status, refused.json["reason"]) == (404, "not_found")
        assert "pull" in refused.json["error"]
    eventually(lambda: [note["path"] for note in pulling.notes("WARNING")] == ["/pubsub/push"] * 2)


def test_nothing_of_a_message_is_lost_on_the_way(pull: Pull, broker: PullBroker) -> None:
    """Attributes, ordering key, bytes of any kind and no bytes at all arrive as they were published."""
    topic = broker.topic("odd")
    broker.subscription("odd-pull", topic, enable_message_ordering=True)
    pulling = pull(f"projects/{broker.project}/subscriptions/odd-pull")
    # The attribute names the topic; values may be any text.
    line = settled(
        pulling,
        broker,
        topic,
        {"signalId": "s1", "action": "BUY", "updatedAt": T0},
        topic="trade-signals",
        été="☃\n",
    )
    assert (line["topic"], line["outcome"]) == ("trade-signals", "applied")
    empty = settled(pulling, broker, topic, b"", only="an attribute")
    assert (empty["reason"], empty["ack_action"]) == ("missing_data", "ack")
    raw = settled(pulling, broker, topic, bytes(range(256)))
    assert raw["reason"] == "invalid_json"
    large = settled(pulling, broker, topic, {"topic": "market-ticks", "symbol": "L", "ts": T0, "note": "x" * 10**6})
    assert large["outcome"] == "applied"
    (ordered,) = broker.publish_all(topic, [{"no view": "wants this"}], keys=["a key"])
    eventually(lambda: pulling.logged(ordered))
    letters = {letter["messageId"]: letter for letter in map(opened(pulling), pulling.letters())}
    assert letters[empty["messageId"]]["attributes"] == '{"only":"an attribute"}'
    assert letters[raw["messageId"]]["size"] == 256
    assert letters[ordered]["orderingKey"] == "a key"
    assert letters[ordered]["publishTime"] == pulling.logged(ordered)[0]["publishTime"]


def opened(pulling: Pulling) -> Any:
    return lambda letter: pulling.get(f"/api/letters/{letter['id']}").json


def test_poison_is_left_to_a_dead_letter_policy(pull: Pull, broker: PullBroker) -> None:
    """Where Pub/Sub counts attempts it is given back each time, until Pub/Sub takes it to the dead-letter topic."""
    topic, dead = broker.topic("poisoned"), broker.topic("poisoned-dead")
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": ATTEMPTS}
    subscription = broker.subscription("poisoned-pull", topic, dead_letter_policy=policy)
    grave = broker.subscription("poisoned-grave", dead)
    pulling = pull("poisoned-pull")
    message_id = broker.publish(topic, {"no view": "wants this"})
    fine = broker.publish(topic, {"service": "api", "timestamp": T0})
    lines = eventually(lambda: len(found := pulling.logged(message_id)) == ATTEMPTS and found)
    assert [line["deliveryAttempt"] for line in lines] == list(range(1, ATTEMPTS + 1))
    for line in lines:
        expected = {"ack_action": "nack", "outcome": "poison", "write_kind": "none", "severity": "ERROR"}
        assert {**line, **expected, "http_status": None, "retryable": False} == line
    (buried,) = broker.look(grave)
    assert buried.message.attributes["CloudPubSubDeadLetterSourceSubscription"] == "poisoned-pull"
    (line,) = eventually(lambda: pulling.logged(fine))
    assert (line["ack_action"], line["deliveryAttempt"]) == ("ack", 1)
    assert pulling.letters() == []
    assert pulling.terminate() == 0
    assert broker.unacknowledged(subscription) == set()


def test_a_failure_is_given_back_until_it_succeeds(pull: Pull, broker: PullBroker, mended: Path) -> None:
    """Logged each time while a view fails, and acknowledged once it is mended; others are not held up."""
    topic = broker.topic("shaky")
    subscription = broker.subscription("shaky-pull", topic)
    pulling = pull("shaky-pull", VIEWS="parcels")
    message_id = broker.publish(topic, parcel(T1, fragile=True))
    eventually(lambda: len(pulling.logged(message_id)) >= 3)
    assert settled(pulling, broker, topic, parcel(T0, parcel="p2"))["ack_action"] == "ack"
    mended.touch()
    *failed, last = eventually(lambda: (found := pulling.logged(message_id))[-1]["ack_action"] == "ack" and found)
    for line in failed:
        expected = {"ack_action": "nack", "outcome": "retry", "reason": "view_error", "severity": "ERROR"}
        assert {**line, **expected, "http_status": None, "retryable": True} == line
    assert (last["outcome"], last["severity"]) == ("applied", "INFO")
    assert pulling.terminate() == 0
    assert broker.unacknowledged(subscription) == set()


def test_a_lease_lasts_as_long_as_it_takes(pull: Pull, broker: PullBroker) -> None:
    """Under way for longer than the acknowledgement deadline, a message is not handed out again."""
    topic = broker.topic("long")
    subscription = broker.subscription("long-pull", topic, ack_deadline_seconds=DEADLINE_S)
    pulling = pull("long-pull", FIRESTORE_RETRY_MAX_TOTAL_S="60", FIRESTORE_RETRY_MAX_ATTEMPTS="100")
    with store_held(pulling.store):
        message_id = broker.publish(topic, {"service": "slow", "timestamp": T0})
        time.sleep(DEADLINE_S + 2)
    (line,) = eventually(lambda: pulling.logged(message_id))
    assert (line["outcome"], line["ack_action"]) == ("applied", "ack")
    assert line["latency_ms"] > DEADLINE_S * 1_000
    assert pulling.terminate() == 0
    assert len(pulling.logged(message_id)) == 1
    assert broker.unacknowledged(subscription) == set()


def test_exactly_once_acknowledgements_are_answered(pull: Pull, broker: PullBroker) -> None:
    """One that comes too late is refused by the broker: a warning, and the message comes again as a duplicate."""
    topic = broker.topic("once")
    subscription = broker.subscription("once-pull", topic, enable_exactly_once_delivery=True)
    pulling = pull("once-pull")
    broker.publish_all(topic, [{"service": f"s{n}", "timestamp": T0} for n in range(50)])
    assert {line["ack_action"] for line in pulling.wait_for_lines(50)} == {"ack"}
    assert pulling.notes("WARNING", "ERROR", "CRITICAL") == []
    with store_held(pulling.store):
        late = broker.publish(topic, {"service": "late", "timestamp": T0})
        eventually(lambda: broker.is_under_way(subscription))
        broker.end_leases(subscription)
    lines = eventually(lambda: len(found := pulling.logged(late)) == 2 and found)
    assert [line["outcome"] for line in lines] == ["applied", "duplicate"]
    (note,) = eventually(lambda: pulling.notes("WARNING"))
    assert (note["messageId"], note["error_code"], note["subscription"]) == (late, "INVALID_ACK_ID", subscription)
    assert pulling.terminate() == 0
    assert broker.unacknowledged(subscription) == set()
