"""A real server writes the documents and receipts that `tests/views` and `tests/core` ask the pure core about."""

from __future__ import annotations

import json
import re

from tests.acceptance.answers import applied, read, without_bookkeeping
from tests.common.push import encoded, push_body
from tests.common.server import Server
from tests.views.examples import T0, T1, T2, T3, TICK


def test_the_documents_of_a_tick(server: Server) -> None:
    """Every field, and nothing else."""
    paths = applied(server.send(TICK.payload, message_id=TICK.message_id))
    assert {path: without_bookkeeping(read(server, path)) for path in paths} == TICK.documents


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
        "a.b": 1,
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


def receipt_of(server: Server, message_id: str) -> str:
    """The receipt's path, as the message's log line gives it."""
    server.fence()
    lines = [json.loads(line) for line in server.output if line.startswith("{")]
    found = [line["idempotency_doc"] for line in lines if line.get("messageId") == message_id]
    assert found, message_id
    return str(found[-1])


def test_a_receipt(server: Server) -> None:
    """One per logical event, named in the log line, kept with the event's and the document's stamps."""
    payload = {"service": "receipt", "timestamp": T1}
    server.send(payload, message_id="r1", published=T1)
    path = receipt_of(server, "r1")
    assert re.fullmatch(r"ops_dedupe/dev__system\.events__[A-Z2-7]{52}", path)
    receipt = read(server, path)
    stamp = read(server, "ops_services/dev__receipt")["source"]["stamp"]
    verdict = receipt["views"]["ops_services"]
    assert (receipt["messageId"], verdict["stamp"], verdict["winner"]) == ("r1", stamp, stamp)
    server.send(payload, message_id="r2", published=T2)
    assert receipt_of(server, "r2") == path
    assert read(server, path) == receipt
    server.send({"service": "receipt", "timestamp": T0}, message_id="r3", published=T3)
    assert read(server, receipt_of(server, "r3"))["views"]["ops_services"]["reason"] == "stale_event_ignored"
