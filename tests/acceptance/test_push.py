"""`POST /pubsub/push`: what is answered, and which topic a message has."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Iterator
from typing import Any

from tests.acceptance.answers import (
    BARS,
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
from tests.common.push import PUBLISHED, push_bytes, push_request
from tests.common.server import Answer, Server, Start, read_answer
from tests.common.sqlite_files import store_held

# --- answers -----------------------------------------------------------------------------------------------------


def test_every_outcome_of_a_message(server: Server) -> None:
    """Applied, redelivered, republished and stale; `tests/views/test_common.py` has every view."""
    doc = "ops_services/dev__outcomes"

    def sent(time: str, message_id: str, published: str) -> str:
        payload = {"service": "outcomes", "timestamp": time}
        answer = server.send(payload, message_id=message_id, published=published)
        outcome, reason = answer.json["outcome"], answer.json["reason"]
        assert answer.status == 200
        assert answer.json == {
            "outcome": outcome,
            "reason": reason,
            "messageId": message_id,
            "topic": "system.events",
            "views": [{"view": "ops_services", "doc": doc, "outcome": outcome, "reason": reason}],
        }
        return f"{outcome}: {reason}"

    assert sent(T1, "m1", T1) == "applied: applied"
    assert sent(T1, "m1", T1) == "duplicate: duplicate_message_noop"
    before = read(server, doc)
    assert sent(T1, "m1-again", T2) == "duplicate: duplicate_event_noop"
    after = read(server, doc)
    assert content(after) == content(before)
    assert (before["source"]["messageId"], after["source"]["messageId"]) == ("m1", "m1-again")
    assert after["source"]["publishedAt"] == T2
    assert sent(T0, "m0", T3) == "stale_ignored: stale_event_ignored"
    assert read(server, doc) == after


def test_poison_in_one_view_holds_up_no_other(server: Server) -> None:
    """A tick whose history id is too long is the latest tick, and leaves one letter about the history."""
    tick = {"symbol": "HALF", "price": 2, "ts": T1, "eventId": "x" * 2_000}
    answer = server.send(tick, message_id="half", topic="market-ticks", attempt=3)
    assert (answer.status, answer.json["outcome"], answer.json["reason"]) == (200, "poison", "id_too_long")
    assert {view["view"]: view["outcome"] for view in answer.json["views"]} == {
        "market_ticks_latest": "applied",
        "market_ticks": "poison",
    }
    assert "market_ticks_latest/HALF" in server.documents()
    (letter,) = [letter for letter in server.letters() if letter["messageId"] == "half"]
    assert [(one["view"], one["reason"]) for one in letter["refusals"]] == [("market_ticks", "id_too_long")]


def test_unroutable_payload(server: Server) -> None:
    """A message no view feeds on is poison with its reason, and names what to do."""
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


# --- topic -------------------------------------------------------------------------------------------------------

# Good for every view, so that the topic alone decides.
ANYTHING = {"symbol": "ANY", "ts": T0, "signalId": "any", "service": "any", "pipeline_id": "any"}


def test_topic_resolution(start: Start) -> None:
    """ROUTES, the map, an event type or the shape names the topic; `tests/core/test_topics.py` has every rule."""
    server = start(
        ROUTES='{"routed":{"kind":"market-ticks"}}',
        SUBSCRIPTION_TOPIC_MAP='{"projects/p/subscriptions/mapped":"market-bars-1m"}',
    )

    def found(payload: dict[str, Any], subscription: str = "plain") -> tuple[str, str]:
        answer = server.send(payload, message_id=fresh(), subscription=subscription)
        assert answer.status == 200, answer
        return answer.json["topic"], answer.json["views"][0]["view"]

    assert found(ANYTHING, "projects/other/subscriptions/routed") == TICKS
    assert found(ANYTHING, "projects/p/subscriptions/mapped") == BARS
    assert found({"event_type": "trade.signal", "payload": ANYTHING}) == SIGNALS
    assert found({**ANYTHING, "timestamp": T0}) == SYSTEM


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
                connection.sendall(push_request(body))
            began = time.monotonic()
            time.sleep(0.4)
            at_once, (), () = select.select(opened, (), (), 0)
            in_line = [connection for connection in opened if connection not in at_once]
            select.select(in_line, (), (), 5)
            assert 0.8 < time.monotonic() - began < 3
            # Until all in the line were refused.
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
