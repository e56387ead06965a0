"""Documents an earlier consumer wrote are adopted as they are, and both may run side by side."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.cloud import firestore

from tests.common.server import Server
from tests.upgrade.earlier import apply_service, apply_stream, time_of

# The ids of the earlier consumer.
OLD_IDS = {"OPS_SERVICE_ID": "service", "BARS_ID": "event", "SIGNALS_ID": "event", "RECEIPTS": "message"}
STREAMS = pytest.mark.parametrize(
    ("topic", "collection"),
    [
        ("market-ticks", "market_ticks"),
        ("market-bars-1m", "market_bars_1m"),
        ("trade-signals", "trade_signals"),
    ],
)


def at(second: int) -> str:
    return f"2026-01-08T12:00:{second:02d}+00:00"


@pytest.fixture
def client(firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[firestore.Client]:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)
    client = firestore.Client(project=project)
    yield client
    client.close()  # type: ignore[no-untyped-call]


@pytest.fixture
def server(firestore_emulator: str, project: str, tmp_path: Path) -> Iterator[Server]:
    environment = {
        "STORE": "firestore",
        "FIRESTORE_EMULATOR_HOST": firestore_emulator,
        "GCP_PROJECT": project,
        "ENV": "prod",
        "SYSTEM_EVENTS_TOPIC": "system.events",
        "DEFAULT_REGION": "eu",
        **OLD_IDS,
    }
    with contextlib.ExitStack() as running:
        yield running.enter_context(Server(tmp_path, environment))


def heartbeat(second: int, status: str) -> dict[str, Any]:
    return {"service": "api", "status": status, "timestamp": at(second)}


def test_a_service_is_adopted(client: firestore.Client, server: Server) -> None:
    """Older is stale, the same message is a duplicate, a tie is decided by publish time, newer is applied."""
    assert apply_service(client, "m5", at(5), heartbeat(5, "theirs")) == "applied"
    before = client.document("ops_services/api").get()

    def reason(message_id: str, published: int, second: int, status: str) -> str:
        answer = server.send(heartbeat(second, status), message_id=message_id, published=at(published))
        assert answer.status == 200
        text: str = answer.json["reason"]
        return text

    assert reason("m4", 9, 4, "older") == "stale_event_ignored"
    assert reason("m5", 5, 5, "theirs") == "duplicate_message_noop"
    assert reason("m3", 4, 5, "tie, published earlier") == "stale_event_ignored"
    after = client.document("ops_services/api").get()
    assert (after.to_dict(), after.update_time) == (before.to_dict(), before.update_time)
    assert reason("m6", 6, 5, "tie, published later") == "applied"
    assert reason("m7", 7, 7, "newer") == "applied"
    document = client.document("ops_services/api").get().to_dict() or {}
    assert document["status"] == "newer"
    # What the earlier consumer reads to protect itself is there, in its own types.
    assert document["updatedAt"] == document["lastHeartbeatAt"] == time_of(at(7))
    assert apply_service(client, "m8", at(8), heartbeat(6, "late")) == "stale_event_ignored"
    assert apply_service(client, "m7", at(7), heartbeat(7, "newer")) == "duplicate_message_noop"


@STREAMS
def test_a_stream_is_adopted(client: firestore.Client, server: Server, topic: str, collection: str) -> None:
    """The same document, under the same id: older changes nothing, newer replaces what it names."""
    payload = {"eventId": "e1", "symbol": "SPY", "ts": at(5), "producedAt": at(5), "price": 5}
    apply_stream(client, collection, "m5", at(5), payload)
    older = {**payload, "producedAt": at(4), "price": 4}
    newer = {**payload, "producedAt": at(6), "price": 6}
    assert server.send(older, message_id="m4", published=at(4), topic=topic).status == 200
    assert document_of(client, collection)["data"]["price"] == 5
    assert server.send(newer, message_id="m6", published=at(6), topic=topic).json["outcome"] == "applied"
    document = document_of(client, collection)
    assert document["data"]["price"] == 6
    assert document["eventTime"] == time_of(at(6))


@STREAMS
def test_a_stream_is_adopted_by_its_event_time_alone(
    client: firestore.Client, server: Server, topic: str, collection: str
) -> None:
    """What was published long after it happened is no reason to ignore what happened next."""
    payload = {"eventId": "e1", "symbol": "SPY", "producedAt": at(5), "n": 5}
    apply_stream(client, collection, "m5", at(50), payload)
    outcomes = []
    for second, published in ((4, 58), (7, 51), (6, 59)):
        sent = {**payload, "producedAt": at(second), "n": second}
        answer = server.send(sent, message_id=f"m{second}", published=at(published), topic=topic)
        outcomes.append(answer.json["views"][-1]["outcome"])
        assert document_of(client, collection)["eventTime"] == time_of(at(max(5, second if second < 6 else 7)))
    # A signal is merged: the older one is the first to say `updatedAt`, which the earlier consumer never wrote.
    assert outcomes == ["applied" if topic == "trade-signals" else "stale_ignored", "applied", "stale_ignored"]
    assert document_of(client, collection)["data"]["n"] == 7


def document_of(client: firestore.Client, collection: str) -> dict[str, Any]:
    return client.collection(collection).document("e1").get().to_dict() or {}


def test_both_side_by_side_end_at_the_newest(client: firestore.Client, server: Server) -> None:
    """Messages go to one or the other, or to both, in any order: no stale write, and nothing counted twice."""
    lots = random.Random(7)
    seconds = list(range(40))
    lots.shuffle(seconds)
    for second in seconds:
        payload, message_id = heartbeat(second, f"s{second}"), f"m{second}"
        who = lots.choice(["theirs", "ours", "both"])
        if who != "ours":
            apply_service(client, message_id, at(second), payload)
        if who != "theirs":
            assert server.send(payload, message_id=message_id, published=at(second)).status == 200
    document = client.document("ops_services/api").get().to_dict() or {}
    assert document["status"] == "s39"
    assert document["updatedAt"] == time_of(at(39))
