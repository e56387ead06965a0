"""In which order copies and updates count, and what the ledger keeps of them."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
from typing import Any

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
    by_view,
    fresh,
    read,
)
from tests.common.push import PUBLISHED
from tests.common.server import Server, Start

# --- receipts ----------------------------------------------------------------------------------------------------


def receipt_of(server: Server, message_id: str) -> str:
    """The receipt's path, as the message's log line gives it."""
    server.fence()
    found = [line["idempotency_doc"] for line in server.log_lines if line.get("messageId") == message_id]
    assert found, message_id
    return str(found[-1])


def test_receipts_content_and_id(server: Server) -> None:
    """One receipt per logical event, under environment, topic and key, with both stamps and an end."""
    payload = {"service": "receipt", "timestamp": T1}
    server.send(payload, message_id="r1", published=T1)
    path = receipt_of(server, "r1")
    assert re.fullmatch(r"ops_dedupe/dev__system\.events__[A-Z2-7]{52}", path)
    receipt = read(server, path)
    stamp = read(server, "ops_services/dev__receipt")["source"]["stamp"]
    assert receipt["messageId"] == "r1"
    assert receipt["topic"] == "system.events"
    assert (receipt["outcome"], receipt["reason"]) == ("applied", "applied")
    assert receipt["views"] == {
        "ops_services": {
            "document": "ops_services/dev__receipt",
            "outcome": "applied",
            "reason": "applied",
            "stamp": stamp,
            "winner": stamp,
        }
    }
    assert days_between(receipt["createdAt"], receipt["expireAt"]) == 7
    server.send(payload, message_id="r2", published=T2)
    assert receipt_of(server, "r2") == path
    assert read(server, path) == receipt
    server.send({"service": "receipt", "timestamp": T0}, message_id="r3", published=T3)
    stale = read(server, receipt_of(server, "r3"))
    verdict = stale["views"]["ops_services"]
    assert (stale["outcome"], verdict["reason"]) == ("stale_ignored", "stale_event_ignored")
    assert verdict["stamp"] < verdict["winner"] == read(server, "ops_services/dev__receipt")["source"]["stamp"]


def days_between(earlier: str, later: str) -> float:
    return (dt.datetime.fromisoformat(later) - dt.datetime.fromisoformat(earlier)).total_seconds() / 86_400


def test_what_makes_one_logical_event(server: Server) -> None:
    """An eventId with its time and sequence, else the payload; without any time, each message for itself."""

    def path(**payload: Any) -> str:
        message_id = fresh()
        server.send({"service": "logical", **payload}, message_id=message_id, topic="system.events")
        return receipt_of(server, message_id)

    assert path(timestamp=T1, status="a") == path(timestamp=T1, status="a")
    assert path(timestamp=T1, status="a") != path(timestamp=T1, status="b")
    assert path(timestamp=T1, status="a") == path(status="a", timestamp=T1)
    assert path(eventId="e", timestamp=T1, status="a") == path(eventId="e", timestamp=T1, status="b")
    assert path(eventId="e", timestamp=T1) != path(eventId="e", timestamp=T2)
    assert path(eventId="e", timestamp=T1, sequence=1) != path(eventId="e", timestamp=T1, sequence=2)
    assert path(status="a") != path(status="a")


def test_ticks_leave_no_receipts(server: Server) -> None:
    """Receipts are off for ticks: their stamps alone keep them right."""
    before = server.documents(("ops_dedupe",))
    server.send({"symbol": "NORECEIPT", "ts": T0}, message_id="no-receipt", topic="market-ticks")
    assert server.documents(("ops_dedupe",)) == before


# --- order -------------------------------------------------------------------------------------------------------


def latest(server: Server, symbol: str, *, published: str = PUBLISHED, **fields: Any) -> str:
    """What became of a tick in the latest-tick view."""
    payload = {"symbol": symbol, **fields}
    answer = server.send(payload, message_id=fresh("z"), published=published, topic="market-ticks")
    return by_view(answer)["market_ticks_latest"][1]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("UTC", "2026-01-08T11:59:00Z", "2026-01-08T11:59:00Z"),
        ("an offset east", "2026-01-08T17:29:00+05:30", "2026-01-08T11:59:00Z"),
        ("an offset west", "2026-01-08T03:59:00-08:00", "2026-01-08T11:59:00Z"),
        ("milliseconds", "2026-01-08T11:59:00.5Z", "2026-01-08T11:59:00.500000Z"),
        ("microseconds", "2026-01-08T11:59:00.000001Z", "2026-01-08T11:59:00.000001Z"),
        ("nanoseconds", "2026-01-08T11:59:00.000001000Z", "2026-01-08T11:59:00.000001Z"),
        ("small letters", "2026-01-08t11:59:00z", "2026-01-08T11:59:00Z"),
        ("a space", "2026-01-08 11:59:00Z", "2026-01-08T11:59:00Z"),
        ("epoch seconds", 1767873540, "2026-01-08T11:59:00Z"),
        ("epoch seconds with a fraction", 1767873540.25, "2026-01-08T11:59:00.250000Z"),
        ("epoch milliseconds", 1767873540250, "2026-01-08T11:59:00.250000Z"),
        ("epoch milliseconds with a fraction", 1767873540250.5, "2026-01-08T11:59:00.250500Z"),
    ],
)
def test_times(server: Server, name: str, value: Any, expected: str) -> None:
    """RFC 3339 with any offset, epoch seconds and epoch milliseconds are one time, kept to the microsecond."""
    assert latest(server, f"time {name}", ts=value) == "applied"
    assert read(server, f"market_ticks_latest/TIME {name.upper()}")["lastTickAt"] == expected


def test_the_first_moments_of_1970(server: Server) -> None:
    """Zero is a time like any other, and the first millisecond number lies in 1973."""
    for value, expected in ((0, "1970-01-01T00:00:00Z"), (100_000_000_000, "1973-03-03T09:46:40Z")):
        message_id = fresh()
        server.send({"symbol": "ZERO", "timestamp": value}, message_id=message_id, topic="market-ticks")
        assert read(server, f"market_ticks/{message_id}")["eventTime"] == expected


@pytest.mark.parametrize(
    ("names", "topic", "payload", "path", "field"),
    [
        (
            ("ts", "timestamp", "time", "envelope"),
            TICKS[0],
            {"symbol": "ORD"},
            "market_ticks_latest/ORD",
            "lastTickAt",
        ),
        (
            ("producedAt", "publishedAt", "timestamp"),
            SYSTEM[0],
            {"service": "order"},
            "ops_services/dev__order",
            "lastHeartbeatAt",
        ),
        (
            ("envelope", "ts", "timestamp"),
            HEARTBEAT[0],
            {"pipeline": "ord"},
            "ingest_pipelines/ord",
            "lastHeartbeatAt",
        ),
        (
            ("updatedAt", "decisionAt", "producedAt", "publishedAt", "envelope", "timestamp", "ts", "time"),
            SIGNALS[0],
            {"signalId": "ord"},
            "trade_signals/ord",
            "updatedAt",
        ),
        (
            ("producedAt", "envelope"),
            BARS[0],
            {"symbol": "ORD", "start": "2026-01-08T11:00:00Z"},
            "market_bars_1m/ORD__2026-01-08T11:00:00Z",
            "revisionAt",
        ),
    ],
    ids=["ticks", "system", "heartbeat", "signals", "bars"],
)
def test_order_time_preference(
    server: Server, names: tuple[str, ...], topic: str, payload: dict[str, Any], path: str, field: str
) -> None:
    """Each view takes the first of its times that is there, in the order of its table, then publish time."""
    for first in range(len(names), -1, -1):
        inner, outer = dict(payload), {"event_type": "x", "agent_name": "a"}
        # The preferred one is the newest of what is left, so that each message supersedes the one before.
        for rank, name in enumerate(names[first:]):
            time = f"2026-01-08T12:00:{(len(names) - first) * 2 - rank:02d}Z"
            (outer if name == "envelope" else inner)["ts" if name == "envelope" else name] = time
        answer = server.send({**outer, "payload": inner}, message_id=fresh(), topic=topic)
        assert answer.json["views"][0]["reason"] == "applied", (first, answer)
        document = read(server, path)
        found = document["source"]["revisionAt"] if field == "revisionAt" else document[field]
        assert found == f"2026-01-08T12:00:{(len(names) - first) * 2:02d}Z"


def test_ties_go_to_sequence_then_publish_time_then_message_id(server: Server) -> None:
    """At one event time a sequence beats none, a greater one a lesser; then publish time, then message id."""

    def tick(price: int, message_id: str, published: str, **more: Any) -> str:
        payload = {"symbol": "TIE", "price": price, "ts": T0, **more}
        answer = server.send(payload, message_id=message_id, published=published, topic="market-ticks")
        return by_view(answer)["market_ticks_latest"][1]

    assert tick(1, "tie-b", T1) == "applied"
    assert tick(2, "tie-a", T1) == "stale_event_ignored"
    assert tick(3, "tie-c", T1) == "applied"
    assert tick(4, "tie-a2", T0) == "stale_event_ignored"
    assert tick(5, "tie-a3", T2) == "applied"
    assert tick(6, "tie-a4", T0, sequence=0) == "applied"
    assert tick(7, "tie-z", T3) == "stale_event_ignored"
    assert tick(8, "tie-a5", T0, seq="10") == "applied"
    assert tick(9, "tie-z2", T3, sequence=9) == "stale_event_ignored"
    assert tick(10, "tie-a6", T0, sequence=2**63 - 1) == "applied"
    assert read(server, "market_ticks_latest/TIE")["price"] == 10


def test_late_ticks(server: Server, by_event: Server, by_nature: Server) -> None:
    """Later than the limit before publish time is too old; the limit itself is not, and 0 switches the rule off."""
    noon = "2026-01-08T12:00:00Z"
    assert latest(server, "LATE", ts="2026-01-08T11:44:59.999999Z", published=noon) == "too_old_ignored"
    assert server.document("market_ticks_latest/LATE") is None
    assert latest(server, "LATE", ts="2026-01-08T11:45:00Z", published=noon) == "applied"
    assert latest(by_nature, "LATE", ts="2026-01-08T11:58:59Z", published=noon) == "too_old_ignored"
    assert latest(by_nature, "LATE", ts="2026-01-08T11:59:00Z", published=noon) == "applied"
    assert latest(by_event, "LATE", ts="1999-01-01T00:00:00Z", published=noon) == "applied"
    old = {"symbol": "LATE", "ts": "2026-01-08T11:00:00Z"}
    answer = server.send(old, message_id="late", published=noon, topic="market-ticks")
    # The history takes it all the same, and so the message was applied.
    assert answer.json["outcome"] == "applied"
    assert by_view(answer)["market_ticks"] == ("applied", "applied")


def test_a_message_that_is_only_too_old(start: Start) -> None:
    """Without the history a late tick's own outcome is too_old_ignored, and it is acknowledged."""
    server = start(TICK_HISTORY="off")
    answer = server.send({"symbol": "OLD", "ts": "2026-01-01T00:00:00Z"}, message_id="old", topic="market-ticks")
    assert answer.status == 200
    assert (answer.json["outcome"], answer.json["reason"]) == ("too_old_ignored", "too_old_ignored")
    assert [view["view"] for view in answer.json["views"]] == ["market_ticks_latest"]


def test_old_bars(server: Server, by_event: Server) -> None:
    """A backfill is told by the minute it is about; by default every bar is welcome."""

    def bar(where: Server, minute: str) -> str:
        payload = {"symbol": "BACK", "ts": minute, "producedAt": T0}
        return str(where.send(payload, message_id=fresh(), topic=BARS[0]).json["reason"])

    assert bar(server, "2001-01-01T00:00:00Z") == "applied"
    assert bar(by_event, "2026-01-01T12:00:00Z") == "applied"
    assert bar(by_event, "2026-01-01T11:59:59Z") == "too_old_ignored"


def test_one_bad_clock_cannot_freeze_a_document(server: Server, by_event: Server, by_nature: Server) -> None:
    """A time more than MAX_FUTURE_SKEW_S ahead of publish time orders as publish time, and is kept as sent."""
    ahead = "2026-01-08T12:05:00.000001Z"
    assert latest(server, "SKEW", ts=ahead, price=1, published=T0) == "applied"
    assert read(server, "market_ticks_latest/SKEW")["lastTickAt"] == ahead
    assert latest(server, "SKEW", ts=T1, price=2, published=T1) == "applied"
    assert read(server, "market_ticks_latest/SKEW")["price"] == 2
    # Within the limit a time counts as it is.
    assert latest(server, "SKEW", ts="2026-01-08T12:05:00Z", price=3, published=T0) == "applied"
    assert latest(server, "SKEW", ts=T3, price=4, published=T3) == "stale_event_ignored"
    for where, limit in ((by_event, "12:00:00"), (by_nature, "12:00:10")):
        assert latest(where, "SKEW", ts=f"2026-01-08T{limit}.5Z", published=T0) == "applied"
        assert latest(where, "SKEW", ts=T1, published=T1) == "applied"


def test_signals_order_by_sequence_first(server: Server) -> None:
    """A sequence outranks time, and an update without one sorts below every update that has one."""

    def update(state: str, **more: Any) -> str:
        payload = {"signalId": "seq", "state": state, **more}
        return str(server.send(payload, message_id=fresh(), topic=SIGNALS[0]).json["outcome"])

    assert update("second", sequence=2, updatedAt=T0) == "applied"
    update("first", sequence=1, updatedAt=T3)
    assert read(server, "trade_signals/seq")["state"] == "second"
    update("none", updatedAt=T3)
    assert read(server, "trade_signals/seq")["state"] == "second"
    assert update("third", version=3, updatedAt=T0) == "applied"
    document = read(server, "trade_signals/seq")
    assert (document["state"], document["sequence"]) == ("third", 3)


UPDATES: list[tuple[str, str, dict[str, Any]]] = [
    ("u1", T0, {"eventId": "e1", "symbol": "SPY", "state": "new", "price": 10, "createdAt": T0, "updatedAt": T0}),
    ("u2", T2, {"eventId": "e2", "state": "ack", "confidence": 0.5, "updatedAt": T1}),
    ("u3", T1, {"eventId": "e3", "state": "executed", "version": 1, "updatedAt": T0}),
    ("u4", T3, {"eventId": "e2", "state": "ack", "confidence": 0.5, "updatedAt": T1}),
    ("u5", T3, {"eventId": "e5", "reason": "partial", "price": 11, "updatedAt": T2}),
]


def test_partial_signal_updates_in_every_order(server: Server) -> None:
    """Created, acknowledged, executed, republished and corrected, in all 120 orders: one document."""
    documents = {}
    for number, order in enumerate(itertools.permutations(UPDATES)):
        signal = f"order-{number}"
        for message_id, published, fields in order:
            payload = {"signalId": signal, **fields}
            answer = server.send(payload, message_id=message_id, published=published, topic=SIGNALS[0])
            assert answer.status == 200, answer
        document = read(server, f"trade_signals/{signal}")
        del document["ingestedAt"]
        documents[tuple(name for name, _, _ in order)] = json.dumps(document, sort_keys=True).replace(
            signal, "order"
        )
    found = set(documents.values())
    assert len(found) == 1, [next(order for order, text in documents.items() if text == one) for one in found]
    document = json.loads(found.pop())
    assert {name: document[name] for name in ("symbol", "state", "price", "confidence", "reason", "createdAt")} == {
        "symbol": "SPY",
        "state": "executed",
        "price": 11,
        "confidence": 0.5,
        "reason": "partial",
        "createdAt": T0,
    }


def test_redelivery_changes_nothing(server: Server) -> None:
    """Everything sent again, in another order, leaves every document of a merged signal as it was."""
    for message_id, published, fields in UPDATES:
        server.send({"signalId": "again", **fields}, message_id=message_id, published=published, topic=SIGNALS[0])
    before = read(server, "trade_signals/again")
    for message_id, published, fields in reversed(UPDATES):
        answer = server.send(
            {"signalId": "again", **fields}, message_id=message_id, published=published, topic=SIGNALS[0]
        )
        assert answer.json["outcome"] == "duplicate", answer
    assert read(server, "trade_signals/again") == before
