"""verify and rebuild, on real stores, through a running server and without one."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import apsw
import httpx
import msgspec
import pytest

from tests.cli.shell import Serve, Shell
from tests.common.server import Server

ORDERS = """
from millpond import Latest, Tally


class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "at"

    def document(self, event):
        return {"orderId": event.require("orderId"), "quantity": event.get("quantity")}
"""
CHANGED = ORDERS.replace(
    '"quantity": event.get("quantity")', '"quantity": event.get("quantity"), "depot": event.get("depot")'
)
ADDED = (
    ORDERS
    + """

class Quantities(Tally):
    topics = ("orders",)
    collection = "quantities"
    key = "depot"
    time = "at"

    def fold(self, event, current):
        return {"orders": current.get("orders", 0) + 1, "sum": current.get("sum", 0) + event.require("quantity")}
"""
)


def order(number: int) -> dict[str, Any]:
    data = {
        "orderId": f"o{number % 5}",
        "at": 1_767_873_600 + number,
        "quantity": number,
        "depot": f"d{number % 2}",
    }
    return {"topic": "orders", "data": data, "messageId": f"m{number}", "publishTime": "2026-01-08T12:00:10Z"}


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """Ten orders of five, arrived newest first."""
    # A tally counts what is younger than its receipts, and these are of January.
    shell.environment |= {"VIEWS": "orders", "RECEIPT_TTL_DAYS": "3000"}
    (shell.folder / "orders.py").write_text(ORDERS)
    shell.ok("ingest", shell.write("o.jsonl", *(order(n) for n in reversed(range(10)))))
    return shell


@pytest.fixture(params=["through the server", "without a server"])
def start(request: pytest.FixtureRequest, serve: Serve) -> Any:
    """Start a server, or not."""
    return serve if request.param == "through the server" else lambda: None


def damage(store: Path, document_id: str, **fields: Any) -> None:
    """Change a document in the file itself."""
    connection = apsw.Connection(str(store))
    where = "collection = 'orders' AND id = ?"
    body = connection.execute(f"SELECT body FROM documents WHERE {where}", (document_id,)).get  # noqa: S608
    changed = msgspec.msgpack.encode({**msgspec.msgpack.decode(body), **fields})
    connection.execute(f"UPDATE documents SET body = ? WHERE {where}", (changed, document_id))  # noqa: S608
    connection.close()


def test_a_level_store_verifies_beside_a_server_and_without(filled: Shell, start: Any) -> None:
    start()
    report = filled.ok("verify", "--json").json
    assert (report["entries"], report["documents"], report["equal"], report["different"]) == (10, 5, 5, 0)
    shown = filled.ok("verify").out
    assert "equal to the fold  5" in shown
    assert "different          0" in shown


def test_a_difference_is_listed_with_the_deciding_stamps_and_exits_1(filled: Shell) -> None:
    damage(filled.store, "o3", quantity=99)
    ran = filled.run("verify")
    assert ran.code == 1
    assert "orders/o3" in ran.out
    assert "2026-01-08T12:00:08Z m8" in ran.out
    (found,) = filled.run("verify", "--json").json["differences"]
    assert (found["doc"], found["kind"], found["fields"]) == ("orders/o3", "different", ["quantity"])
    assert found["stored"] == found["folded"]


def test_without_a_log_the_setting_is_named_and_the_exit_is_2(filled: Shell) -> None:
    for arguments in (("verify",), ("rebuild", "orders")):
        ran = filled.run(*arguments, env={"EVENT_LOG": "off"})
        assert ran.code == 2
        assert "EVENT_LOG" in ran.err


def test_verify_changes_nothing(filled: Shell) -> None:
    before = filled.store.read_bytes()
    filled.ok("verify")
    assert filled.store.read_bytes() == before


def test_a_rebuild_asks_before_it_swaps(filled: Shell, start: Any) -> None:
    """Differences are shown, nothing is written without approval, and the shadow goes either way."""
    (filled.folder / "orders.py").write_text(CHANGED)
    start()
    ran = filled.run("rebuild", "orders")
    assert ran.code == 1
    assert "--yes" in ran.err
    assert "changed                          5" in ran.out
    assert "depot" not in filled.ok("get", "orders/o1", "--json").json["data"]
    state = filled.ok("rebuild", "orders", "--yes", "--json").json
    assert (state["phase"], state["written"], state["report"]["changed"], state["report"]["new"]) == (
        "swapped",
        5,
        5,
        0,
    )
    assert filled.ok("get", "orders/o1", "--json").json["data"]["depot"] == "d0"
    assert {found["collection"] for found in filled.ok("ls", "--json").json["collections"]} == {
        *("orders", "ops_dedupe", "ops_rebuilds"),
    }
    assert filled.ok("rebuild", "orders").code == 0
    assert filled.ok("verify", "--json").json["equal"] == 5


def test_a_person_at_a_terminal_is_asked(filled: Shell) -> None:
    (filled.folder / "orders.py").write_text(CHANGED)
    refused = filled.on_terminal("rebuild", "orders", keys=b"n\n")
    assert refused.code == 1
    assert "5 documents?" in refused.out
    assert "Rebuilt orders; documents written: 5." in filled.on_terminal("rebuild", "orders", keys=b"y\n").out


def test_a_view_just_added_is_filled_and_counts_nothing_twice(filled: Shell, start: Any) -> None:
    (filled.folder / "orders.py").write_text(ADDED)
    start()
    state = filled.ok("rebuild", "quantities", "--yes", "--json").json
    assert (state["report"]["new"], state["written"]) == (2, 2)
    assert filled.ok("get", "quantities/d1", "--json").json["data"]["sum"] == 1 + 3 + 5 + 7 + 9
    republished = {**order(9), "messageId": "another"}
    filled.ok("ingest", filled.write("again.jsonl", order(7), republished))
    assert filled.ok("get", "quantities/d1", "--json").json["data"]["orders"] == 5
    assert filled.ok("verify", "--json").json["different"] == 0


def test_an_unknown_view_is_said_to_be_unknown(filled: Shell, start: Any) -> None:
    start()
    ran = filled.run("rebuild", "nothing")
    assert ran.code == 1
    assert "no view nothing" in ran.err


def test_rebuild_and_verify_beside_live_traffic(filled: Shell, serve: Serve) -> None:
    """A server takes pushes all the while: the rebuild ends, every push is acknowledged, and the pond is level."""
    (filled.folder / "orders.py").write_text(ADDED)
    server = serve()
    stopping = threading.Event()
    statuses: list[int] = []
    feeder = threading.Thread(target=_push_until, args=(server, stopping, statuses))
    feeder.start()
    try:
        while len(statuses) < 20:
            assert feeder.is_alive()
        assert filled.ok("verify", "--json").json["different"] == 0
        state = filled.ok("rebuild", "quantities", "--yes", "--json").json
        assert filled.ok("verify", "--json").json["different"] == 0
    finally:
        stopping.set()
        feeder.join()
    assert set(statuses) == {200}
    assert state["phase"] == "swapped"
    report = filled.ok("verify", "--json").json
    assert (report["different"], report["notCheckable"]) == (0, 0)
    counted = sum(filled.ok("get", f"quantities/d{n}", "--json").json["data"]["orders"] for n in (0, 1))
    assert counted == 10 + len(statuses)


def _push_until(server: Server, stopping: threading.Event, statuses: list[int]) -> None:
    with httpx.Client() as client:
        for number in range(10, 100_000):
            if stopping.is_set():
                return
            sent = order(number)
            message = {
                "messageId": sent["messageId"],
                "publishTime": sent["publishTime"],
                "attributes": {"topic": "orders"},
                "data": msgspec.json.encode(sent["data"]),
            }
            body = msgspec.json.encode({"message": message, "subscription": "projects/p/subscriptions/s"})
            answer = client.post(
                f"{server.url}/pubsub/push", content=body, headers={"content-type": "application/json"}
            )
            statuses.append(answer.status_code)


def test_where_rebuilds_are_marked_is_no_views(shell: Shell) -> None:
    for collection in ("ops_rebuilds",):
        (shell.folder / "orders.py").write_text(ORDERS.replace('"orders"', f'"{collection}"'))
        ran = shell.run("views", env={"VIEWS": "orders"})
        assert ran.code == 2
        assert collection in ran.err
