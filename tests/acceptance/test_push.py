"""`POST /pubsub/push`: what is answered, and which topic a message has."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from tests.acceptance.answers import (
    BARS,
    HEARTBEAT,
    SIGNALS,
    SYSTEM,
    T0,
    T1,
    T2,
    T3,
    TICKS,
    applied,
    by_view,
    content,
    fresh,
    read,
)
from tests.common.push import PUBLISHED, push_bytes
from tests.common.server import Answer, Server, Start, read_answer
from tests.common.sqlite_files import store_held

# --- answers -----------------------------------------------------------------------------------------------------


class Stream(NamedTuple):
    """A topic, a payload for it, and what that must lead to."""

    topic: str
    payload: dict[str, Any]
    docs: tuple[str, ...]
    # The field of its order time, and the payload's other name for a sequence.
    time: str


STREAMS = [
    Stream("system.events", {"service": "api", "status": "ok"}, ("ops_services/dev__api",), "timestamp"),
    Stream("ingest-heartbeat", {"pipeline_id": "bars"}, ("ingest_pipelines/bars",), "ts"),
    Stream("market-bars-1m", {"symbol": "spy", "ts": T0}, (f"market_bars_1m/SPY__{T0}",), "producedAt"),
    Stream("trade-signals", {"signalId": "s-1", "state": "new"}, ("trade_signals/s-1",), "producedAt"),
    Stream("market-ticks", {"symbol": "spy", "price": 1, "eventId": "e"}, ("market_ticks_latest/SPY",), "ts"),
]


@pytest.mark.parametrize("stream", STREAMS, ids=[stream.topic for stream in STREAMS])
def test_every_outcome_of_every_view(start: Start, stream: Stream) -> None:
    """Applied, redelivered, republished, stale and stale again: each has the specification's word for it."""
    server = start(TICK_HISTORY="off")

    def sent(time: str, message_id: str, published: str, **more: Any) -> tuple[str, str]:
        payload = {**stream.payload, stream.time: time, **more}
        answer = server.send(payload, message_id=message_id, published=published, topic=stream.topic)
        outcome, reason = answer.json["outcome"], answer.json["reason"]
        assert answer.status == 200
        assert answer.json == {
            "outcome": outcome,
            "reason": reason,
            "messageId": message_id,
            "topic": stream.topic,
            "views": [
                {"view": doc.partition("/")[0], "doc": doc, "outcome": outcome, "reason": reason}
                for doc in stream.docs
            ],
        }
        return outcome, reason

    assert sent(T1, "m1", T1) == ("applied", "applied")
    assert sent(T1, "m1", T1) == ("duplicate", "duplicate_message_noop")
    before = read(server, stream.docs[0])
    assert sent(T1, "m1-again", T2) == ("duplicate", "duplicate_event_noop")
    after = read(server, stream.docs[0])
    assert content(after) == content(before)
    assert (before["source"]["messageId"], after["source"]["messageId"]) == ("m1", "m1-again")
    assert after["source"]["publishedAt"] == T2
    assert sent(T0, "m0", T3) == ("stale_ignored", "stale_event_ignored")
    again = sent(T0, "m0", T3)
    if stream.topic == "market-ticks":
        # Receipts are off there, so nobody remembers having had it.
        assert again == ("stale_ignored", "stale_event_ignored")
    else:
        assert again == ("duplicate", "duplicate_message_noop")
    assert read(server, stream.docs[0]) == after
    assert sent(T2, "m2", T2, status="changed", state="changed", price=2) == ("applied", "applied")


def test_a_tick_feeds_two_views_with_an_outcome_each(server: Server) -> None:
    """The message's outcome is the first by rank: applied in one view counts, whatever happened in the other."""
    first = server.send({"symbol": "TWO", "ts": T2}, message_id="two-1", topic="market-ticks")
    assert applied(first) == ["market_ticks_latest/TWO", "market_ticks/two-1"]
    older = server.send({"symbol": "TWO", "ts": T1}, message_id="two-2", topic="market-ticks")
    assert (older.json["outcome"], older.json["reason"]) == ("applied", "applied")
    assert by_view(older) == {
        "market_ticks_latest": ("stale_ignored", "stale_event_ignored"),
        "market_ticks": ("applied", "applied"),
    }
    again = server.send({"symbol": "TWO", "ts": T1}, message_id="two-2", topic="market-ticks")
    assert (again.json["outcome"], again.json["reason"]) == ("duplicate", "duplicate_message_noop")
    assert by_view(again) == {
        "market_ticks_latest": ("stale_ignored", "stale_event_ignored"),
        "market_ticks": ("duplicate", "duplicate_message_noop"),
    }


def test_poison_in_one_view_means_applied_in_none(server: Server) -> None:
    """A tick whose history id is too long does not reach the latest tick either, and leaves one letter."""
    kept = server.send({"symbol": "NONE", "price": 1, "ts": T0}, message_id=fresh(), topic="market-ticks")
    assert kept.json["outcome"] == "applied"
    before = server.documents()
    answer = server.send(
        {"symbol": "NONE", "price": 2, "ts": T1, "eventId": "x" * 2_000}, message_id="none", topic="market-ticks"
    )
    assert (answer.status, answer.json["outcome"], answer.json["reason"]) == (200, "poison", "id_too_long")
    assert answer.json["views"] == []
    assert server.documents() == before
    assert [letter["reason"] for letter in server.letters() if letter["messageId"] == "none"] == ["id_too_long"]


def test_unroutable_payload(server: Server) -> None:
    """A message no view feeds on is poison with the specification's word, and names what to do."""
    answer = server.send({"hello": "world"}, message_id="lost", attempt=1)
    assert (answer.status, answer.json["reason"]) == (400, "unroutable_payload")
    assert set(answer.json) == {"outcome", "reason", "messageId", "topic", "views", "error"}
    assert "SUBSCRIPTION_TOPIC_MAP" in answer.json["error"]


def test_unwrapped_and_wrapped_are_one_message(server: Server) -> None:
    """An unwrapped push gives the same document and is recognised as the same message."""
    payload = {"symbol": "RAW", "price": 1.5, "ts": T0}
    unwrapped = server.push(
        json.dumps(payload).encode(),
        {
            "content-type": "application/octet-stream",
            "x-goog-pubsub-subscription-name": "projects/local/subscriptions/acceptance",
            "x-goog-pubsub-message-id": "raw-1",
            "x-goog-pubsub-publish-time": PUBLISHED,
            "topic": "market-ticks",
        },
    )
    assert applied(unwrapped) == ["market_ticks_latest/RAW", "market_ticks/raw-1"]
    wrapped = server.send(payload, message_id="raw-1", topic="market-ticks")
    assert by_view(wrapped) == dict.fromkeys(
        ("market_ticks_latest", "market_ticks"), ("duplicate", "duplicate_message_noop")
    )


def test_attributes_of_an_unwrapped_push(server: Server) -> None:
    """Headers are attributes, but for those HTTP and the way here add."""
    answer = server.http.post(
        "/pubsub/push",
        content=b"not JSON",
        headers=[
            (b"x-goog-pubsub-message-id", b"raw-attributes"),
            (b"x-goog-pubsub-publish-time", PUBLISHED.encode()),
            (b"x-goog-pubsub-ordering-key", b"k"),
            (b"colour", "grün".encode()),
            (b"authorization", b"Bearer s3cr3t-token"),
            (b"x-forwarded-for", b"10.0.0.1"),
            (b"traceparent", b"00-1"),
        ],
    )
    assert answer.status_code == 200
    (letter,) = (letter for letter in server.letters() if letter["messageId"] == "raw-attributes")
    assert json.loads(letter["attributes"]) == {"colour": "grün"}
    assert letter["orderingKey"] == "k"
    assert not any("s3cr3t-token" in line for line in server.output)


# --- topic -------------------------------------------------------------------------------------------------------

# Good for every view, so that the topic alone decides.
ANYTHING = {"symbol": "ANY", "ts": T0, "signalId": "any", "service": "any", "pipeline_id": "any"}


class Resolution(NamedTuple):
    """Which topic a message has, and whose views it feeds."""

    name: str
    expected: tuple[str, str]
    subscription: str = "plain"
    attribute: str | None = None
    payload: Mapping[str, Any] = {}
    event_type: str | None = None


RESOLUTIONS = [
    Resolution("ROUTES before everything", TICKS, "routed", SIGNALS[0], {"topic": BARS[0]}),
    Resolution("ROUTES by the full path", SIGNALS, "projects/p/subscriptions/by-path", BARS[0]),
    Resolution("ROUTES by the short name of a path", TICKS, "projects/other/subscriptions/routed"),
    Resolution("ROUTES with a topic and no kind", SIGNALS, "topic-only"),
    Resolution("attribute before payload", SIGNALS, attribute=SIGNALS[0], payload={"topic": BARS[0]}),
    Resolution("attribute as a path", SIGNALS, attribute="projects/p/topics/trade-signals"),
    Resolution("attribute as an event type", SIGNALS, attribute="trade.signal"),
    Resolution(
        "attribute nobody knows falls through to the payload", BARS, attribute="weather", payload={"topic": BARS[0]}
    ),
    Resolution("payload topic before pubsubTopic", BARS, payload={"topic": BARS[0], "pubsubTopic": SIGNALS[0]}),
    Resolution("pubsubTopic before sourceTopic", BARS, payload={"pubsubTopic": BARS[0], "sourceTopic": SIGNALS[0]}),
    Resolution("sourceTopic before SUBSCRIPTION_TOPIC_MAP", SIGNALS, "mapped", payload={"sourceTopic": SIGNALS[0]}),
    Resolution(
        "payload topic that is no text falls through", BARS, "mapped", payload={"topic": 5, "pubsubTopic": []}
    ),
    Resolution("SUBSCRIPTION_TOPIC_MAP before SOURCE_TOPIC", BARS, "mapped"),
    Resolution("SUBSCRIPTION_TOPIC_MAP by the short name of a path", BARS, "projects/p/subscriptions/mapped"),
    Resolution("SUBSCRIPTION_TOPIC_MAP by the full path", TICKS, "projects/p/subscriptions/map-path"),
    Resolution("SUBSCRIPTION_TOPIC_MAP to a topic nobody knows falls through", HEARTBEAT, "mapped-unknown"),
    Resolution("SOURCE_TOPIC before event_type", HEARTBEAT, event_type="market.tick"),
]


@pytest.fixture(scope="module")
def routed(start: Start) -> Server:
    """A server that has something to say about a message's topic at every step."""
    return start(
        ROUTES=json.dumps(
            {
                "routed": {"kind": "market-ticks", "topic": "projects/p/topics/ticks-eu"},
                "projects/p/subscriptions/by-path": {"kind": "trade-signals"},
                "topic-only": {"topic": "trade-signals"},
            }
        ),
        SUBSCRIPTION_TOPIC_MAP=json.dumps(
            {
                "mapped": "market-bars-1m",
                "projects/p/subscriptions/map-path": "market-ticks",
                "mapped-unknown": "weather",
            }
        ),
        SOURCE_TOPIC="ingest-heartbeat",
    )


@pytest.mark.parametrize("row", RESOLUTIONS, ids=[row.name for row in RESOLUTIONS])
def test_topic_resolution(routed: Server, row: Resolution) -> None:
    """Each source of a topic's name yields to the ones before it, and a name nobody knows to the next."""
    payload: dict[str, Any] = {**ANYTHING, **row.payload}
    if row.event_type is not None:
        payload = {"event_type": row.event_type, "payload": payload}
    answer = routed.send(payload, message_id=fresh(), topic=row.attribute, subscription=row.subscription)
    assert answer.status == 200, answer
    assert (answer.json["topic"], answer.json["views"][0]["view"]) == row.expected
    assert answer.json["views"][0]["doc"].startswith(row.expected[1] + "/")


@pytest.mark.parametrize(
    ("event_type", "expected"),
    [
        ("market.tick", TICKS),
        ("market.ticks", TICKS),
        ("market.bars.1m", BARS),
        ("trade.signal", SIGNALS),
        ("trade.signals", SIGNALS),
        ("ingest.heartbeat", HEARTBEAT),
        ("market-ticks", TICKS),
    ],
)
@pytest.mark.parametrize("name", ["event_type", "eventType"])
def test_event_type_names_a_topic(server: Server, name: str, event_type: str, expected: tuple[str, str]) -> None:
    """Without any topic, the envelope's event type decides, under either spelling, before the shape."""
    payload = {name: event_type, "payload": {**ANYTHING, "timestamp": T0}}
    answer = server.send(payload, message_id=fresh())
    assert (answer.json["topic"], answer.json["views"][0]["view"]) == expected


def test_shape_comes_last(server: Server) -> None:
    """A service and a timestamp make a system event when nothing else names a topic."""
    answer = server.send({"service": "shape", "timestamp": T0}, message_id=fresh(), topic="weather")
    assert (answer.json["topic"], answer.json["views"][0]["view"]) == SYSTEM
    for payload in (
        {"service": "shape"},
        {"service": "", "timestamp": T0},
        {"service": "shape", "timestamp": None},
    ):
        assert server.send(payload, message_id=fresh()).json["reason"] == "unroutable_payload"


def test_a_payload_that_only_looks_like_an_envelope(server: Server) -> None:
    """An envelope has an object for payload and text for event_type; anything else is the payload itself."""
    bare = {"symbol": "BARE", "ts": T0, "payload": "text", "event_type": "market.tick"}
    assert applied(server.send(bare, message_id="bare-1")) == ["market_ticks_latest/BARE", "market_ticks/bare-1"]
    assert read(server, "market_ticks/bare-1")["data"] == bare
    other = {"symbol": "BARE2", "ts": T0, "payload": {"symbol": "NO"}}
    assert applied(server.send(other, message_id="bare-2", topic="market-ticks"))[0] == "market_ticks_latest/BARE2"


# --- backpressure ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connections(server: Server, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(server.connect()) for _ in range(count)]


def test_backpressure(start: Start) -> None:
    """A queue that stays full is answered 429 after a second, logged at ERROR; what was refused is not stored.

    Of these, one is being committed, one waits in the queue, 16 in line, and the line has no place for 6.
    """
    server = start(CONSUMER_QUEUE_SIZE="1")
    server.put_up_fence()
    answers: dict[str, Answer] = {}
    with connections(server, 24) as opened:
        with store_held(server.store):
            for number, connection in enumerate(opened):
                message_id = f"burst-{number}"
                body = push_bytes({"service": message_id, "timestamp": T0}, message_id=message_id)
                head = f"POST /pubsub/push HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)
            began = time.monotonic()
            time.sleep(0.4)
            at_once, (), () = select.select(opened, (), (), 0)
            in_line = [connection for connection in opened if connection not in at_once]
            select.select(in_line, (), (), 5)
            assert 0.8 < time.monotonic() - began < 3
            # Until everyone in the line was refused.
            time.sleep(0.5)
            after_a_second, (), () = select.select(in_line, (), (), 0)
        for number, connection in enumerate(opened):
            answers[f"burst-{number}"] = read_answer(connection)
        assert (len(at_once), len(after_a_second)) == (6, 16)
    refused = {message_id: answer for message_id, answer in answers.items() if answer.status == 429}
    assert len(refused) == 22
    assert {answer.status for answer in answers.values()} == {200, 429}
    lines = {line["messageId"]: line for line in map(json.loads, server.fence())}
    for message_id, answer in refused.items():
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json["outcome"] == "retry"
        assert answer.json["reason"] == "backpressure_queue_full"
        assert answer.json["messageId"] == message_id
        assert set(answer.json) == {"outcome", "reason", "messageId", "topic", "views", "error"}
        line = lines[message_id]
        assert (line["severity"], line["http_status"], line["retryable"]) == ("ERROR", 429, True)
        assert server.document(f"ops_services/dev__{message_id}") is None
        assert (
            server.send({"service": message_id, "timestamp": T0}, message_id=message_id).json["reason"] == "applied"
        )
    for message_id in answers.keys() - refused.keys():
        assert server.document(f"ops_services/dev__{message_id}") is not None
