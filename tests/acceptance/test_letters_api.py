"""Many letters at once, of a running server: which there are, which match, and what is done to a selection."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.acceptance.event_streams import reading
from tests.common.process import millpond
from tests.common.push import JSON
from tests.common.server import Server, Start, answer_of

T0 = "2026-01-08T12:00:00Z"
MANY = 10_000


def post(server: Server, path: str, body: Any) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return answer_of(server.http.post(path, content=content, headers=JSON))


def bury(server: Server) -> None:
    """Letters of several kinds: three that no topic could be found for, two bad ticks, one view's bug."""
    for number in range(3):
        server.send({"nothing": number}, message_id=f"none-{number}")
    for number in range(2):
        server.send({"symbol": "S", "ts": "soon"}, message_id=f"tick-{number}", topic="market-ticks")
    server.send({"box": 1}, message_id="bug-0", topic="boxes")


VIEWS = """
from millpond import Latest

class Boxes(Latest):
    topics = ("boxes",)
    collection = "boxes"
    key = "box"

    def document(self, event):
        raise RuntimeError("a bug of a view")
"""


@pytest.fixture
def buried(start: Start, tmp_path: Path) -> Server:
    (tmp_path / "boxes.py").write_text(VIEWS, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    server = start(tmp_path, VIEWS="boxes", PYTHONPATH=path, VIEW_ERROR_PARK_AFTER_S="0")
    bury(server)
    return server


def ids(server: Server, **query: str) -> list[str]:
    answer = server.get("/api/letters/ids?" + urlencode(query))
    assert answer.status == 200, answer
    assert answer.json["more"] is False
    return [found.removeprefix("acceptance__") for found in answer.json["ids"]]


# --- looking -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, ["bug-0", "none-0", "none-1", "none-2", "tick-0", "tick-1"]),
        ({"reason": "unroutable_payload"}, ["none-0", "none-1", "none-2"]),
        ({"reason": ""}, []),
        ({"topic": ""}, ["none-0", "none-1", "none-2"]),
        ({"view": "boxes"}, ["bug-0"]),
        ({"view": "", "topic": "market-ticks"}, []),
        ({"view": "", "topic": ""}, ["none-0", "none-1", "none-2"]),
        ({"view": "market_ticks_latest"}, ["tick-0", "tick-1"]),
        ({"view": "market_ticks"}, []),
        ({"state": "failed"}, ["none-1"]),
        ({"replayed": "yes"}, []),
        ({"replayed": "no", "state": "never", "topic": ""}, ["none-0", "none-2"]),
        ({"replayed": "yes", "state": "failed"}, []),
    ],
    ids=str,
)
def test_letters_that_match(buried: Server, query: dict[str, str], wanted: list[str]) -> None:
    """By equality, all together; the list, in pages, and the ids agree."""
    assert post(buried, "/api/letters/acceptance__none-1/replay", b"").status == 200
    assert ids(buried, **query) == wanted
    listed: list[str] = []
    after = ""
    while True:
        page = buried.get("/api/letters?" + urlencode({**query, "limit": "2", "after": after})).json
        assert set(page) == {"letters", "next"}
        found = [letter["messageId"] for letter in page["letters"]]
        assert len(found) <= 2
        assert not set(found) & set(listed), "a page begins after the one before it"
        listed += found
        if page["next"] is None:
            break
        after = page["next"]
    assert listed == wanted


@pytest.mark.parametrize(
    "query",
    [
        *("replayed=maybe", "replayed=", "replayed=YES", "state=", "state=replayed", "state=Never"),
        *("limit=0&reason=x", "limit=x&view="),
        *("since=yesterday", "until=5", "since=1h&until=2h", "since=2026-01-08"),
    ],
)
def test_a_wrong_query_is_refused(server: Server, query: str) -> None:
    """With the allowed values."""
    answer = server.get(f"/api/letters?{query}")
    assert (answer.status, answer.json["reason"]) == (400, "invalid_query")
    if not query.startswith("limit"):
        assert server.get(f"/api/letters/ids?{query}").json == answer.json


def test_letters_are_found_by_the_time_of_their_burial(start: Start) -> None:
    """The list and the ids agree, so that a selection by range is exact."""
    server = start()
    server.send({"nothing": 1}, message_id="early")
    buried_at = server.get("/api/letters/acceptance__early").json["buriedAt"]
    server.send({"nothing": 2}, message_id="late")
    late_at = server.get("/api/letters/acceptance__late").json["buriedAt"]
    for query, wanted in (
        ({"since": late_at}, ["late"]),
        ({"since": buried_at}, ["early", "late"]),
        ({"until": late_at}, ["early"]),
        ({"since": "1h"}, ["early", "late"]),
        ({"until": "1h"}, []),
        ({"since": buried_at, "until": late_at, "reason": "unroutable_payload"}, ["early"]),
        ({"since": buried_at, "reason": "view_error"}, []),
        ({"since": "", "until": ""}, ["early", "late"]),
    ):
        assert ids(server, **query) == wanted, query
        listed = server.get("/api/letters?" + urlencode(query)).json["letters"]
        assert [letter["messageId"] for letter in listed] == wanted, query


def test_groups(buried: Server) -> None:
    """How many lie there for what, the most first; a replay and a purge are seen at once."""
    found = buried.get("/api/letters/groups").json
    none_replayed = {"replayed": 0, "failed": 0}
    none = {"reason": "unroutable_payload", "view": None, "topic": "", "letters": 3, **none_replayed}
    latest = "market_ticks_latest"
    ticks = {"reason": "invalid_event", "view": latest, "topic": "market-ticks", "letters": 2, **none_replayed}
    boxes = {"reason": "view_error", "view": "boxes", "topic": "boxes", "letters": 1, **none_replayed}
    assert found == {"total": 6, "groups": [none, ticks, boxes]}
    post(buried, "/api/letters/replay", {"ids": ["acceptance__none-0"]})
    assert buried.get("/api/letters/groups").json["groups"][0] == {**none, "failed": 1}
    post(buried, "/api/letters/purge", {"ids": [f"acceptance__none-{number}" for number in range(3)]})
    assert buried.get("/api/letters/groups").json == {"total": 3, "groups": [ticks, boxes]}


def test_a_letter_may_be_called_as_a_path_is(start: Start) -> None:
    """A letter whose id is one of our words can still be opened: its id always holds more than the word."""
    server = start()
    for name in ("groups", "ids", "replay", "purge"):
        server.send({"nothing": 1}, message_id=name, subscription=name)
        assert server.get(f"/api/letters/{name}__{name}").json["messageId"] == name


# --- replay ------------------------------------------------------------------------------------------------------


def test_several_letters_are_replayed(start: Start, tmp_path: Path) -> None:
    """Each answered as if alone, in the order asked; what is gone is told, and keeps no other from being tried."""
    before = start(tmp_path)
    for number in range(40):
        before.send({"symbol": f"S{number}", "price": 1, "ts": T0}, message_id=f"r-{number}", published=T0)
    before.send(b"[]", message_id="hopeless")
    assert before.terminate() == 0
    server = start(tmp_path, ROUTES='{"acceptance":{"kind":"market-ticks","topic":"ticks"}}')
    wanted = [
        *(f"acceptance__r-{number}" for number in reversed(range(40))),
        "no-such-letter",
        "acceptance__hopeless",
    ]
    with reading(server, "/api/live") as page:
        answer = post(server, "/api/letters/replay", {"ids": wanted})
        page.find("changed", lambda content: content["letters"])
    results = answer.json["results"]
    assert answer.status == 200
    assert [result["id"] for result in results] == wanted
    assert {result["outcome"] for result in results[:40]} == {"applied"}
    assert results[0]["views"][0]["doc"] == "market_ticks_latest/S39"
    assert (results[40]["outcome"], results[40]["reason"]) == ("not_found", "not_found")
    assert (results[41]["outcome"], results[41]["reason"]) == ("poison", "not_an_object")
    assert all(set(result) - {"error"} == {"id", "outcome", "reason", "topic", "views"} for result in results)
    assert len(server.documents(("market_ticks_latest",))) == 40
    assert len(ids(server, state="succeeded")) == 40
    assert ids(server, replayed="yes") == ids(server, state="succeeded")
    assert ids(server, state="failed") == ["hopeless"]
    (group,) = [g for g in server.get("/api/letters/groups").json["groups"] if g["reason"] == "unroutable_payload"]
    assert (group["letters"], group["replayed"], group["failed"]) == (40, 40, 0)
    again = post(server, "/api/letters/replay", {"ids": wanted[:3]}).json["results"]
    assert [result["outcome"] for result in again] == ["duplicate"] * 3


def test_a_replay_that_finds_no_room_is_told_so(start: Start, tmp_path: Path) -> None:
    """With a waiting room for one, those that could not be tried are `retry`, and can be sent again."""
    server = start(tmp_path, CONSUMER_QUEUE_SIZE="1")
    names = [f"full-{number}" for number in range(60)]
    for name in names:
        server.send({"nothing": name}, message_id=name)
    left = [f"acceptance__{name}" for name in names]
    outcomes: Counter[str] = Counter()
    for _ in range(100):
        results = post(server, "/api/letters/replay", {"ids": left}).json["results"]
        outcomes.update(result["outcome"] for result in results)
        refused = [result for result in results if result["outcome"] == "retry"]
        assert {result["reason"] for result in refused} <= {"backpressure_queue_full"}
        assert all("full" in result["error"] for result in refused)
        left = [result["id"] for result in refused]
        if not left:
            break
    assert outcomes["poison"] == 60
    assert outcomes["retry"] > 0


# --- purge -------------------------------------------------------------------------------------------------------


def test_several_letters_are_purged(buried: Server) -> None:
    """Those that were there, and those that were not."""
    asked = ["acceptance__tick-0", "no-such-letter", "acceptance__none-2", "acceptance__tick-1"]
    answer = post(buried, "/api/letters/purge", {"ids": asked})
    assert (answer.status, answer.json) == (
        200,
        {
            "purged": ["acceptance__tick-0", "acceptance__none-2", "acceptance__tick-1"],
            "missing": ["no-such-letter"],
        },
    )
    assert ids(buried) == ["bug-0", "none-0", "none-1"]
    again = post(buried, "/api/letters/purge", {"ids": asked})
    assert again.json == {"purged": [], "missing": asked}


def test_a_purge_of_what_was_replayed_leaves_what_failed_again(start: Start, tmp_path: Path) -> None:
    """Purging the letters of `replayed=yes` loses no message; bound to a state, letters in another one stay."""
    before = start(tmp_path)
    for name in ("good", "later", "untouched"):
        before.send({"symbol": name, "price": 1, "ts": T0}, message_id=name, published=T0)
    before.send(b"[]", message_id="hopeless")
    assert before.terminate() == 0
    server = start(tmp_path, ROUTES='{"acceptance":{"kind":"market-ticks","topic":"ticks"}}')
    replayed = [f"acceptance__{name}" for name in ("good", "hopeless")]
    post(server, "/api/letters/replay", {"ids": replayed})
    states = {letter["messageId"]: letter["state"] for letter in server.letters()}
    assert states == {"good": "succeeded", "hopeless": "failed", "later": "never", "untouched": "never"}
    assert server.get("/api/letters/acceptance__hopeless").json["state"] == "failed"
    found = server.get("/api/letters/ids?replayed=yes").json["ids"]
    everything = server.get("/api/letters/ids").json["ids"]
    bound = post(server, "/api/letters/purge", {"ids": everything, "state": "succeeded"})
    assert bound.json == {"purged": found, "missing": sorted({*everything} - {*found})}
    assert ids(server) == ["hopeless", "later", "untouched"]
    post(server, "/api/letters/acceptance__later/replay", b"")
    again = server.get("/api/letters/ids?replayed=yes").json["ids"]
    assert post(server, "/api/letters/purge", {"ids": again}).json["purged"] == ["acceptance__later"]
    assert ids(server) == ["hopeless", "untouched"]


BAD_BODIES: dict[str, Any] = {
    "nothing": b"",
    "no json": b"{",
    "not utf-8": b'{"ids":["\xff"]}',
    "null": None,
    "a list": ["acceptance__none-0"],
    "text": "acceptance__none-0",
    "no ids": {},
    "null ids": {"ids": None},
    "one id": {"ids": "acceptance__none-0"},
    "none": {"ids": []},
    "too many": {"ids": [f"x-{number}" for number in range(101)]},
    "a number": {"ids": ["acceptance__none-0", 1]},
    "a null": {"ids": ["acceptance__none-0", None]},
    "empty": {"ids": ["acceptance__none-0", ""]},
    "too long": {"ids": ["acceptance__none-0", "x" * 1_501]},
    "twice": {"ids": ["acceptance__none-0", "acceptance__none-0"]},
    "something more": {"ids": ["acceptance__none-0"], "force": True},
    "an unknown state": {"ids": ["acceptance__none-0"], "state": "replayed"},
    "a state that is no text": {"ids": ["acceptance__none-0"], "state": True},
    "misspelt": {"Ids": ["acceptance__none-0"]},
    "an object": {"ids": {"0": "acceptance__none-0"}},
    "deep": b"[" * 100_000,
}


@pytest.fixture(scope="module")
def one(start: Start) -> Server:
    server = start()
    server.send({"nothing": 1}, message_id="none-0")
    return server


@pytest.mark.parametrize("path", ["/api/letters/replay", "/api/letters/purge"])
@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_wrong_body_changes_nothing(one: Server, path: str, body: Any) -> None:
    """It is refused whole, with what is expected, and one line in the log."""
    before = one.letters()
    one.put_up_fence()
    answer = post(one, path, body)
    assert (answer.status, answer.json["reason"]) == (400, "invalid_body")
    assert "ids" in answer.json["error"]
    (line,) = [json.loads(line) for line in one.fence()]
    assert (line["reason"], line["severity"], line["path"]) == ("invalid_body", "WARNING", path)
    assert one.letters() == before


# --- very many ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowded(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with ten thousand letters."""
    folder = tmp_path_factory.mktemp("crowded")
    topics = ("market-ticks", "market-bars-1m", "system.events")
    lines = [
        {"data": {"nothing": n, "symbol": True}, "topic": topics[n % 3], "messageId": f"{n:05d}", "publishTime": T0}
        for n in range(MANY)
    ]
    (folder / "messages.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    millpond(folder, "ingest", "messages.jsonl", env={"STORE": f"sqlite:{folder / 'millpond.db'}"})
    return start(folder)


def test_ten_thousand_letters(crowded: Server) -> None:
    """Groups and ids are complete, and messages are answered quickly while they are gathered."""
    slowest = 0.0
    done = threading.Event()

    def push() -> None:
        nonlocal slowest
        number = 0
        while not done.is_set():
            began = time.monotonic()
            crowded.send({"service": "meanwhile", "timestamp": T0}, message_id=f"meanwhile-{number}")
            slowest = max(slowest, time.monotonic() - began)
            number += 1

    pushing = threading.Thread(target=push)
    pushing.start()
    try:
        began = time.monotonic()
        groups = crowded.get("/api/letters/groups").json
        groups_s = time.monotonic() - began
        began = time.monotonic()
        found = crowded.get("/api/letters/ids?topic=market-ticks").json
        ids_s = time.monotonic() - began
    finally:
        done.set()
        pushing.join()
    assert groups["total"] == MANY
    assert sum(group["letters"] for group in groups["groups"]) == MANY
    assert {group["topic"] for group in groups["groups"]} == {"market-ticks", "market-bars-1m", "system.events"}
    ticks = sum(group["letters"] for group in groups["groups"] if group["topic"] == "market-ticks")
    assert (len(found["ids"]), found["more"]) == (ticks, False)
    assert found["ids"] == sorted(set(found["ids"]))
    assert groups_s < 5
    assert ids_s < 5
    assert slowest < 0.5


def test_groups_are_gathered_once_for_all_who_ask(crowded: Server) -> None:
    """Ten who ask at the same time wait for one look through the letters, not for ten."""
    began = time.monotonic()
    crowded.get("/api/letters/groups")
    askers = [threading.Thread(target=crowded.get, args=("/api/letters/groups",)) for _ in range(10)]
    crowded.http.post("/api/letters/purge", json={"ids": ["no-such-letter"]}).raise_for_status()
    alone_s = time.monotonic() - began
    began = time.monotonic()
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert time.monotonic() - began < max(1.0, 4 * alone_s)
