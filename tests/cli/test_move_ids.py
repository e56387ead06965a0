"""`millpond move-ids`, through a running server and without one, on stores that an earlier build has written.

An earlier build escaped the ids of all views; a view with `single_key = False` still does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

from tests.cli.shell import Serve, Shell

VIEWS = """
from millpond import Latest, Merge, Tally


class Doors(Latest):
    topics = ("doors",)
    collection = "doors"
    key = "door"
    time = "at"

    def document(self, event):
        return {"docId": self.id_of(event), "state": event.get("state")}


class Owners(Merge):
    topics = ("doors",)
    collection = "owners"
    key = "door"
    time = "at"

    def fields(self, event):
        return {name: event.get(name) for name in ("state", "owner") if event.get(name)}


class Passes(Tally):
    topics = ("passes",)
    collection = "passes"
    key = "door"
    time = "at"

    def fold(self, event, current):
        return {"passed": current.get("passed", 0) + 1}
"""
EARLIER = VIEWS.replace('    key = "door"\n', '    key = "door"\n    single_key = False\n')
NAMES = ("x_", "strat__SPY__1", "100%", "a/b")
OLD = ["100%25", "strat_%5FSPY_%5F1", "x%5F"]
TODAY = ["100%", "a%2Fb", "strat__SPY__1", "x_"]
NOON = 1_767_873_600


def event(name: str, second: int, topic: str = "doors", **fields: Any) -> dict[str, Any]:
    data, message_id = {"door": name, "at": NOON + second, **fields}, f"{topic}-{name}-{second}"
    return {"topic": topic, "data": data, "messageId": message_id, "publishTime": "2026-01-08T13:00:00Z"}


@pytest.fixture
def upgraded(shell: Shell) -> Shell:
    """Four doors as an earlier build wrote them, and the views of today."""
    shell.environment |= {"VIEWS": "doors", "RECEIPT_TTL_DAYS": "3000"}
    (shell.folder / "doors.py").write_text(EARLIER)
    doors = [event(name, 1, state="open", owner="me") for name in NAMES]
    passes = [event(name, 1, "passes") for name in NAMES]
    shell.ok("ingest", shell.write("earlier.jsonl", *doors, *passes))
    (shell.folder / "doors.py").write_text(VIEWS)
    return shell


def documents(shell: Shell, collection: str) -> dict[str, Any]:
    return {found["id"]: found["data"] for found in shell.ok("ls", collection, "--json").json["docs"]}


def rows(store: Path) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    found = list(connection.execute("SELECT collection, id, version, body FROM documents ORDER BY 1, 2"))
    connection.close()
    return found


def old_ids(shell: Shell) -> list[str]:
    """Where doctor warns of them."""
    findings = shell.ok("doctor", "--json").json["findings"]
    warnings = [one for one in findings if (one["check"], one["state"]) == ("ids", "warning")]
    return [one["found"].split(" lie ")[0] for one in warnings]


def test_a_dry_run_changes_nothing(upgraded: Shell, start: Any) -> None:
    start()
    before = rows(upgraded.store)
    ran = upgraded.ok("move-ids", "--dry-run")
    assert "doors/strat_%5FSPY_%5F1   strat__SPY__1  moved" in ran.out
    assert "9 moved: the new id was free" in ran.out
    assert "Nothing was written." in ran.err
    assert rows(upgraded.store) == before


def test_all_are_moved_once(upgraded: Shell, start: Any) -> None:
    """With their own `docId`; receipts stay, `verify` sees no difference, and neither `doctor` nor a second run
    finds any.
    """
    start()
    counts = {one["collection"]: one["docs"] for one in upgraded.ok("ls", "--json").json["collections"]}
    assert old_ids(upgraded) == [f"{name}: 3 documents" for name in ("doors", "owners", "passes")]
    answer = upgraded.ok("move-ids", "--yes", "--json").json
    assert (answer["dryRun"], answer["summary"]) == (False, {"moved": 9})
    one = {"collection": "doors", "id": "x%5F", "newId": "x_", "outcome": "moved", "error": None}
    assert one in answer["documents"]
    for collection in ("doors", "owners", "passes"):
        assert sorted(documents(upgraded, collection)) == TODAY
    assert {name: one["docId"] for name, one in documents(upgraded, "doors").items()} == {n: n for n in TODAY}
    assert {one["collection"]: one["docs"] for one in upgraded.ok("ls", "--json").json["collections"]} == counts
    assert old_ids(upgraded) == []
    before = rows(upgraded.store)
    again = upgraded.ok("move-ids", "--yes")
    assert again.out == "No document has an id that an earlier build escaped.\n"
    assert rows(upgraded.store) == before
    report = upgraded.ok("verify", "--json").json
    assert (report["different"], report["equal"], report["notCheckable"]) == (0, 3, 9)


def test_new_events_go_on_where_the_old_document_was_moved_to(upgraded: Shell, start: Any) -> None:
    """The server has the new id in memory as it was before the move, and still counts and merges on top of it."""
    start()
    upgraded.ok("ingest", upgraded.write("seen.jsonl", event("x_", 0, state="older", owner="older")))
    assert upgraded.ok("move-ids", "--yes", "--json").json["summary"] == {"moved": 7, "replaced": 1, "merged": 1}
    later = [event("x_", 2, state="shut"), event("x_", 2, "passes"), event("x_", 0, state="stale")]
    upgraded.ok("ingest", upgraded.write("later.jsonl", *later))
    assert documents(upgraded, "doors")["x_"]["state"] == "shut"
    owner = documents(upgraded, "owners")["x_"]
    assert (owner["state"], owner["owner"]) == ("shut", "me")
    assert documents(upgraded, "passes")["x_"]["passed"] == 2
    assert upgraded.ok("verify", "--json").json["different"] == 0


def test_two_counts_are_left_and_a_rebuild_counts_them_together(upgraded: Shell, start: Any) -> None:
    upgraded.ok("ingest", upgraded.write("new.jsonl", event("x_", 2, "passes")))
    start()
    ran = upgraded.run("move-ids", "--view", "passes", "--yes")
    assert ran.code == 1
    # First, so that the end of a long list does not hide it.
    assert ran.out.splitlines()[1] == "passes/x%5F               x_             left"
    assert "1 document left: two counts cannot be made one: millpond rebuild passes" in ran.err
    passes = documents(upgraded, "passes")
    assert (passes["x%5F"]["passed"], passes["x_"]["passed"]) == (1, 1)
    assert sorted(passes) == sorted([*TODAY, "x%5F"])
    upgraded.ok("rebuild", "passes", "--yes")
    passes = documents(upgraded, "passes")
    assert (passes["x%5F"]["passed"], passes["x_"]["passed"]) == (1, 2)


def test_one_view_alone(upgraded: Shell) -> None:
    upgraded.ok("move-ids", "--view", "doors", "--yes")
    assert (sorted(documents(upgraded, "doors")), set(OLD) <= set(documents(upgraded, "owners"))) == (TODAY, True)
    ran = upgraded.run("move-ids", "--view", "nothing")
    assert (ran.code, "there is no view nothing: known: doors" in ran.err) == (1, True)


def test_it_asks_first(upgraded: Shell) -> None:
    """On a terminal; elsewhere it needs --yes."""
    before = rows(upgraded.store)
    ran = upgraded.run("move-ids")
    assert (ran.code, ran.out, "9 documents to move" in ran.err, "--yes" in ran.err) == (2, "", True, True)
    refused = upgraded.on_terminal("move-ids", keys=b"n\n")
    assert (refused.code, "Move 9 documents?" in refused.out) == (1, True)
    assert rows(upgraded.store) == before
    assert upgraded.on_terminal("move-ids", keys=b"y\n").code == 0
    assert sorted(documents(upgraded, "doors")) == TODAY


def test_a_server_with_other_views_leaves_them(upgraded: Shell, serve: Serve) -> None:
    """The server's views decide there, and it says why."""
    (upgraded.folder / "others.py").write_text(EARLIER)
    serve({"VIEWS": "others"})
    ran = upgraded.run("move-ids", "--view", "doors", "--yes", "--json")
    assert (ran.code, ran.json["summary"]) == (1, {"left": 3})
    assert "no loaded view" in ran.json["documents"][0]["error"]


@pytest.mark.usefixtures("upgraded")
def test_over_http_a_wrong_body_is_refused(serve: Serve) -> None:
    url = f"{serve().url}/api/old-ids/move"
    doors = {"collection": "doors"}
    for body in ({}, {**doors, "ids": []}, {**doors, "ids": ["x"] * 101}, {"ids": ["x"]}):
        answer = httpx.post(url, json=body)
        assert (answer.status_code, answer.json()["reason"]) == (400, "invalid_body")
    answer = httpx.post(url, json={"collection": "doors", "ids": ["x%5F", "x%5F", "none%5F"]})
    assert [one["outcome"] for one in answer.json()["results"]] == ["moved", "gone"]
