"""One JSON line per message, with every documented field."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.acceptance.answers import (
    T0,
    T1,
)
from tests.common.push import PUBLISHED
from tests.common.server import Server, Start

# --- log lines ---------------------------------------------------------------------------------------------------

FIELDS_OF_004 = {
    *("severity", "message", "timestamp", "service", "env", "version", "sha"),
    *("subscription", "topic", "messageId", "publishTime", "deliveryAttempt"),
    *("handler", "event_type", "schemaVersion", "outcome", "reason", "http_status", "ack_action"),
    *("write_kind", "doc_path", "docs", "idempotency_doc"),
    *("error_type", "error_code", "error", "retryable"),
}


def line_of(server: Server, payload: Any, **message: Any) -> dict[str, Any]:
    """The log line of one message."""
    server.put_up_fence()
    server.send(payload, **message)
    (line,) = server.fence()
    assert line.isascii()
    found = json.loads(line)
    assert isinstance(found, dict)
    assert set(found) >= FIELDS_OF_004, FIELDS_OF_004 - set(found)
    return found


def test_log_line_of_an_applied_message(server: Server) -> None:
    """Every documented field stands at top level, with the message's own values."""
    payload = {"event_type": "market.tick", "payload": {"symbol": "LOG", "ts": T0, "schemaVersion": 3}}
    line = line_of(server, payload, message_id="log-1", attempt=2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", line.pop("timestamp"))
    assert line.pop("latency_ms") > 0
    assert line.pop("message")
    assert line == {
        "severity": "INFO",
        "service": "millpond",
        "env": "dev",
        "version": "0.1.0",
        "sha": None,
        "subscription": "projects/local/subscriptions/acceptance",
        "topic": "market-ticks",
        "messageId": "log-1",
        "publishTime": PUBLISHED,
        "deliveryAttempt": 2,
        "handler": "market_ticks_latest",
        "event_type": "market.tick",
        "schemaVersion": 3,
        "outcome": "applied",
        "reason": "applied",
        "http_status": 200,
        "ack_action": None,
        "write_kind": "put",
        "doc_path": "market_ticks_latest/LOG",
        "docs": [
            {"handler": view, "doc_path": path, "outcome": "applied", "write_kind": "put"}
            for view, path in (
                ("market_ticks_latest", "market_ticks_latest/LOG"),
                ("market_ticks", "market_ticks/log-1"),
            )
        ],
        "idempotency_doc": None,
        "error_type": None,
        "error_code": None,
        "error": None,
        "trace": None,
        "retryable": False,
    }


def test_log_line_of_every_other_outcome(server: Server) -> None:
    """Duplicates and stale events are INFO and write nothing; poison is ERROR and says why."""
    payload = {"service": "logged", "timestamp": T1}
    line_of(server, payload, message_id="log-2")
    duplicate = line_of(server, payload, message_id="log-2")
    assert (duplicate["severity"], duplicate["outcome"], duplicate["write_kind"]) == ("INFO", "duplicate", "none")
    assert duplicate["doc_path"] == "ops_services/dev__logged"
    assert duplicate["idempotency_doc"].startswith("ops_dedupe/dev__system.events__")
    stale = line_of(server, {"service": "logged", "timestamp": T0}, message_id="log-3")
    assert (stale["severity"], stale["outcome"], stale["reason"]) == (
        "INFO",
        "stale_ignored",
        "stale_event_ignored",
    )
    poison = line_of(server, {"service": "logged", "timestamp": "soon"}, message_id="log-4")
    assert (poison["severity"], poison["outcome"], poison["write_kind"]) == ("ERROR", "poison", "letter")
    assert (poison["error_type"], poison["error_code"], poison["retryable"]) == ("InvalidEvent", None, False)
    assert "timestamp" in poison["error"]
    refused = line_of(server, {"symbol": "BIG", "x": "y" * 1_100_000}, message_id="log-5", topic="market-ticks")
    assert (refused["severity"], refused["reason"], refused["error_code"]) == (
        "ALERT",
        "write_refused",
        "INVALID_ARGUMENT",
    )
    assert "y" * 100 not in refused["error"]


def test_text_from_payloads_cannot_break_or_flood_a_line(server: Server) -> None:
    """Line breaks of every kind, quotes and a megabyte of event type come out as one short ASCII line."""
    nasty = 'a\n{"severity":"INFO"}\r\u0085\u2028\u2029\x00"\\ é😀'
    line = line_of(
        server,
        {"event_type": nasty, "payload": {"symbol": nasty, "ts": T0, "schemaVersion": nasty * 100}},
        message_id="log-6",
        topic="market-ticks",
        subscription=nasty,
    )
    assert line["doc_path"] == "market_ticks_latest/" + nasty.upper().replace("/", "%2F").replace("\x00", "%00")
    server.send(
        {"event_type": "x" * 1_000_000, "payload": {"symbol": "FLOOD", "schemaVersion": "x" * 1_000_000}},
        message_id="log-7",
        topic="market-ticks",
        subscription="s" * 10_000,
    )
    (text,) = server.fence()
    assert json.loads(text)["messageId"] == "log-7"
    assert len(text) < 8_192


def test_log_names_the_build(start: Start) -> None:
    """Service, environment and revision come from where Cloud Run and a build put them."""
    server = start(STORE="memory", ENV="staging", K_SERVICE="pond", GIT_SHA="abc123", PUSH_UNAUTHENTICATED="allow")
    line = line_of(server, {"service": "x", "timestamp": T0}, message_id="log-8")
    assert (line["service"], line["env"], line["sha"]) == ("pond", "staging", "abc123")
