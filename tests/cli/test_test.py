"""`millpond test`: what it prints, what it exits with, what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.cli.shell import Shell

VIEWS = """
import time
from millpond import Latest, Tally

class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "at"
    def document(self, event):
        return {"status": event.require("status")}

class Parcels(Orders):
    topics = ("parcels",)
    collection = "parcels"
"""
FAULTY = (
    VIEWS
    + """
class Last(Tally):
    topics = ("orders",)
    collection = "last"
    key = "orderId"
    time = "at"
    def fold(self, event, current):
        return {"last": event.get("status")}
"""
)
LINES = [
    {"topic": "orders", "data": {"orderId": "o-1", "at": "2026-01-08T12:00:00Z", "status": "new"}},
    {"topic": "orders", "data": {"orderId": "o-1", "at": "2026-01-08T12:00:05Z", "status": "paid\x1b[31m"}},
    {"topic": "orders", "data": {"orderId": "o-1", "at": "2026-01-08T12:00:09Z"}},
]


@pytest.fixture
def files(shell: Shell) -> Shell:
    (shell.folder / "good.py").write_text(VIEWS)
    (shell.folder / "faulty.py").write_text(FAULTY)
    (shell.folder / "broken.py").write_text("import nothing_of_that_name")
    (shell.folder / "empty.py").write_text("")
    shell.write("orders.jsonl", *LINES)
    shell.write("wrong.jsonl", LINES[0], "{")
    shell.write("other.jsonl", {"topic": "tickets", "data": {"id": 1}})
    return shell


def test_one_line_for_each_view(files: Shell) -> None:
    """And one for each event that is poison; a view that no event is for is named."""
    ran = files.ok("test", "good", "--events", "orders.jsonl", "--worlds", "20")
    assert ran.out.splitlines() == [
        "orders: no fault in 20 worlds; 3 events: 2 applied, 1 poison; 1 document",
        "  line 3 is poison: status is missing",
        "parcels: not checked, because no event of the file is for parcels",
    ]
    assert not files.store.exists()


def test_a_fault_is_shown_in_full(files: Shell) -> None:
    """The other views are checked, too; text of messages cannot drive a terminal."""
    ran = files.run("test", "faulty", "--events", "orders.jsonl", "--worlds", "20", "--seed", "3")
    assert ran.code == 1
    assert "orders: no fault in 20 worlds" in ran.out
    assert "last: depends_on_order\n  Last (tally, last): fold() depends on the order of events\n" in ran.out
    assert "check_view(Last(), events='orders.jsonl', worlds=20, seed=3)" in ran.out
    assert "\x1b" not in ran.out


def test_json_is_one_document(files: Shell) -> None:
    ran = files.run("test", "faulty", "--events", "orders.jsonl", "--worlds", "20", "--json")
    views = {view["view"]: view for view in json.loads(ran.out)["views"]}
    assert ran.code == 1
    assert (views["orders"]["cause"], views["orders"]["poison"]) == (None, {"3": "status is missing"})
    assert (views["last"]["cause"], len(views["last"]["shrunk"])) == ("depends_on_order", 2)
    assert views["parcels"]["cause"] == "no_events"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("test", "good"), "Missing option '--events'"),
        (("test", "--events", "orders.jsonl"), "Missing argument 'MODULE'"),
        (("test", "good", "--events", "gone.jsonl"), "gone.jsonl"),
        (("test", "good", "--events", "wrong.jsonl"), "events: line 2 of wrong.jsonl: "),
        (("test", "good", "--events", "other.jsonl"), "no view of good was checked: events: none of the 1 events"),
        (("test", "gone", "--events", "orders.jsonl"), "VIEWS=gone: cannot be imported"),
        (("test", "broken", "--events", "orders.jsonl"), "VIEWS=broken: cannot be imported"),
        (("test", "empty", "--events", "orders.jsonl"), "VIEWS=empty: defines no view"),
        (("test", "good", "--events", "orders.jsonl", "--worlds", "0"), "0 is not in the range"),
    ],
)
def test_wrong_usage_is_one_line(files: Shell, words: tuple[str, ...], text: str) -> None:
    ran = files.run(*words)
    assert (ran.code, ran.out) == (2, "")
    assert text in ran.err
    assert len(ran.err.splitlines()) == 1
