"""One text finds messages, documents and letters of a running server, within bounds that the answer tells."""

from __future__ import annotations

import os
import threading
import time
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.common.push import push_body
from tests.common.server import Server, Start

HOSTILE = '<img src=x onerror="window.struck=1">\u202e\'; DROP TABLE documents; --'
BYTES = 9_000_000


def search(server: Server, text: str, **more: str) -> Any:
    answer = server.get("/api/search?" + urlencode({"q": text, **more}))
    assert answer.status == 200, answer
    return answer.json


def paths(found: Any) -> list[str]:
    return [f"{one['collection']}/{one['id']}" for one in found["documents"]]


@pytest.fixture(scope="module")
def pond(start: Start) -> Server:
    server = start()
    tick = {"price": 2, "ts": "2026-01-08T12:00:00Z"}
    server.send({"symbol": "SPY", "eventId": "ev-1", **tick}, message_id="m-1", topic="market-ticks")
    server.send({"symbol": "SPYG", "eventId": "ev-2", **tick}, message_id="m-2", topic="market-ticks")
    server.send({"service": "eu/api", "timestamp": "2026-01-08T12:00:00Z"}, message_id="m-3")
    server.send({"pipeline_id": "a/b", "ts": "2026-01-08T12:00:00Z"}, message_id="m-4", topic="ingest-heartbeat")
    server.send(
        {"order": "Zürich 4711", "said": 'he said "stop"'}, message_id="lost-1", attributes={"tenant": "acme"}
    )
    server.send({"symbol": "QQQ", "price": "much", "ts": "soon"}, message_id="lost-2", topic="market-ticks")
    server.send({"x": HOSTILE}, message_id="lost-3")
    steps = {"a": {"stepType": "ADD_UP", "status": "PENDING"}}
    assert server.http.post("/api/flow-runs", json={"runId": "run-77", "steps": steps}).status_code == 201
    return server


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("SPY", ["market_ticks_latest/SPY", "market_ticks_latest/SPYG"]),
        ("spy", ["market_ticks_latest/SPY", "market_ticks_latest/SPYG"]),
        (" spyg ", ["market_ticks_latest/SPYG"]),
        ("ev-", ["market_ticks/ev-1", "market_ticks/ev-2"]),
        ("market_ticks_latest/SPY", ["market_ticks_latest/SPY"]),
        ("dev__eu/a", ["ops_services/dev__eu%2Fapi"]),
        ("dev__eu%2Fapi", ["ops_services/dev__eu%2Fapi"]),
        ("a/b", ["ingest_pipelines/a%2Fb"]),
        ("run-77", ["flow_runs/run-77"]),
        ("run", ["flow_runs/run-77"]),
        ("a/", ["ingest_pipelines/a%2Fb"]),
        *(
            (text, [])
            for text in ("none", ".", "..", "__x__", "/", "%", "\x00", "SPY/SPY", "ops_dedupe", "é" * 200)
        ),
    ],
    ids=ascii,
)
def test_documents_are_found_by_id_and_its_beginning(pond: Server, text: str, documents: list[str]) -> None:
    """In capitals too, by path too, and as text whose id is escaped."""
    assert paths(search(pond, text)) == documents


def test_an_exact_id_is_told_from_a_beginning(pond: Server) -> None:
    found = search(pond, "spy")["documents"]
    assert [(one["id"], one["exact"]) for one in found] == [("SPY", True), ("SPYG", False)]


def test_messages_are_found_by_message_id_and_event_id(pond: Server) -> None:
    for text in ("m-1", "ev-1"):
        (found,) = search(pond, text)["messages"]
        assert (found["messageId"], found["eventId"], found["outcome"]) == ("m-1", "ev-1", "applied")
    assert search(pond, "M-1")["messages"] == []


@pytest.mark.parametrize(
    ("text", "letter", "field"),
    [
        ("lost-2", "acceptance__lost-2", "id"),
        ("acceptance__lost-1", "acceptance__lost-1", "id"),
        ("4711", "acceptance__lost-1", "payload"),
        ("zürich", "acceptance__lost-1", "payload"),
        ('"stop"', "acceptance__lost-1", "payload"),
        ("ACME", "acceptance__lost-1", "attributes"),
        ("qqq", "acceptance__lost-2", "payload"),
        ("market_ticks_lat", "acceptance__lost-2", "view"),
        ("onerror=", "acceptance__lost-3", "payload"),
        (HOSTILE, "acceptance__lost-3", "payload"),
    ],
    ids=ascii,
)
def test_letters_are_found_by_id_and_text(pond: Server, text: str, letter: str, field: str) -> None:
    """In every field and in the payload, as JSON writes it, without regard to case."""
    found = search(pond, text)
    assert [(one["id"], one["field"]) for one in found["letters"]] == [(letter, field)]
    assert (found["scanned"], found["unopened"], found["next"]) == (3, 0, None)
    if field == "payload" and text.isascii() and '"' not in text:
        assert text.lower() in found["letters"][0]["excerpt"].lower()


def test_a_word_of_several_letters_finds_each(pond: Server) -> None:
    assert len(search(pond, "unroutable_payload")["letters"]) == 2
    assert search(pond, "no such text anywhere")["letters"] == []


@pytest.mark.parametrize(
    "query", ["", "q=", "q=%20%20", "q=" + "x" * 201, "q=x&after=a/b", "q=x&after=" + "x" * 1501]
)
def test_a_wrong_query_is_refused(pond: Server, query: str) -> None:
    answer = pond.get(f"/api/search?{query}")
    assert (answer.status, answer.json["reason"]) == (400, "invalid_query")


def test_a_search_goes_on_where_it_ended(start: Start) -> None:
    """At most fifty letters are found at a time; the answer says where the next one begins."""
    server = start()
    for number in range(70):
        server.send({"needle": number}, message_id=f"n-{number:03d}")
    first = search(server, "needle")
    assert len(first["letters"]) == 50
    second = search(server, "needle", after=first["next"])
    assert len(second["letters"]) == 20
    assert second["next"] is None
    assert not {one["id"] for one in first["letters"]} & {one["id"] for one in second["letters"]}


def test_big_letters_are_searched_within_bounds(start: Start) -> None:
    """Letters in parts too; the server answers others meanwhile, and the whole is done in several steps."""
    server = start()
    for number in range(9):
        # Random, so that it does not fit into one document.
        body = {"noise": os.urandom(BYTES // 2).hex(), "end": f"needle-{number}"}
        assert server.push(push_body(body, message_id=f"big-{number}")).json["outcome"] == "poison"
    slowest = 0.0
    ended = threading.Event()

    def others() -> None:
        nonlocal slowest
        while not ended.is_set():
            began = time.monotonic()
            assert server.get("/live").status == 200
            slowest = max(slowest, time.monotonic() - began)

    watching = threading.Thread(target=others)
    watching.start()
    found: list[str] = []
    answers = [search(server, "NEEDLE-8")]
    while answers[-1]["next"] is not None:
        answers.append(search(server, "NEEDLE-8", after=answers[-1]["next"]))
    ended.set()
    watching.join()
    found = [letter["id"] for answer in answers for letter in answer["letters"]]
    assert found == ["acceptance__big-8"]
    assert sum(answer["scanned"] for answer in answers) == 9
    assert len(answers) >= 2, "64 MiB are less than nine of them"
    assert slowest < 1.0
