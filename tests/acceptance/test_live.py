"""The streams an open page reads, of a running server: complete, in time, bounded, over when either side ends."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.acceptance.event_streams import Reading, reading, unread
from tests.common.memory import Memory
from tests.common.push import JSON, push_bytes, push_request
from tests.common.server import ANSWER_S, Server, Start, read_answer
from tests.common.waiting import eventually

T0 = "2026-01-08T12:00:00Z"
STREAMS_MAX = 64
END_S = 8.0
OUTCOMES = {"applied", "duplicate", "stale_ignored", "too_old_ignored", "filtered", "poison", "retry"}
# More outcomes of the longest kind than a connection's buffers hold: over five megabytes.
FILLED = 1_500
STEP_NAMES = {"at", "outcomes", "views", "p50", "p99", "waiting", "commits", "committed", "buried"}


def heartbeat(server: Server, name: str, **message: Any) -> None:
    server.send({"service": name, "timestamp": T0}, message_id=message.pop("message_id", name), **message)


def troubles(server: Server) -> list[str]:
    """Lines of errors that were not foreseen, or of an exception."""
    return [line["message"] for line in server.log_lines if "stack" in line or "logger" in line]


# --- /api/live ---------------------------------------------------------------------------------------------------


def test_hello_comes_first_and_is_complete(start: Start) -> None:
    """Then the alerts, then the totals: a page can draw all it shows before anything happens."""
    server = start(ENV="prod")
    with reading(server, "/api/live") as page:
        page.find("totals")
        assert [event.name for event in page.events[:3]] == ["hello", "alerts", "totals"]
        hello = page.events[0].content
    assert set(hello) == {"version", "env", "store", "startedAt", "now", "accepting", "views", "history"}
    assert (hello["env"], hello["accepting"]) == ("prod", True)
    assert hello["store"].startswith("sqlite:")
    assert hello["startedAt"] < hello["now"]
    ticks = next(view for view in hello["views"] if view["name"] == "market_ticks_latest")
    assert ticks == {
        "name": "market_ticks_latest",
        "kind": "latest",
        "collection": "market_ticks_latest",
        "topics": ["market-ticks"],
        "builtIn": True,
        "nested": False,
    }
    history = hello["history"]
    assert set(history) == STEP_NAMES | {"stepSeconds", "viewSteps"}
    assert (history["stepSeconds"], history["viewSteps"], history["views"]) == (2, 30, {})
    assert set(history["outcomes"]) == OUTCOMES


def test_samples_count_what_was_pushed(start: Start) -> None:
    """Every two seconds a step; together the steps hold each message once, and the history holds them too."""
    server = start()
    with reading(server, "/api/live") as page:
        for number in range(20):
            heartbeat(server, f"s-{number}")
        heartbeat(server, "s-0")
        server.send({"nothing": 1}, message_id="poison")

        def counted() -> dict[str, int]:
            samples = [event.content["outcomes"] for event in page.named("sample")]
            return {name: sum(sample[name] for sample in samples) for name in OUTCOMES}

        page.wait(lambda: sum(counted().values()) == 22, "not everything was counted")
        assert counted() == {**dict.fromkeys(OUTCOMES, 0), "applied": 20, "duplicate": 1, "poison": 1}
        page.wait(lambda: len(page.named("sample")) >= 3, "no third sample")
        samples = page.named("sample")
        assert all(set(sample.content) == STEP_NAMES for sample in samples)
        busy = [sample.content for sample in samples if sum(sample.content["outcomes"].values())]
        quiet = [sample.content for sample in samples if not sum(sample.content["outcomes"].values())]
        assert sum(sample["buried"] for sample in busy) == 1
        assert sum(sample["committed"] for sample in busy) == 22
        by_view = [sample["views"] for sample in busy]
        assert all(views.keys() <= {"ops_services"} for views in by_view)
        applied = sum(views.get("ops_services", {}).get("applied", 0) for views in by_view)
        assert (applied, {len(sample["views"]) for sample in quiet}) == (20, {0})
        assert sum(sample["commits"] for sample in busy) >= 1
        assert all(0 < sample["p50"] <= sample["p99"] < 10 for sample in busy)
        assert all(sample["p50"] is None and sample["p99"] is None for sample in quiet)
        between = [later.content["at"] - sooner.content["at"] for sooner, later in itertools.pairwise(samples)]
        assert all(1.5 < seconds < 3.5 for seconds in between), between
        told = [sample.content for sample in samples]
    with reading(server, "/api/live") as later:
        history = later.events[0].content["history"]
    assert history["at"][: len(told)] == [sample["at"] for sample in told]
    for name in OUTCOMES:
        assert history["outcomes"][name][: len(told)] == [sample["outcomes"][name] for sample in told]
    assert {name: sum(minutes) for name, minutes in history["views"]["ops_services"].items()} == {
        "applied": 20,
        "duplicate": 1,
    }
    scalars = STEP_NAMES - {"outcomes", "views"}
    columns = [history["at"], *history["outcomes"].values(), *(history[name] for name in scalars)]
    assert {len(column) for column in columns} == {len(history["at"])}


def test_a_new_page_misses_no_step(server: Server) -> None:
    """What hello's history holds and what is sampled afterwards follow each other without gap or overlap."""
    with reading(server, "/api/live") as first:
        first.find("sample")
        with reading(server, "/api/live") as second:
            second.find("sample")
            shown = [*second.events[0].content["history"]["at"], second.find("sample")["at"]]
        first.wait(lambda: first.named("sample")[-1].content["at"] >= shown[-1], "the first page is behind")
        seen = [sample.content["at"] for sample in first.named("sample")]
    assert [at for at in shown if at >= seen[0]] == [at for at in seen if at <= shown[-1]]


def test_changed_names_the_documents(server: Server) -> None:
    """What was written, and not what was not; letters are told as such."""
    heartbeat(server, "unchanged")
    with reading(server, "/api/live") as page:
        server.send({"symbol": "CHG", "ts": T0, "price": 1}, message_id="chg", topic="market-ticks")
        heartbeat(server, "unchanged")
        changed = page.find("changed")
        assert changed == {
            "docs": ["market_ticks_latest/CHG", "market_ticks/chg"],
            "more": False,
            "letters": False,
        }
        server.send({"nothing": 1}, message_id="chg-poison")
        assert page.find("changed", lambda content: content["letters"])["docs"] == []
        server.http.delete("/api/letters/acceptance__chg-poison").raise_for_status()
        page.wait(lambda: len([c for c in page.named("changed") if c.content["letters"]]) == 2, "no purge was told")
        docs = [doc for event in page.named("changed") for doc in event.content["docs"]]
        assert docs.count("ops_services/dev__unchanged") == 0


def test_changed_is_bounded(server: Server) -> None:
    """However much changes in a second, a page is told of some of it, and that there is more."""
    with reading(server, "/api/live") as page:
        # With the longest ids few are enough, also where the machine is slow.
        push_many(server, [f"many-{number}-".ljust(1_400, "x") for number in range(600)])
        page.find("changed", lambda content: content["more"])
        for event in page.named("changed"):
            assert sum(map(len, event.content["docs"])) <= 64 * 1024
        moments = [event.at for event in page.named("changed")]
        assert all(later - sooner > 0.5 for sooner, later in itertools.pairwise(moments))


def push_many(server: Server, names: list[str], topic: str | None = None) -> None:
    """Push pipelined on a few connections: as fast as one client can."""
    waiting = 8
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(server.connect(30)) for _ in range(waiting)]
        for at in range(0, len(names), waiting):
            chunk = list(zip(connections, names[at : at + waiting], strict=False))
            for connection, name in chunk:
                payload = {"service": name, "timestamp": T0, "symbol": name, "eventId": name}
                body = push_bytes(payload, message_id=name[:100], topic=topic)
                connection.sendall(push_request(body))
            for connection, _ in chunk:
                assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_totals_come_at_once_and_again(start: Start) -> None:
    """Every 15 s, whatever happens; the store is asked once for all pages."""
    server = start()
    heartbeat(server, "t")
    with reading(server, "/api/live") as page, reading(server, "/api/live") as other:
        first = page.find("totals")
        assert first == {
            "letters": 0,
            "collections": [
                {"collection": "ops_dedupe", "docs": 1},
                {"collection": "ops_services", "docs": 1},
            ],
        }
        server.send({"nothing": 1}, message_id="letter")
        with reading(server, "/api/live") as late:
            # Counted a moment ago, and not counted again for one more page.
            assert late.find("totals") == first
        fresh = page.find("totals", lambda content: content != first, timeout_s=20)
        assert fresh["letters"] == 1
        assert {"collection": "dead_letters", "docs": 1} in fresh["collections"]
        assert other.find("totals", lambda content: content != first) == fresh
        between = [event.at for event in page.named("totals")]
        assert 13 < between[1] - between[0] < 18
    assert "millpond_letters 1.0" in server.http.get("/metrics").text


def test_alerts_are_told_and_told_again_when_one_changes(start: Start) -> None:
    """Each with everything a page shows; what the process cannot see says so."""
    server = start()
    server.send({"nothing": 1}, message_id="buried")
    with reading(server, "/api/live") as page:
        alerts = page.find("alerts")["alerts"]
        assert alerts
        for alert in alerts:
            assert set(alert) == {"id", "title", "state", "value", "unit", "text", "since", "runbook", "view"}
            assert alert["state"] in {"ok", "warning", "critical", "unseen"}
            assert alert["runbook"] == f"runbook#{alert['id']}"
        # The letter was not counted yet when the server had just begun.
        changed = page.find("alerts", lambda content: content["alerts"] != alerts)["alerts"]
    states = [{alert["id"]: alert["state"] for alert in told} for told in (alerts, changed)]
    assert states[0].keys() == states[1].keys()
    assert states[0] != states[1]


def test_pages_come_and_go(start: Start) -> None:
    """A page that is closed frees its place at once, however many came before it."""
    server = start()
    for _ in range(STREAMS_MAX + 10):
        with server.http.stream("GET", "/api/live") as response:
            assert response.status_code == 200
            assert next(response.iter_raw()).startswith(b"event: hello\n")
    eventually(lambda: streams_left(server) == STREAMS_MAX, 10.0, "closed streams still hold their places")
    assert troubles(server) == []


def streams_left(server: Server) -> int:
    """How many more streams may be opened."""
    with open_streams(server, STREAMS_MAX + 1) as opened:
        return opened


@contextlib.contextmanager
def open_streams(server: Server, wanted: int) -> Iterator[int]:
    """Open so many, or as many as there may be."""
    with contextlib.ExitStack() as stack:
        for number in range(wanted):
            path = "/api/live" if number % 2 else "/api/tail"
            response = stack.enter_context(server.http.stream("GET", path))
            if response.status_code != 200:
                yield number
                return
        yield wanted


def test_there_are_only_so_many_streams(start: Start) -> None:
    """One more is refused with a reason, and let in once another is gone."""
    server = start()
    limits = httpx.Limits(max_connections=200)
    server.http.close()
    server.http = httpx.Client(base_url=server.url, timeout=ANSWER_S, trust_env=False, limits=limits)
    with contextlib.ExitStack() as stack:
        last = [stack.enter_context(server.http.stream("GET", "/api/live")) for _ in range(STREAMS_MAX)][-1]
        for path in ("/api/live", "/api/tail?topic=x"):
            refused = server.get(path)
            assert (refused.status, refused.json["reason"]) == (429, "too_many_streams")
            assert int(refused.headers["retry-after"]) >= 1
        # Everything else goes on.
        heartbeat(server, "meanwhile")
        assert server.get("/api/stats").json["total"] == 1
        last.close()
        eventually(lambda: server.http.head("/api/tail").status_code == 200, 10.0, "the place was not freed")


# --- both ends ---------------------------------------------------------------------------------------------------


def test_the_end_of_the_server_ends_the_streams(start: Start) -> None:
    """SIGTERM with pages open, one of them never read: all streams end by the book, at once, without an error."""
    server = start()
    with contextlib.ExitStack() as stack:
        pages = [stack.enter_context(reading(server, "/api/live")) for _ in range(5)]
        tail = stack.enter_context(reading(server, "/api/tail"))
        stuck = stack.enter_context(unread(server, "/api/tail"))
        fill(server, tail)
        began = time.monotonic()
        assert server.terminate() == 0
        assert time.monotonic() - began < END_S / 2
        for stream in (*pages, tail):
            stream.wait_for_end()
        stuck.close()
    assert troubles(server) == []
    severities = {line["severity"] for line in server.log_lines}
    assert severities == {"INFO"}


def fill(server: Server, tail: Reading) -> None:
    """So much that the buffers of a client that does not read are full, while one that reads gets it all."""
    names = [f"fill-{number}-".ljust(1_400, "x") for number in range(250)]
    while len(tail.named("outcome")) < FILLED:
        push_many(server, names, topic="market-ticks")


def test_a_client_that_is_gone_is_noticed(start: Start) -> None:
    """Its place is free within moments, before anything is sent."""
    server = start()
    with contextlib.ExitStack() as stack:
        for _ in range(STREAMS_MAX):
            stack.enter_context(unread(server, "/api/tail"))
        assert server.http.head("/api/tail").status_code == 429
    eventually(lambda: server.http.head("/api/tail").status_code == 200, 2, "the streams were not freed")
    assert troubles(server) == []


@pytest.mark.parametrize("path", ["/api/live", "/api/tail"])
def test_head_has_an_end(server: Server, path: str) -> None:
    """The headers of the stream and nothing more: the connection is free for the next request."""
    with server.connect() as connection:
        for target in (f"HEAD {path}", "GET /live"):
            connection.sendall(f"{target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            answer = read_answer(connection)
            assert answer.status == 200
    assert answer.json == {"status": "ok", "waiting": 0}


# --- /api/tail ---------------------------------------------------------------------------------------------------


def test_tail_tells_what_became_of_a_message(server: Server) -> None:
    """Everything a reader wants to know, poison with its error, requests without a message as such."""
    with reading(server, "/api/tail") as tail:
        payload = {"symbol": "TAIL", "ts": T0, "eventId": "event-1"}
        server.send(payload, message_id="tail-1", published=T0, topic="market-ticks", attempt=3)
        shown = tail.find("outcome")
        assert 0 < shown.pop("latencyMs") < 10_000
        assert shown.pop("at").endswith("Z")
        assert shown == {
            "messageId": "tail-1",
            "eventId": "event-1",
            "topic": "market-ticks",
            "subscription": "projects/local/subscriptions/acceptance",
            "publishTime": T0,
            "deliveryAttempt": 3,
            "outcome": "applied",
            "reason": "applied",
            "views": [
                {
                    "view": "market_ticks_latest",
                    "doc": "market_ticks_latest/TAIL",
                    "outcome": "applied",
                    "reason": "applied",
                },
                {"view": "market_ticks", "doc": "market_ticks/event-1", "outcome": "applied", "reason": "applied"},
            ],
            "error": None,
        }
        server.send({"service": "tail", "timestamp": "soon"}, message_id="tail-2")
        poison = tail.find("outcome", lambda content: content["messageId"] == "tail-2")
        assert [(view["view"], view["outcome"]) for view in poison["views"]] == [("ops_services", "poison")]
        assert "timestamp must be an RFC 3339 time" in poison["error"]
        server.push(b"{}")
        nothing = tail.find("outcome", lambda content: content["reason"] == "malformed_envelope")
        assert (nothing["messageId"], nothing["publishTime"], nothing["eventId"]) == ("", None, None)


HOSTILE = ["a\ndata: {}\n\nevent: x", "a\rb", "a\u2028b", "<script>", "\u202e", '"}', "\x1b[2J", "\x00"]


def test_what_a_message_says_cannot_break_the_stream(server: Server) -> None:
    """Line breaks and worse in names come out as they went in, each in an event of its own."""
    with reading(server, "/api/tail", topic="system.events") as tail:
        for number, text in enumerate(HOSTILE):
            server.send({"service": text, "timestamp": T0, "eventId": text}, message_id=f"hostile-{number}")
        tail.wait(lambda: len(tail.events) >= len(HOSTILE), "not all came")
    assert [event.content["eventId"] for event in tail.events] == HOSTILE
    assert {event.name for event in tail.events} == {"outcome"}


FILTERS: list[tuple[dict[str, str | list[str]], list[str]]] = [
    ({}, ["f-1", "f-2", "f-3", "f-4"]),
    ({"topic": "market-ticks"}, ["f-2", "f-4"]),
    ({"topic": ["market-ticks", "system.events"]}, ["f-1", "f-2", "f-4"]),
    ({"view": "market_ticks"}, ["f-2", "f-4"]),
    ({"outcome": "poison"}, ["f-3", "f-4"]),
    ({"outcome": ["poison", "applied"], "topic": "market-ticks"}, ["f-2", "f-4"]),
    ({"outcome": "poison", "view": "market_ticks_latest"}, ["f-4"]),
    ({"outcome": "poison", "view": "market_ticks"}, []),
    ({"topic": ""}, ["f-3"]),
]


def test_tail_filters(start: Start) -> None:
    """Any value of a parameter, and all parameters together."""
    server = start(STORE="memory")
    with contextlib.ExitStack() as stack:
        tails = [stack.enter_context(reading(server, "/api/tail", **query)) for query, _ in FILTERS]
        heartbeat(server, "f", message_id="f-1")
        server.send({"symbol": "F", "ts": T0}, message_id="f-2", topic="market-ticks")
        server.send({"nothing": 1}, message_id="f-3")
        server.send({"symbol": "F", "ts": "soon"}, message_id="f-4", topic="market-ticks")
        for (query, wanted), tail in zip(FILTERS, tails, strict=True):
            # The one that wants none of them comes after others, which have been told everything by then.
            if wanted:
                tail.find("outcome", functools.partial(is_of, wanted[-1]))
            assert [event.content["messageId"] for event in tail.events] == wanted, query


def is_of(message_id: str, content: Any) -> bool:
    return bool(content["messageId"] == message_id)


@pytest.mark.parametrize(
    "query",
    ["outcome=nonsense", "outcome=", "outcome=applied&outcome=APPLIED", "&".join(f"topic={n}" for n in range(101))],
)
def test_a_wrong_query_is_refused(server: Server, query: str) -> None:
    """And nothing is opened for it."""
    answer = server.get(f"/api/tail?{query}")
    assert (answer.status, answer.json["reason"]) == (400, "invalid_query")


def test_a_tail_that_is_not_read_costs_nobody_anything(start: Start) -> None:
    """Pushes go on, memory stays, and when it is read at last it says how much was left out."""
    server = start(STORE="memory")
    with reading(server, "/api/tail") as tail:
        # What the store and caches grow by; afterwards the same messages change nothing.
        fill(server, tail)
    with unread(server, "/api/tail") as connection, reading(server, "/api/tail") as tail:
        memory = Memory(server.process.pid)
        before = memory.now()
        fill(server, tail)
        assert memory.now() - before < 5
        text = b""
        while b"event: skipped" not in text:
            chunk = connection.recv(65_536)
            assert chunk
            text += chunk
    left_out = json.loads(text.partition(b"event: skipped\ndata: ")[2].partition(b"\n")[0])
    assert left_out["n"] > 0


def test_a_replay_is_seen(server: Server) -> None:
    """What people send again is told like what arrives."""
    server.send({"nothing": 1}, message_id="replayed")
    with reading(server, "/api/tail") as tail, reading(server, "/api/live") as page:
        server.http.post("/api/letters/acceptance__replayed/replay", headers=JSON).raise_for_status()
        assert tail.find("outcome")["messageId"] == "replayed"
        page.find("changed", lambda content: content["letters"])


# --- sparklines --------------------------------------------------------------------------------------------------


def test_sparklines(start: Start) -> None:
    """The last price of each second, by document id; what lost is not drawn, nor what has no price."""
    server = start()
    assert server.get("/api/sparklines").json == {"market_ticks_latest": {}}
    began = int(time.time())
    for number, (symbol, second, price) in enumerate(
        [("spy", 10, 1.5), ("spy", 20, "2.5"), ("spy", 15, 9), ("a/b", 10, 7), ("none", 10, None)]
    ):
        tick = {"symbol": symbol, "ts": f"2026-01-08T11:59:{second}Z", "price": price}
        server.send(tick, message_id=f"spark-{number}", topic="market-ticks")
    found = server.get("/api/sparklines").json["market_ticks_latest"]
    assert set(found) == {"SPY", "A%2FB"}
    assert found["SPY"][-1][1] == 2.5
    assert found["A%2FB"][0][1] == 7
    assert all(began <= second <= time.time() for points in found.values() for second, _ in points)
