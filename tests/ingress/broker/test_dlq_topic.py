"""`DLQ_TOPIC`: letters are published before anything is acknowledged, and come back as what they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.common.push import push_body
from tests.common.server import Server, Start
from tests.common.waiting import eventually
from tests.ingress.broker.support import Broker
from tests.ingress.broker.test_push_from_the_broker import lines_of, replay

T0 = "2026-01-08T12:00:00Z"
POISON = {"service": "api", "timestamp": "2026-01-08"}


@pytest.mark.parametrize("topic_name", ["letters", "projects/{project}/topics/letters", "{subscription}.dlq"])
def test_poison_is_published_whole_and_then_acknowledged(start: Start, broker: Broker, topic_name: str) -> None:
    """The topic by id, by path, or named after the subscription; with everything a letter must keep."""
    dead = broker.topic("acceptance.dlq" if "{sub" in topic_name else "letters")
    subscription = broker.subscription("watch", dead)
    server = start(DLQ_TOPIC=topic_name.replace("{project}", broker.project), POISON_POLICY="park")
    body = push_body(POISON, message_id="p1", attributes={"tenant": "t1"}, attempt=3)
    body["message"]["orderingKey"] = "k1"
    answer = server.push(body)
    assert (answer.status, answer.json["outcome"]) == (200, "poison")
    (letter,) = broker.look(subscription)
    assert json.loads(letter.message.data) == POISON
    attributes = dict(letter.message.attributes)
    assert "timestamp must be" in attributes.pop("millpond_error")
    assert attributes == {
        "tenant": "t1",
        "millpond_messageId": "p1",
        "millpond_publishTime": T0,
        "millpond_subscription": "projects/local/subscriptions/acceptance",
        "millpond_topic": "system.events",
        "millpond_reason": "invalid_event",
        "millpond_classification": "permanent",
        "millpond_errorType": "InvalidEvent",
        "millpond_views": "ops_services",
        "millpond_orderingKey": "k1",
        "millpond_deliveryAttempt": "3",
    }
    assert server.letters() == []
    (line,) = eventually(lambda: lines_of(server, "p1"))
    assert (line["severity"], line["write_kind"]) == ("ERROR", "letter")
    assert server.get("/api/stats").json["topics"]["system.events"] == {"poison": 1}


def test_what_cannot_be_published_is_not_acknowledged(start: Start, broker: Broker) -> None:
    """No such topic: 503, and both errors are in the line, so that its reader knows both."""
    server = start(DLQ_TOPIC="nowhere", DLQ_PUBLISH_DEADLINE_S="2")
    answer = server.push(push_body(POISON, message_id="p1"))
    assert (answer.status, answer.json["outcome"], answer.json["reason"]) == (503, "retry", "letter_not_stored")
    (line,) = eventually(lambda: lines_of(server, "p1"))
    assert line["severity"] == "ERROR"
    assert "topics/nowhere failed: NOT_FOUND" in line["error"]
    assert "InvalidEvent: timestamp must be" in line["error"]
    broker.topic("nowhere")
    assert server.push(push_body(POISON, message_id="p1")).status == 200


def test_what_no_message_could_carry_is_buried_in_the_store(start: Start, broker: Broker) -> None:
    """A hundred attributes leave no room for ours, and a name for the topic may be missing."""
    broker.topic("letters")
    server = start(DLQ_TOPIC="letters")
    many = {f"a{number}": "x" for number in range(100)}
    assert server.push(push_body(POISON, message_id="p1", attributes=many)).status == 200
    assert [letter["messageId"] for letter in server.letters()] == ["p1"]


def test_letters_come_back_as_what_they_were(start: Start, broker: Broker, tmp_path: Path) -> None:
    """Also into a store that no server holds; what fails again stays in the subscription, and is not published."""
    dead = broker.topic("letters")
    subscription = broker.subscription("triage", dead)
    server = start(DLQ_TOPIC="letters")
    for message_id, payload in (("p1", {"kind": "parcel", "n": 1}), ("p2", POISON)):
        assert server.push(push_body(payload, message_id=message_id)).status == 200
    assert len(broker.look(subscription, 2)) == 2
    environment = {"DLQ_TOPIC": "letters", "SOURCE_TOPIC": "trade-signals", "SIGNALS_ID": "event"}
    assert replay(broker, tmp_path, server, subscription) == (1, {"poison": 2})
    assert server.terminate() == 0
    assert replay(broker, tmp_path, server, subscription, **environment) == (1, {"applied": 1, "poison": 1})
    server = start()
    document = signal_of(server, "p1")
    assert document["source"]["publishedAt"] == T0
    (left,) = broker.look(subscription)
    assert left.message.attributes["millpond_messageId"] == "p2"


def signal_of(server: Server, message_id: str) -> dict[str, dict[str, str]]:
    document = server.document(f"trade_signals/{message_id}")
    assert document is not None
    assert document["source"]["messageId"] == message_id
    return document
