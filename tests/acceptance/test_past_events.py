"""Past events of a running server: by time, topic and outcome, newest first, in pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.common.server import Server, Start


def events(server: Server, **query: str) -> Any:
    answer = server.get("/api/events?" + urlencode(query))
    assert answer.status == 200, answer
    return answer.json


def ids(page: Any) -> list[str]:
    return [event["messageId"] for event in page["events"]]


def send(server: Server, number: int, **more: Any) -> None:
    tick = {"symbol": f"S{number}", "price": number, "ts": "2026-01-08T12:00:00Z", "eventId": f"ev-{number}"}
    server.send({**tick, **more}, message_id=f"m-{number}", topic="market-ticks")


def test_events_are_listed_newest_first_without_payloads(start: Start) -> None:
    server = start()
    send(server, 1)
    send(server, 2)
    server.send({"nothing": 1}, message_id="lost")
    page = events(server)
    assert (ids(page), page["next"], page["keepsLog"]) == (["lost", "m-2", "m-1"], None, True)
    newest = page["events"][1]
    assert newest.keys() == {
        *("messageId", "eventId", "topic", "publishTime", "arrivedAt", "outcome", "reason", "views")
    }
    assert (newest["eventId"], newest["topic"], newest["outcome"]) == ("ev-2", "market-ticks", "applied")
    assert [view["doc"] for view in newest["views"]] == ["market_ticks_latest/S2", "market_ticks/ev-2"]
    assert ids(events(server, outcome="poison")) == ["lost"]
    assert ids(events(server, topic="market-ticks")) == ["m-2", "m-1"]
    assert ids(events(server, topic="")) == ["lost"]
    assert ids(events(server, since=newest["arrivedAt"])) == ["lost", "m-2"]
    assert ids(events(server, until=newest["arrivedAt"])) == ["m-1"]
    assert ids(events(server, since="1h", outcome="applied")) == ["m-2", "m-1"]
    assert ids(events(server, until="1h")) == []


def test_pages_follow_each_other(start: Start) -> None:
    server = start()
    for number in range(5):
        send(server, number)
    seen, after = [], ""
    while True:
        page = events(server, limit="2", after=after)
        seen += ids(page)
        if page["next"] is None:
            break
        after = page["next"]
    assert seen == ["m-4", "m-3", "m-2", "m-1", "m-0"]


def test_a_replayed_letter_is_one_event(start: Start) -> None:
    """With the arrival of its first delivery."""
    server = start()
    server.send({"nothing": 1}, message_id="lost")
    arrived_at = events(server)["events"][0]["arrivedAt"]
    send(server, 1)
    assert server.http.post("/api/letters/acceptance__lost/replay", json={}).status_code == 200
    assert sorted(ids(events(server))) == ["lost", "m-1"]
    (lost,) = [event for event in events(server)["events"] if event["messageId"] == "lost"]
    assert lost["arrivedAt"] == arrived_at


def test_without_an_event_log_the_page_is_empty_and_says_why(start: Start) -> None:
    server = start(EVENT_LOG="off")
    send(server, 1)
    assert events(server) == {"events": [], "next": None, "keepsLog": False}


@pytest.mark.parametrize(
    "query",
    [
        *("since=soon", "until=x", "since=1h&until=2h", "outcome=", "outcome=fine", "limit=0"),
        *("after=x", "after=-1", "after=12%20abc", "after=" + "9" * 19),
    ],
)
def test_a_wrong_query_is_refused(server: Server, query: str) -> None:
    answer = server.get(f"/api/events?{query}")
    assert (answer.status, answer.json["reason"]) == (400, "invalid_query")
