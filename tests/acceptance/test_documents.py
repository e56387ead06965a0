"""Which documents a message makes: every field of the tables, every id strategy."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.acceptance.answers import (
    BARS,
    ENVELOPE,
    SIGNALS,
    T0,
    T1,
    T2,
    T3,
    applied,
    applied_paths,
    fresh,
    read,
    without_bookkeeping,
)
from tests.common.push import PUBLISHED, encoded, push_body
from tests.common.server import Server

# --- documents ---------------------------------------------------------------------------------------------------


def source(topic: str, message_id: str, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "messageId": message_id, "publishedAt": PUBLISHED, **more}


def test_ops_services_document(server: Server) -> None:
    """Every field of 002's table, and nothing else; order time is producedAt, publishedAt, then timestamp."""
    payload = {
        "service": "full",
        "status": "degraded",
        "version": "1.2.3",
        "region": "eu-west1",
        "producedAt": "2026-01-08T11:59:57Z",
        "publishedAt": "2026-01-08T11:59:58Z",
        "timestamp": "2026-01-08T11:59:59Z",
        "ignored": True,
    }
    (path,) = applied(server.send(payload, message_id="ops-full"))
    assert path == "ops_services/dev__full"
    assert without_bookkeeping(read(server, path)) == {
        "serviceId": "full",
        "env": "dev",
        "status": "degraded",
        "lastHeartbeatAt": "2026-01-08T11:59:57Z",
        "version": "1.2.3",
        "region": "eu-west1",
        "updatedAt": "2026-01-08T11:59:57Z",
        "source": source("system.events", "ops-full"),
    }


def test_ops_services_document_of_the_least_payload(server: Server) -> None:
    """Missing strings are "unknown", a missing region the default one, a missing time the publish time."""
    (path,) = applied(server.send({"service": "least"}, message_id="ops-least", topic="system.events"))
    assert without_bookkeeping(read(server, path)) == {
        "serviceId": "least",
        "env": "dev",
        "status": "unknown",
        "lastHeartbeatAt": PUBLISHED,
        "version": "unknown",
        "region": "local",
        "updatedAt": PUBLISHED,
        "source": source("system.events", "ops-least"),
    }


def test_ingest_pipelines_document(server: Server) -> None:
    """The heartbeat's envelope gives time and producer; `data` is the inner payload."""
    inner = {"pipeline_id": "bars-1m", "status": "running", "tenant_id": "t1", "ts": T0, "lag": {"seconds": 3}}
    payload = {"event_type": "ingest.heartbeat", "ts": T1, "payload": inner, **ENVELOPE}
    (path,) = applied(server.send(payload, message_id="beat"))
    assert path == "ingest_pipelines/bars-1m"
    assert without_bookkeeping(read(server, path)) == {
        "pipelineId": "bars-1m",
        "env": "dev",
        "tenantId": "t1",
        "status": "running",
        "lastHeartbeatAt": T1,
        "updatedAt": T1,
        "data": inner,
        "source": source("ingest-heartbeat", "beat", producer=ENVELOPE),
    }


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ({"pipeline_id": "p1", "pipeline": "p2", "service": "p3"}, "p1"),
        ({"pipeline": "p2", "service": "p3"}, "p2"),
        ({"service": "p3"}, "p3"),
        ({}, "feed"),
    ],
)
def test_ingest_pipelines_id(server: Server, inner: dict[str, Any], expected: str) -> None:
    """pipeline_id, pipeline, service, else the envelope's agent name."""
    payload = {"event_type": "ingest.heartbeat", "payload": inner, **ENVELOPE}
    assert applied(server.send(payload, message_id=fresh())) == [f"ingest_pipelines/{expected}"]


def test_market_ticks_documents(server: Server) -> None:
    """001's latest tick and 002's history of it, both from one message, field by field."""
    inner = {
        "symbol": " brk.b ",
        "ts": T1,
        "price": 10.5,
        "bid": "10.40",
        "ask": 10.6,
        "size": 3,
        "producedAt": T2,
        "publishedAt": T3,
        "venue": {"name": "X", "lots": [1, 2]},
    }
    payload = {"eventType": "market.tick", "eventId": "tick-1", "ts": T0, "payload": inner}
    payload |= {"agentName": "feed", "gitSha": "abc123", "traceId": "t-1"}
    latest, history = applied(server.send(payload, message_id="tick-m"))
    assert (latest, history) == ("market_ticks_latest/BRK.B", "market_ticks/tick-1")
    assert without_bookkeeping(read(server, latest)) == {
        "symbol": "BRK.B",
        "lastTickAt": T1,
        "price": 10.5,
        "bid": "10.40",
        "ask": 10.6,
        "size": 3,
        "source": source("market-ticks", "tick-m", producer=ENVELOPE),
    }
    document = read(server, history)
    assert without_bookkeeping(document) == {
        "docId": "tick-1",
        "eventId": "tick-1",
        "symbol": "BRK.B",
        "eventTime": T2,
        "producedAt": T2,
        "publishedAt": T3,
        "data": inner,
        "expireAt": "2026-01-15T12:00:00Z",
        "source": source("market-ticks", "tick-m", order="eventTime", producer=ENVELOPE),
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", document["ingestedAt"])


def test_a_tick_with_nothing_but_a_symbol(server: Server) -> None:
    """What the payload does not name is not in the document; the message id and publish time stand in."""
    latest, history = applied(server.send({"symbol": "least"}, message_id="tick-least", topic="market-ticks"))
    assert without_bookkeeping(read(server, latest)) == {
        "symbol": "LEAST",
        "lastTickAt": PUBLISHED,
        "source": source("market-ticks", "tick-least"),
    }
    assert without_bookkeeping(read(server, history)) == {
        "docId": "tick-least",
        "symbol": "LEAST",
        "eventTime": PUBLISHED,
        "data": {"symbol": "least"},
        "expireAt": "2026-01-15T12:00:00Z",
        "source": source("market-ticks", "tick-least", order="eventTime"),
    }


def test_market_bars_document(server: Server) -> None:
    """001's and 002's fields together; the id is the symbol and the minute the bar is about."""
    inner = {
        "symbol": "spy",
        "ts": "2026-01-08T14:32:59.999Z",
        "open": 1,
        "high": 4,
        "low": 0.5,
        "close": "2.25",
        "volume": 1000,
        "start": "2026-01-08T14:32:00Z",
        "end": "2026-01-08T15:33:00+01:00",
        "producedAt": T1,
    }
    payload = {"event_type": "market.bars.1m", "ts": T3, "payload": inner, **ENVELOPE}
    (path,) = applied(server.send(payload, message_id="bar-m"))
    assert path == "market_bars_1m/SPY__2026-01-08T14:32:00Z"
    assert without_bookkeeping(read(server, path)) == {
        "docId": "SPY__2026-01-08T14:32:00Z",
        "symbol": "SPY",
        "timeframe": "1m",
        "ts": "2026-01-08T14:32:00Z",
        "start": "2026-01-08T14:32:00Z",
        "end": "2026-01-08T14:33:00Z",
        "open": 1,
        "high": 4,
        "low": 0.5,
        "close": "2.25",
        "volume": 1000,
        "eventTime": T1,
        "producedAt": T1,
        "data": inner,
        "source": source("market-bars-1m", "bar-m", producer=ENVELOPE, revisionAt=T1),
    }


def test_a_bar_is_revised(server: Server) -> None:
    """The newest revision wins whichever minute's time it names: producedAt, then the envelope's time."""
    inner = {"symbol": "REV", "ts": "2026-01-08T10:00:00Z"}

    def revise(close: int, at: str) -> str:
        payload = {"event_type": "market.bars.1m", "ts": at, "payload": {**inner, "close": close}}
        answer = server.send(payload, message_id=fresh())
        return str(answer.json["reason"])

    assert revise(1, T1) == "applied"
    assert revise(2, T2) == "applied"
    assert revise(3, T0) == "stale_event_ignored"
    document = read(server, "market_bars_1m/REV__2026-01-08T10:00:00Z")
    assert (document["close"], document["source"]["revisionAt"]) == (2, T2)


def test_trade_signals_document(server: Server) -> None:
    """Identity, decision, lifecycle and provenance, as 001 and 002 list them."""
    inner = {
        "signalId": "sig-full",
        "strategyId": "momentum",
        "strategy": "Momentum",
        "symbol": "SPY",
        "timeframe": "5m",
        "action": "BUY",
        "side": "long",
        "confidence": 0.75,
        "reason": "breakout",
        "price": 10,
        "targets": [11, 12],
        "risk": {"stop": 9},
        "state": "new",
        "createdAt": T0,
        "decisionAt": T0,
        "updatedAt": T1,
        "sequence": 7,
        "unlisted": "kept in data",
    }
    payload = {"event_type": "trade.signal", "event_id": "ev-1", "ts": T3, "payload": inner, **ENVELOPE}
    (path,) = applied(server.send(payload, message_id="sig-m"))
    assert path == "trade_signals/sig-full"
    document = without_bookkeeping(read(server, path))
    listed = {name: value for name, value in inner.items() if name != "unlisted"}
    assert document == {
        **listed,
        "docId": "sig-full",
        "eventId": "ev-1",
        "eventTime": T3,
        "data": inner,
        "source": source("trade-signals", "sig-m", producer=ENVELOPE),
    }


def test_trade_signals_id(server: Server) -> None:
    """signalId, id, dedupeKey, fingerprint, eventId; else a hash of what defines the signal."""
    names = ("signalId", "id", "dedupeKey", "fingerprint", "eventId")
    for first in range(len(names)):
        payload = {name: f"{name}-value" for name in names[first:]}
        (path,) = applied(server.send(payload, message_id=fresh(), topic="trade-signals"))
        assert path == f"trade_signals/{names[first]}-value"

    defining = {"strategyId": "s", "symbol": "SPY", "timeframe": "1m", "side": "buy", "decisionAt": T0}

    def hashed(**changes: Any) -> str:
        answer = server.send({**defining, **changes}, message_id=fresh(), topic="trade-signals")
        return str(answer.json["views"][0]["doc"])

    path = hashed()
    assert re.fullmatch(r"trade_signals/[A-Z2-7]{52}", path)
    assert hashed(state="executed", price=5, modelVersion="2", git_sha="f00") == path
    assert hashed(decisionAt="2026-01-08T13:00:00+01:00") == path
    changed = [hashed(**{name: "other"}) for name in ("strategyId", "symbol", "timeframe", "side")]
    assert len({path, *changed, hashed(decisionAt=T1)}) == 6


def test_data_that_no_document_can_hold_is_json_text(server: Server) -> None:
    """Nested lists, reserved names and deep maps become canonical JSON text, on every store alike."""
    deep: dict[str, Any] = {"leaf": 1}
    for _ in range(25):
        deep = {"in": deep}
    for extra in ({"grid": [[1, 2], [3]]}, {"__name__": 1}, {"deep": deep}):
        payload = {"symbol": "JSON", "ts": T0, "b": 1, "a": "é", **extra}
        _, path = applied_paths(server.send(payload, message_id=fresh(), topic="market-ticks"))
        data = read(server, path)["data"]
        assert data == json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def test_data_is_what_was_published(server: Server) -> None:
    """A value read back equals the value sent, types included."""
    value = {
        "null": None,
        "true": True,
        "zero": 0,
        "float": 1.0,
        "tiny": 5e-324,
        "big": 2**63 - 1,
        "text": "é\u0000\u2028😀",
        "empty": {"list": [], "map": {}, "text": ""},
        "list": [1, "1", 1.5, None, {"a": [True]}],
    }
    payload = {"symbol": "EXACT", "ts": T0, **value}
    body = push_body(payload, message_id="exact", topic="market-ticks")
    assert body["message"]["data"] == encoded(payload)
    server.push(body)
    assert read(server, "market_ticks/exact")["data"] == payload
    raw = server.http.get("/api/docs/market_ticks/exact").text
    assert '"float":1.0' in raw
    assert '"zero":0,' in raw


# --- settings ----------------------------------------------------------------------------------------------------


def test_ops_service_id(server: Server, by_event: Server, by_nature: Server) -> None:
    """env_service is the default; env_service_region adds the region, the default one too; service is bare."""
    payload = {"service": "a/b", "region": "us", "timestamp": T0}
    assert applied(server.send(payload, message_id="id-1")) == ["ops_services/dev__a%2Fb"]
    assert applied(by_event.send(payload, message_id="id-1")) == ["ops_services/prod__a%2Fb__us"]
    assert applied(by_nature.send(payload, message_id="id-1")) == ["ops_services/a%2Fb"]
    least = by_event.send({"service": "c"}, message_id="id-2", topic="ops-events")
    assert applied(least) == ["ops_services/prod__c__eu-west1"]
    document = read(by_event, "ops_services/prod__c__eu-west1")
    assert (document["env"], document["region"], document["source"]["topic"]) == ("prod", "eu-west1", "ops-events")


def test_bars_id(by_event: Server, by_nature: Server) -> None:
    """`event` keys bars by eventId, else messageId; nested makes 001's option B."""
    bar = {"symbol": "spy", "ts": "2026-01-08T09:05:30Z", "close": 1}
    assert applied(by_event.send({**bar, "eventId": "b/1"}, message_id="bar-1", topic=BARS[0])) == [
        "market_bars_1m/b%2F1"
    ]
    assert applied(by_event.send(bar, message_id="bar-2", topic=BARS[0])) == ["market_bars_1m/bar-2"]
    (path,) = applied(by_nature.send({**bar, "symbol": "a/b"}, message_id="bar-1", topic=BARS[0]))
    assert path == "market_bars_1m_by_symbol/A%2FB/days/20260108/minutes/0905"
    assert read(by_nature, path)["docId"] == "0905"


def test_signals_id(by_event: Server, by_nature: Server) -> None:
    """`event` keys signals by eventId, else messageId; distinct versions make distinct signals."""
    signal = {"signalId": "s", "symbol": "SPY", "eventId": "e-1"}
    assert applied(by_event.send(signal, message_id="sig-1", topic=SIGNALS[0])) == ["trade_signals/e-1"]
    assert applied(by_event.send({"signalId": "s"}, message_id="sig-2", topic=SIGNALS[0])) == [
        "trade_signals/sig-2"
    ]

    def hashed(server: Server, **more: Any) -> str:
        payload = {"symbol": "SPY", "decisionAt": T0, **more}
        return str(server.send(payload, message_id=fresh(), topic=SIGNALS[0]).json["views"][0]["doc"])

    paths = [
        hashed(by_nature),
        hashed(by_nature, modelVersion="1"),
        hashed(by_nature, modelVersion="2"),
        hashed(by_nature, git_sha="f00"),
    ]
    assert len(set(paths)) == 4
    assert hashed(by_nature, modelVersion="2", state="new") == paths[2]


def test_receipts_by_message(by_event: Server) -> None:
    """RECEIPTS=message gives 000's plain `ops_dedupe/{messageId}`."""
    payload = {"service": "plain", "timestamp": T1}
    assert by_event.send(payload, message_id="plain/1").json["reason"] == "applied"
    receipt = read(by_event, "ops_dedupe/plain%2F1")
    assert receipt["messageId"] == "plain/1"
    assert {"createdAt", "expireAt"} <= set(receipt)
    assert by_event.send(payload, message_id="plain/1").json["reason"] == "duplicate_message_noop"
    stale = {"service": "plain", "timestamp": T0}
    assert by_event.send(stale, message_id="plain-2").json["reason"] == "stale_event_ignored"
    assert by_event.send(stale, message_id="plain-2").json["reason"] == "duplicate_message_noop"
    # By message, a republished copy is a message of its own.
    assert by_event.send(stale, message_id="plain-3").json["reason"] == "stale_event_ignored"


def test_retention(server: Server, by_nature: Server) -> None:
    """TICK_HISTORY_TTL_DAYS counts from publish time, so that every replica and every replay says the same."""
    for where, expires in ((server, "2026-01-15T12:00:00Z"), (by_nature, "2026-01-09T00:00:00Z")):
        where.send({"symbol": "KEEP", "ts": T0}, message_id="keep", topic="market-ticks")
        assert read(where, "market_ticks/keep")["expireAt"] == expires
