"""The read API, single letters, health and metrics: what people look at, and the two things they may do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.common.push import JSON, PUBLISHED, push_body
from tests.common.server import Answer, Server, Start, answer_of

T0, T1 = "2026-01-08T12:00:00Z", "2026-01-08T12:00:01Z"
RFC3339_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")


def post(server: Server, path: str, **headers: str) -> Answer:
    return answer_of(server.http.post(path, headers={**JSON, **headers}))


def delete(server: Server, path: str, **headers: str) -> Answer:
    return answer_of(server.http.delete(path, headers=headers))


# --- documents ---------------------------------------------------------------------------------------------------


def test_a_document(server: Server) -> None:
    """A document comes with its collection, id, version and data, times in RFC 3339 UTC."""
    payload = {"service": "one", "status": "ok", "timestamp": "2026-01-08T13:00:00.25+01:00"}
    server.send(payload, message_id="one-1", published="2026-01-08T12:00:05+00:00")
    answer = server.get("/api/docs/ops_services/dev__one")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json) == {"collection", "id", "version", "data"}
    assert (answer.json["collection"], answer.json["id"]) == ("ops_services", "dev__one")
    assert answer.json["data"]["lastHeartbeatAt"] == "2026-01-08T12:00:00.250000Z"
    assert answer.json["data"]["source"]["publishedAt"] == "2026-01-08T12:00:05Z"


def test_a_version_changes_with_the_document(server: Server) -> None:
    """The same version means the same content: a no-op keeps it, a write changes it."""

    def version() -> Any:
        return server.get("/api/docs/ops_services/dev__versions").json["version"]

    server.send({"service": "versions", "timestamp": T0}, message_id="v-1")
    first = version()
    server.send({"service": "versions", "timestamp": T0}, message_id="v-1")
    assert version() == first
    server.send({"service": "versions", "timestamp": T1}, message_id="v-2")
    assert version() != first


@pytest.mark.parametrize(
    "path",
    [
        "/api/docs/ops_services/missing",
        "/api/docs/nowhere/missing",
        "/api/docs/ops_services/" + "x" * 3_000,
        "/api/docs/ops_services/%00",
        "/api/docs/ops_services/%2E%2E",
        "/api/docs/ops_services/%FF%FE",
        "/api/docs/a%2Fb/c",
        "/api/why/missing",
        "/api/why/%00",
        "/api/letters/missing",
        "/api/letters/%2E%2E%2F",
    ],
)
def test_absent_is_404(server: Server, path: str) -> None:
    """What is not there is answered 404 with a reason, and is no fault worth a log line."""
    server.put_up_fence()
    answer = server.get(path)
    assert (answer.status, answer.json["reason"]) == (404, "not_found")
    assert set(answer.json) == {"reason", "error"}
    assert server.fence() == []


@pytest.mark.parametrize(
    "name",
    ["a/b", ".", "..", "__x__", "%", "%2F", "a b", "a?b#c", "é😀", 'a"\nb', "a\x00b", "a+b&c=d", "x" * 1_400],
)
def test_any_id_can_be_read_back(server: Server, name: str) -> None:
    """Whatever a service is called, its document can be fetched by the name the answer gives, and is listed."""
    answer = server.send({"service": name, "timestamp": T0}, message_id=f"any {name!a:.80}")
    path = answer.json["views"][0]["doc"]
    document = server.document(path)
    assert document is not None
    assert document["serviceId"] == name
    assert path in server.documents(("ops_services",))


def test_a_collection_path_is_percent_encoded(start: Start) -> None:
    """Documents of nested collections are listed and read by their collection's path, encoded as one segment."""
    server = start(BARS_ID="nested")
    for minute in ("10:00", "10:01"):
        bar = {"symbol": "a/b", "ts": f"2026-01-08T{minute}:00Z"}
        server.send(bar, message_id=f"nested {minute}", topic="market-bars-1m")
    path = "market_bars_1m_by_symbol/A%2FB/days/20260108/minutes"
    listed = server.get("/api/docs/" + quote(path, safe=""))
    assert [(doc["collection"], doc["id"]) for doc in listed.json["docs"]] == [(path, "1000"), (path, "1001")]
    one = server.get(f"/api/docs/{quote(path, safe='')}/1001")
    assert one.json["data"]["ts"] == "2026-01-08T10:01:00Z"
    collections = server.get("/api/collections").json["collections"]
    assert {"collection": path, "docs": 2} in collections


def test_paging(start: Start) -> None:
    """Pages follow each other by id without gap or overlap, and the last one says so."""
    server = start()
    names = sorted(f"{number:02d}é/" for number in range(25))
    for name in reversed(names):
        server.send({"pipeline_id": name}, message_id=name, topic="ingest-heartbeat")
    pages = []
    after = ""
    while True:
        page = server.get(f"/api/docs/ingest_pipelines?limit=10&after={quote(after, safe='')}").json
        assert set(page) == {"docs", "next"}
        pages.append([doc["data"]["pipelineId"] for doc in page["docs"]])
        assert all(set(doc) == {"collection", "id", "version", "data"} for doc in page["docs"])
        if page["next"] is None:
            break
        assert page["next"] == page["docs"][-1]["id"]
        after = page["next"]
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [name for page in pages for name in page] == names
    exact = server.get("/api/docs/ingest_pipelines?limit=25").json
    assert (len(exact["docs"]), exact["next"]) == (25, None)
    assert server.get("/api/docs/ingest_pipelines?after=zzz").json == {"docs": [], "next": None}
    assert server.get("/api/docs/nowhere").json == {"docs": [], "next": None}


def test_receipts_and_letters_can_be_listed_too(server: Server) -> None:
    """The ledger is a collection like any other."""
    server.send({"service": "ledger", "timestamp": T0}, message_id="ledger")
    assert any(path.startswith("ops_dedupe/dev__system.events__") for path in server.documents(("ops_dedupe",)))


@pytest.mark.parametrize(
    "path",
    ["/", "/api", "/health", "/metrics", "/api/stats", "/api/docs/ops_services", "/api/letters", "/api/live"],
)
def test_head_is_get_without_a_body(server: Server, path: str) -> None:
    """HEAD is answered wherever GET is, with the same status and type."""
    with server.http.stream("GET", path) as got:
        head = server.http.head(path)
    assert (head.status_code, head.headers["content-type"]) == (got.status_code, got.headers["content-type"])
    assert head.content == b""


def test_the_api_lists_what_there_is(server: Server) -> None:
    """A newcomer finds the endpoints, and is told where by every path that is not there."""
    assert "GET /api lists what there is" in server.get("/nowhere").json["error"]
    text = server.http.get("/api").text
    for path in ("/pubsub/push", "/health", "/metrics", "/api/docs/", "/api/why/", "/api/stats", "/api/letters"):
        assert path in text


# --- why ---------------------------------------------------------------------------------------------------------


def test_why(server: Server) -> None:
    """By message id or event id: what became of it in each view, both stamps, and who won."""
    for message_id, published, time in (("why-1", T0, T0), ("why-2", T1, T1), ("why-3", T1, T0)):
        payload = {"symbol": "WHY", "ts": time, "eventId": f"event/{message_id}"}
        server.send(payload, message_id=message_id, published=published, topic="market-ticks")
    (won,) = server.get("/api/why/why-2").json["messages"]
    assert (won["messageId"], won["eventId"], won["topic"]) == ("why-2", "event/why-2", "market-ticks")
    assert (won["outcome"], won["reason"], won["letter"]) == ("applied", "applied", None)
    assert (won["publishTime"], won["subscription"]) == (T1, "projects/local/subscriptions/acceptance")
    assert RFC3339_UTC.fullmatch(won["arrivedAt"])
    views = {view["view"]: view for view in won["views"]}
    assert set(views) == {"market_ticks_latest", "market_ticks"}
    latest = views["market_ticks_latest"]
    assert (latest["doc"], latest["outcome"], latest["won"]) == ("market_ticks_latest/WHY", "applied", True)
    order = {"eventTime": T1, "sequence": None, "publishTime": T1, "messageId": "why-2"}
    assert latest["winner"] == {"stamp": latest["stamp"], "messageId": "why-2", "order": order}
    assert latest["order"] == order

    by_event = server.get("/api/why/" + quote("event/why-3", safe="")).json
    assert by_event["id"] == "event/why-3"
    (lost,) = by_event["messages"]
    verdict = next(view for view in lost["views"] if view["view"] == "market_ticks_latest")
    assert (verdict["reason"], verdict["won"]) == ("stale_event_ignored", False)
    assert verdict["stamp"] < verdict["winner"]["stamp"]
    assert verdict["winner"]["messageId"] == "why-2"
    assert verdict["order"] == {**order, "eventTime": T0, "messageId": "why-3"}
    assert verdict["winner"]["order"] == order


def test_why_tells_a_sequence(server: Server) -> None:
    """The parts of a stamp are what people compare; without a stamp there are none."""
    tick = {"symbol": "ORDER", "ts": T0, "sequence": 7}
    server.send(tick, message_id="order-1", published=T1, topic="market-ticks")
    (found,) = server.get("/api/why/order-1").json["messages"]
    assert [view["order"] for view in found["views"]] == [
        {"eventTime": T0, "sequence": 7, "publishTime": T1, "messageId": "order-1"}
    ] * len(found["views"])


def test_why_of_a_republished_event(server: Server) -> None:
    """An event id finds every copy of the event, oldest first."""
    for message_id in ("copy-1", "copy-2"):
        server.send({"service": "copies", "timestamp": T0, "eventId": "copied"}, message_id=message_id)
    found = server.get("/api/why/copied").json["messages"]
    assert [(one["messageId"], one["reason"]) for one in found] == [
        ("copy-1", "applied"),
        ("copy-2", "duplicate_event_noop"),
    ]


def test_why_of_poison_names_its_letter(server: Server) -> None:
    """A buried message can be followed to its letter."""
    server.send({"service": "why", "timestamp": "soon"}, message_id="why-poison")
    (found,) = server.get("/api/why/why-poison").json["messages"]
    assert (found["outcome"], found["reason"]) == ("poison", "invalid_event")
    assert [(view["view"], view["outcome"]) for view in found["views"]] == [("ops_services", "poison")]
    assert server.get(f"/api/letters/{quote(found['letter'], safe='')}").json["messageId"] == "why-poison"


# --- stats -------------------------------------------------------------------------------------------------------


def test_stats_count_each_message_once(start: Start) -> None:
    """Counts come from the event log: redelivery does not raise them, and what was refused is not in them."""
    server = start()
    empty = server.get("/api/stats").json
    assert (empty["total"], empty["topics"], empty["viewsSinceStart"]) == (0, {}, {})
    for _ in range(3):
        server.send({"service": "s", "timestamp": T1}, message_id="s-1")
        server.send({"service": "s", "timestamp": T0}, message_id="s-2")
        server.send({"service": "s", "timestamp": T1}, message_id="s-3")
        server.send({"symbol": "S", "ts": T0}, message_id="s-4", topic="market-ticks")
        server.send({"service": "s", "timestamp": "soon"}, message_id="s-5")
        server.send({"nothing": 1}, message_id="s-6")
        server.send({"nothing": 1}, message_id="s-7", attempt=1)
        server.push(b"")
    stats = server.get("/api/stats").json
    assert stats["total"] == 6
    assert stats["topics"] == {
        "system.events": {"applied": 1, "stale_ignored": 1, "duplicate": 1, "poison": 1},
        "market-ticks": {"applied": 1},
        "": {"poison": 1},
    }
    assert stats["waiting"] == 0
    # By view every delivery counts, and what a view refused; what no view saw is in none.
    assert stats["viewsSinceStart"] == {
        "ops_services": {"applied": 1, "duplicate": 7, "stale_ignored": 1, "poison": 3},
        "market_ticks_latest": {"applied": 1, "duplicate": 2},
        "market_ticks": {"applied": 1, "duplicate": 2},
    }


# --- letters -----------------------------------------------------------------------------------------------------


def letter_of(server: Server, message_id: str) -> dict[str, Any]:
    (letter,) = (letter for letter in server.letters() if letter["messageId"] == message_id)
    return letter


def test_a_letter(server: Server) -> None:
    """The delivery is kept whole, with why: id, reason, error, attributes, times, and the data as it came."""
    data = '{"symbol":"LETTER","ts":"soon","note":"é"}'
    body = push_body(data.encode(), message_id="letter/1", attributes={"topic": "market-ticks", "__a__": "b"})
    body["message"]["orderingKey"] = "key"
    server.push(body)
    letter = letter_of(server, "letter/1")
    assert letter["id"] == "acceptance__letter%2F1"
    assert letter["reason"] == "invalid_event"
    assert "ts must be an RFC 3339 time" in letter["error"]
    assert (letter["topic"], letter["subscription"]) == ("market-ticks", "projects/local/subscriptions/acceptance")
    assert json.loads(letter["attributes"]) == {"topic": "market-ticks", "__a__": "b"}
    assert (letter["publishTime"], letter["orderingKey"], letter["deliveryAttempt"]) == (PUBLISHED, "key", None)
    assert RFC3339_UTC.fullmatch(letter["buriedAt"])
    assert RFC3339_UTC.fullmatch(letter["expireAt"])
    assert letter["classification"] == "permanent"
    assert "data" not in letter
    opened = server.get(f"/api/letters/{quote(letter['id'], safe='')}")
    assert opened.json == {**letter, "data": data, "edits": []}


def test_burying_twice_is_burying_once(server: Server) -> None:
    """A redelivered poison message is acknowledged again and leaves one letter, as it was."""
    first = server.send({"service": "twice", "timestamp": "soon"}, message_id="twice")
    letter = letter_of(server, "twice")
    again = server.send({"service": "twice", "timestamp": "soon"}, message_id="twice")
    assert (again.status, again.json) == (first.status, first.json)
    assert letter_of(server, "twice") == letter


def test_a_letter_is_replayed_after_its_cause_is_gone(
    start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Unroutable until ROUTES says where it belongs: replayed, it is applied under its own id, and counts once."""
    folder = tmp_path_factory.mktemp("replay")
    before = start(folder)
    before.send({"symbol": "FIXED", "price": 7, "ts": T0}, message_id="fix", published=T0)
    letter = letter_of(before, "fix")
    path = f"/api/letters/{letter['id']}/replay"
    unchanged = post(before, path)
    assert (unchanged.status, unchanged.json["outcome"], unchanged.json["reason"]) == (
        200,
        "poison",
        "unroutable_payload",
    )
    assert before.terminate() == 0

    after = start(folder, ROUTES='{"acceptance":{"kind":"market-ticks","topic":"ticks"}}')
    replayed = post(after, path)
    assert replayed.status == 200
    assert (replayed.json["id"], replayed.json["outcome"], replayed.json["topic"]) == (
        letter["id"],
        "applied",
        "market-ticks",
    )
    assert [view["doc"] for view in replayed.json["views"]] == ["market_ticks_latest/FIXED", "market_ticks/fix"]
    document = after.document("market_ticks_latest/FIXED")
    assert document is not None
    assert document["source"]["topic"] == "ticks"
    assert (document["price"], document["source"]["messageId"], document["source"]["publishedAt"]) == (7, "fix", T0)
    noted = letter_of(after, "fix")
    assert (noted["replays"], noted["replayOutcome"], noted["replayReason"]) == (2, "applied", "applied")
    assert RFC3339_UTC.fullmatch(noted["replayedAt"])
    assert after.get("/api/stats").json["topics"] == {"market-ticks": {"applied": 1}}
    assert post(after, path).json["outcome"] == "duplicate"
    # The same message from the broker, at last, is recognised as well.
    late = after.send({"symbol": "FIXED", "price": 7, "ts": T0}, message_id="fix", published=T0)
    assert late.json["outcome"] == "duplicate"


def test_a_letter_is_deleted(server: Server) -> None:
    """A purged letter is gone, and purging it again is 404."""
    server.send({"nothing": 1}, message_id="purge")
    path = f"/api/letters/{letter_of(server, 'purge')['id']}"
    answer = delete(server, path)
    assert (answer.status, answer.json["purged"]) == (200, True)
    assert server.get(path).status == 404
    assert delete(server, path).status == 404
    assert post(server, path + "/replay").status == 404


# --- health and metrics ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/health", "/healthz", "/ready", "/readyz", "/live", "/livez"])
def test_health(server: Server, path: str) -> None:
    """Each endpoint answers with and without its z: Cloud Run reserves some paths that end in one."""
    answer = server.get(path)
    assert answer.status == 200
    assert answer.json["status"] == "ok"


def test_metrics(server: Server) -> None:
    """Prometheus text in base units; labels name topics, views, outcomes and statuses, never a message."""
    server.send({"service": "metric", "timestamp": T0}, message_id="metric-message-id")
    server.send({"service": "metric", "timestamp": "soon"}, message_id="metric-poison-id")
    server.push(b"")
    response = server.http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    assert families["millpond_messages"].type == "counter"
    assert families["millpond_message_seconds"].type == "histogram"
    for name, family in families.items():
        assert family.documentation, name
        assert not re.search(r"_(ms|millis|milliseconds|micros|us|minutes|hours|kb|mb|percent)(_|$)", name), name
        for sample in family.samples:
            assert not any("metric-" in value for value in sample.labels.values()), sample
            assert set(sample.labels) <= {"topic", "view", "outcome", "reason", "status", "kind", "le"}, sample
    counted = {
        (sample.labels["topic"], sample.labels["outcome"], sample.labels["reason"]): sample.value
        for sample in families["millpond_messages"].samples
        if sample.name == "millpond_messages_total"
    }
    assert counted["system.events", "applied", "applied"] >= 1
    assert counted["system.events", "poison", "invalid_event"] >= 1


def test_metrics_labels_stay_few(start: Start) -> None:
    """However many topics senders invent, the number of series does not grow with them."""
    server = start()

    def series() -> int:
        return sum(1 for line in server.http.get("/metrics").text.splitlines() if not line.startswith("#"))

    server.send({"nothing": 1}, message_id="label", topic="weather")
    server.http.get("/nowhere")
    server.raw(b"nonsense\r\n\r\n")
    # The letters are counted a second after the start, and have no series before that.
    until = monotonic() + 10
    while "\nmillpond_letters " not in server.http.get("/metrics").text:
        assert monotonic() < until
        sleep(0.1)
    before = series()
    for number in range(50):
        server.send({"nothing": 1, "topic": f"t{number}"}, message_id=f"label-{number}", topic=f"weather-{number}")
        server.http.get(f"/nowhere/{number}")
    assert series() == before


# --- who may -----------------------------------------------------------------------------------------------------

TOKEN = "t0ken-s3cr3t-\u00e4"  # noqa: S105 - made up for this test


@pytest.fixture(scope="module")
def tokened(start: Start) -> Server:
    return start(ADMIN_TOKEN=TOKEN)


@pytest.mark.parametrize(
    "wrong",
    ["", "Bearer", "Bearer wrong-s3cr3t", f"Bearer {TOKEN}x", TOKEN, f"Basic {TOKEN}"],
)
def test_a_wrong_admin_token(tokened: Server, wrong: str) -> None:
    """Only the whole token will do, and no log line holds it; test_access.py asks every route for it."""
    tokened.put_up_fence()
    answer = answer_of(tokened.http.get("/api/stats", headers={b"authorization": wrong.encode()}))
    assert (answer.status, answer.json["reason"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
    (line,) = map(json.loads, tokened.fence())
    assert (line["http_status"], line["severity"], line["reason"]) == (401, "WARNING", "unauthorized")
    right = {b"authorization": f"Bearer {TOKEN}".encode()}
    assert tokened.http.get("/api/stats", headers=right).status_code == 200
    assert not any("s3cr3t" in line for line in tokened.output)


def test_reading_does_not_need_the_event_log(start: Start) -> None:
    """With EVENT_LOG=off documents are as ever, and counts and whys are simply empty."""
    server = start(EVENT_LOG="off")
    server.send({"service": "quiet", "timestamp": T0}, message_id="quiet")
    assert server.document("ops_services/dev__quiet") is not None
    assert server.get("/api/stats").json["total"] == 0
    assert server.get("/api/why/quiet").status == 404
    assert server.send({"service": "quiet", "timestamp": T0}, message_id="quiet").json["outcome"] == "duplicate"


def test_a_store_of_memory(start: Start, tmp_path: Path) -> None:
    """STORE=memory serves the same API and leaves no file behind."""
    server = start(tmp_path, STORE="memory")
    server.send({"service": "memory", "timestamp": T0}, message_id="memory")
    assert server.document("ops_services/dev__memory") is not None
    assert server.get("/api/stats").json["total"] == 1
    assert list(tmp_path.iterdir()) == []
