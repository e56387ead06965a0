"""Google's broker pushes to a running Millpond: wrapped and unwrapped, again after a refusal, and to a dead end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.common.process import millpond
from tests.common.server import Server, Start
from tests.common.waiting import eventually
from tests.ingress.broker.support import ATTEMPTS, Broker

T0, T1, T2 = "2026-01-08T12:00:00Z", "2026-01-08T12:00:01Z", "2026-01-08T12:00:02Z"
# Fails until the file is there, as a view fails until a mended one is deployed.
SHAKY = """
from pathlib import Path
from millpond import Latest

class Shaky(Latest):
    topics = ("shaky",)
    collection = "shaky"
    key = "id"
    time = "ts"

    def document(self, event):
        Path({mended!r}).read_text()
        return {{"id": event.require("id"), "status": event.get("status")}}
"""


def lines_of(server: Server, message_id: str) -> list[dict[str, Any]]:
    return [line for line in server.log_lines if line.get("messageId") == message_id]


@pytest.fixture
def mended(tmp_path: Path) -> Path:
    """Make it, and the shaky view works."""
    mended = tmp_path / "mended"
    (tmp_path / "shaky_view.py").write_text(SHAKY.format(mended=str(mended)))
    return mended


def shaky(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"VIEWS": "shaky_view", "PYTHONPATH": str(tmp_path), **more}


@pytest.mark.parametrize("unwrapped", [False, True], ids=["wrapped", "unwrapped"])
def test_a_published_message_becomes_a_document(start: Start, broker: Broker, *, unwrapped: bool) -> None:
    """In both forms of push, with the broker's own message id, publish time and subscription."""
    server = start()
    topic = broker.topic("events")
    subscription = broker.pushing("to-millpond", topic, server.url, unwrapped=unwrapped)
    message_id = broker.publish(topic, {"service": "api", "status": "ok", "timestamp": T0}, extra="kept")
    document = eventually(lambda: server.document("ops_services/dev__api"))
    assert document["status"] == "ok"
    assert document["source"]["messageId"] == message_id
    (line,) = eventually(lambda: lines_of(server, message_id))
    assert line["subscription"] == subscription
    assert (line["outcome"], line["http_status"]) == ("applied", 200)


def test_the_attribute_names_the_topic(start: Start, broker: Broker) -> None:
    """Pub/Sub's push body has no topic; an attribute does as well unwrapped, where it is a header."""
    server = start()
    topic = broker.topic("anything")
    broker.pushing("wrapped", topic, server.url)
    broker.pushing("unwrapped", topic, server.url, unwrapped=True)
    broker.publish(topic, {"signalId": "s1", "action": "BUY", "updatedAt": T0}, topic="trade-signals")
    assert eventually(lambda: server.document("trade_signals/s1"))["action"] == "BUY"


def test_a_failure_is_pushed_again_until_it_succeeds(
    start: Start, broker: Broker, tmp_path: Path, mended: Path
) -> None:
    """503 while a view fails; the broker comes back, and the message is applied once it is mended."""
    server = start(**shaky(tmp_path))
    topic = broker.topic("events")
    broker.pushing("to-millpond", topic, server.url)
    message_id = broker.publish(topic, {"id": "x", "status": "fine", "ts": T0}, topic="shaky")
    eventually(lambda: len(lines_of(server, message_id)) >= 3)
    mended.write_text("")
    assert eventually(lambda: server.document("shaky/x"))["status"] == "fine"
    eventually(lambda: lines_of(server, message_id)[-1]["outcome"] == "applied")
    *refused, applied = lines_of(server, message_id)
    assert {line["http_status"] for line in refused} == {503}
    assert applied["http_status"] == 200


def test_what_was_turned_away_comes_again(start: Start, broker: Broker) -> None:
    """429 while there is no room, and nothing of a burst is lost."""
    server = start(CONSUMER_QUEUE_SIZE="1")
    topic = broker.topic("events")
    subscription = broker.pushing("to-millpond", topic, server.url)
    broker.stop_pushing(subscription)
    burst = 300
    for number in range(burst):
        broker.publish(topic, {"service": f"s{number}", "status": "ok", "timestamp": T0})
    broker.subscriber.modify_push_config(
        request={"subscription": subscription, "push_config": {"push_endpoint": f"{server.url}/pubsub/push"}}
    )
    eventually(lambda: len(server.documents(("ops_services",))) == burst)
    statuses = {line.get("http_status") for line in server.log_lines}
    assert statuses - {None} <= {200, 429}
    stats = server.get("/api/stats").json
    assert stats["topics"]["system.events"]["applied"] == burst


def test_a_dead_end_and_the_way_back(start: Start, broker: Broker, tmp_path: Path, mended: Path) -> None:
    """After the configured attempts the broker puts it on the dead-letter topic; a replay brings it home once."""
    server = start(**shaky(tmp_path))
    topic, dead = broker.topic("events"), broker.topic("events.dlq")
    dead_subscription = broker.subscription("events.dlq", dead, retain_acked_messages=True)
    subscription = broker.pushing("to-millpond", topic, server.url, dead=dead)
    message_id = broker.publish(topic, {"id": "x", "status": "first", "ts": T0}, topic="shaky")
    (letter,) = broker.look(dead_subscription)
    assert letter.message.message_id != message_id
    assert letter.message.attributes["CloudPubSubDeadLetterSourceSubscription"] == "to-millpond"
    assert len(lines_of(server, message_id)) == ATTEMPTS
    # It fails again, and stays where it is.
    assert replay(broker, tmp_path, server, dead_subscription) == (1, {"retry": 1})
    assert len(broker.look(dead_subscription)) == 1
    mended.write_text("")
    server.send({"id": "y", "status": "other", "ts": T0}, message_id="other", topic="shaky")
    assert replay(broker, tmp_path, server, dead_subscription) == (0, {"applied": 1})
    document = server.document("shaky/x")
    assert document is not None
    assert document["status"] == "first"
    assert document["source"]["publishedAt"] == published_at(server, message_id)
    (line,) = eventually(
        lambda: [line for line in lines_of(server, letter.message.message_id) if line["outcome"] == "applied"]
    )
    assert line["subscription"] == subscription
    assert line["ack_action"] == "replay"


def test_a_replay_twice_or_after_newer_events_changes_nothing(start: Start, broker: Broker, tmp_path: Path) -> None:
    """The original publish time decides: what is newer stays, and what was there before is a duplicate."""
    server = start()
    dead = broker.topic("dead")
    dead_subscription = broker.subscription("dead", dead)
    native = {
        "CloudPubSubDeadLetterSourceSubscription": "to-millpond",
        "CloudPubSubDeadLetterSourceSubscriptionProject": broker.project,
        "CloudPubSubDeadLetterSourceTopicPublishTime": T1,
        "CloudPubSubDeadLetterSourceDeliveryCount": "5",
    }
    old = {"service": "api", "status": "old", "timestamp": T0}
    server.send(old, message_id="1", published=T1)
    before = server.documents()
    broker.publish(dead, old, **native)
    assert replay(broker, tmp_path, server, dead_subscription) == (0, {"duplicate": 1})
    server.send({"service": "api", "status": "new", "timestamp": T2}, message_id="2", published=T2)
    newer = server.document("ops_services/dev__api")
    broker.publish(dead, old, **native)
    broker.publish(dead, {**old, "status": "unseen"}, **native)
    assert replay(broker, tmp_path, server, dead_subscription) == (0, {"duplicate": 1, "stale_ignored": 1})
    assert server.document("ops_services/dev__api") == newer
    assert before.keys() == server.documents().keys()
    assert broker.is_empty(dead_subscription)


def published_at(server: Server, message_id: str) -> str:
    text: str = lines_of(server, message_id)[0]["publishTime"]
    return text


def replay(
    broker: Broker, tmp_path: Path, server: Server, subscription: str, **environment: str
) -> tuple[int, dict[str, int]]:
    """`millpond dlq replay --subscription`: its exit code and its summary."""
    cloud = {"PUBSUB_EMULATOR_HOST": broker.emulator, "GCP_PROJECT": broker.project}
    env = {"STORE": f"sqlite:{server.store}", **cloud, **environment}
    done = millpond(tmp_path, "dlq", "replay", "--subscription", subscription, "--json", env=env)
    return done.code, done.json["summary"]
