"""publish, get, ls and why, beside a running server and after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.common.server import Server

EVENT = {"service": "api", "status": "ok", "version": "1", "timestamp": "2026-01-08T12:00:00Z"}
SIGNAL = {"signalId": "s1", "symbol": "SPY", "action": "buy", "decisionAt": "2026-01-08T12:00:00Z"}


class Pond(Shell):
    """A shell whose store has a running server and a few messages in it."""

    server: Server


@pytest.fixture(scope="module")
def pond(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pond]:
    pond = Pond(Path(tmp_path_factory.mktemp("pond")))
    pond.server = pond.serve()
    newer = {**EVENT, "status": "degraded", "timestamp": "2026-01-08T12:05:00Z"}
    pond.ok("publish", "--topic", "system.events", "--data", json.dumps(newer), "--message-id", "m-new")
    pond.ok("publish", "--topic", "system.events", "--data", json.dumps(EVENT), "--message-id", "m-old")
    pond.ok("publish", "--topic", "trade-signals", "--data", json.dumps(SIGNAL), "--message-id", "s-buy")
    later = {"signalId": "s1", "action": "sell", "updatedAt": "2026-01-08T12:10:00Z"}
    pond.ok("publish", "--topic", "trade-signals", "--data", json.dumps(later), "--message-id", "s-sell")
    yield pond
    pond.close()


def test_publish_answers_as_the_server_did(pond: Pond) -> None:
    """The server's answer is printed whole, with its status, and the same message again is a duplicate."""
    arguments = ["publish", "--topic", "ingest-heartbeat", "--message-id", "h-1", "--json"]
    arguments += ["--publish-time", "2026-01-08T12:00:00Z", "--data", '{"pipeline_id": "p1"}']
    first, again = pond.ok(*arguments).json, pond.ok(*arguments).json
    assert (first["status"], first["outcome"], first["messageId"]) == (200, "applied", "h-1")
    assert first["through"] == pond.server.url
    assert first["views"][0]["doc"] == "ingest_pipelines/p1"
    assert again["outcome"] == "duplicate"


def test_publish_reads_files_and_standard_input(pond: Pond) -> None:
    """The data comes from a file, from `-` or from --data, and each message gets an id of its own."""
    name = pond.write("tick.json", {"symbol": "SPY", "price": 1})
    one = pond.ok("publish", "--topic", "market-ticks", name, "--json").json
    two = pond.ok("publish", "--topic", "market-ticks", "-", "--json", stdin=b'{"symbol": "SPY", "price": 2}').json
    assert one["outcome"] == two["outcome"] == "applied"
    assert one["messageId"] != two["messageId"]


def test_publish_adds_attributes_and_an_event_id(pond: Pond) -> None:
    """--event-id goes into the data, where `why` finds it again."""
    data = '{"service": "tagged", "timestamp": "2026-01-08T12:00:00Z"}'
    sent = pond.ok(
        "publish", "--topic", "system.events", "--data", data, "--event-id", "e-77", "--attribute", "a=b"
    )
    assert "200 applied" in sent.out
    (message,) = pond.ok("why", "e-77", "--json").json["messages"]
    assert message["eventId"] == "e-77"


def test_publish_of_poison_exits_with_1(pond: Pond) -> None:
    """A message that became a letter says why, and the command that shows the letter is there to be pasted."""
    ran = pond.run("publish", "--topic", "system.events", "--data", '{"nothing": 1}', "--message-id", "bad-1")
    assert ran.code == 1
    first, error, *_, hint = ran.out.splitlines()
    assert first == f"200 poison (invalid_event), message bad-1, through {pond.server.url}"
    assert error == "service is missing"
    assert pond.ok(*hint.partition(": millpond ")[2].split(), "--json").json["messageId"] == "bad-1"


def test_publish_exits_with_1_when_refused(pond: Pond) -> None:
    """Anything but 200 is a negative answer, and still one JSON document."""
    ran = pond.run("publish", "--topic", "t", "--data", "{}", "--url", f"{pond.server.url}/nowhere", "--json")
    assert ran.code == 1
    assert ran.json["status"] == 404


def test_get_equals_the_http_api(pond: Pond) -> None:
    """`get --json` and GET /api/docs/… are the same document, however the path is written."""
    over_http = pond.server.get("/api/docs/ops_services/dev__api").json
    assert over_http["data"]["status"] == "degraded"
    assert pond.ok("get", "ops_services/dev__api", "--json").json == over_http
    assert pond.ok("get", "ops_services", "dev__api", "--json").json == over_http


def test_get_as_text_shows_every_field(pond: Pond) -> None:
    """Without --json each field stands on a line of its own, nested ones by their path."""
    rows = dict(line.split(None, 1) for line in pond.ok("get", "ops_services/dev__api").out.splitlines())
    assert rows["status"] == "degraded"
    assert rows["source.messageId"] == "m-new"


def test_get_of_nothing_exits_with_1(pond: Pond) -> None:
    """What is not there is the API's not_found with --json, and one line without."""
    machine, text = pond.run("get", "ops_services/none", "--json"), pond.run("get", "ops_services/none")
    assert (machine.code, machine.json["reason"]) == (1, "not_found")
    assert (text.code, text.out) == (1, "")
    assert "there is no document ops_services/none" in text.err


def test_ls_equals_the_http_api(pond: Pond) -> None:
    """Collections, pages and where the next page starts are the same as over HTTP."""
    assert pond.ok("ls", "--json").json == pond.server.get("/api/collections").json
    over_http = pond.server.get("/api/docs/ops_services?limit=1").json
    first = pond.ok("ls", "ops_services", "--limit", "1", "--json").json
    assert first == over_http
    rest = pond.ok("ls", "ops_services", "--after", first["next"], "--json").json
    assert first["docs"][0]["id"] not in [doc["id"] for doc in rest["docs"]]


def test_ls_as_text_is_aligned_and_says_how_to_go_on(pond: Pond) -> None:
    """A pipe gets aligned columns; the hint for the next page goes to standard error."""
    ran = pond.ok("ls", "ops_services", "--limit", "1")
    title, row = ran.out.splitlines()
    assert title.startswith("ID ")
    assert row.index("{") == title.index("DATA")
    assert "millpond ls ops_services --after dev__api" in ran.err


def test_ls_on_a_terminal_is_a_table(pond: Pond) -> None:
    """A terminal gets a drawn table; a narrow one gets cards rather than words cut off."""
    wide = pond.on_terminal("ls")
    assert "──" in wide.out
    assert "ops_services" in wide.out
    narrow = pond.on_terminal("views", columns=60)
    assert "market_ticks_latest\n" in narrow.out.replace("\x1b[0m", "")


def test_ls_of_an_empty_collection_exits_with_1(pond: Pond) -> None:
    """A misspelt collection is noticed by the exit code, and --json stays an empty page."""
    machine = pond.run("ls", "nothing_here", "--json")
    assert (machine.code, machine.json) == (1, {"docs": [], "next": None})
    assert "there are no documents in nothing_here" in pond.run("ls", "nothing_here").err


def test_why_tells_who_won(pond: Pond) -> None:
    """The loser's story names the winner, and both stamps are taken apart into times and ids."""
    story = pond.ok("why", "m-old").out
    assert "Message m-old: stale_ignored (stale_event_ignored)" in story
    mine, theirs = [
        line.split() for line in story.splitlines() if line.startswith(("this message", "document now"))
    ]
    assert mine[2] == "2026-01-08T12:00:00Z"
    assert theirs[2] == "2026-01-08T12:05:00Z"
    assert mine[-1] == "m-old"
    assert theirs[-1] == "m-new"
    assert "It lost: the document holds message m-new" in story
    assert "It won" in pond.ok("why", "m-new").out


def test_why_of_a_merged_document_names_the_fields(pond: Pond) -> None:
    """Where fields come from several messages, each story says which ones are its own."""
    story = pond.ok("why", "s-buy").out
    assert "Message s-sell has the greater stamp" in story
    assert "symbol" in story.splitlines()[-1]
    assert "action" not in story.splitlines()[-1]


def test_why_of_an_event_that_one_view_did_not_want(pond: Pond) -> None:
    """A tick of no symbol is the history's alone; the other view has no document to name."""
    pond.ok("publish", "--topic", "market-ticks", "--message-id", "t-none", "--data", '{"price": 1}')
    story = pond.ok("why", "t-none").out
    wanted, kept = (
        story.index("View market_ticks_latest: filtered (event_filtered)\n"),
        story.index("market_ticks/t-none"),
    )
    assert wanted < story.index("This view filters it out, and nothing changed.") < kept


def test_why_equals_the_http_api(pond: Pond) -> None:
    """`why --json` is what GET /api/why/… answers."""
    assert pond.ok("why", "m-old", "--json").json == pond.server.get("/api/why/m-old").json


def test_why_of_an_unknown_id_exits_with_1(pond: Pond) -> None:
    """Nothing known is a negative answer, not an error."""
    ran = pond.run("why", "never-sent", "--json")
    assert (ran.code, ran.json["reason"]) == (1, "not_found")


def test_reading_works_without_a_server(shell: Shell) -> None:
    """What was written stays readable when no server runs."""
    line = {"topic": "system.events", "data": EVENT, "publishTime": "2026-01-08T12:00:01Z", "messageId": "m"}
    shell.ok("ingest", shell.write("one.jsonl", line))
    assert shell.ok("get", "ops_services/dev__api", "--json").json["data"]["status"] == "ok"
    assert "It won" in shell.ok("why", "m").out


def test_hostile_text_cannot_drive_the_terminal(pond: Pond) -> None:
    """Control characters in a document reach neither text nor JSON output as they are."""
    hostile = "\x1b]0;owned\x07\x9b31m\u202e"
    data = json.dumps({"service": "evil", "version": hostile, "timestamp": "2026-01-08T12:00:00Z"})
    pond.ok("publish", "--topic", "system.events", "--data", data)
    machine = pond.ok("get", "ops_services/dev__evil", "--json")
    assert machine.json["data"]["version"] == hostile
    for shown in (machine.out, pond.ok("get", "ops_services/dev__evil").out, pond.ok("ls", "ops_services").out):
        assert not set(shown) & set(hostile[0] + "\x07\x9b\u202e")
