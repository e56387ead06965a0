"""verify and rebuild, on real stores, through a running server and without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from tests.cli.orders import CHANGED, ORDERS
from tests.cli.shell import Shell


def order(number: int) -> dict[str, Any]:
    data = {"orderId": f"o{number % 5}", "at": 1_767_873_600 + number, "quantity": number, "depot": "d1"}
    return {"topic": "orders", "data": data, "messageId": f"m{number}", "publishTime": "2026-01-08T12:00:10Z"}


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """Ten orders of five, arrived newest first."""
    shell.environment["VIEWS"] = "orders"
    (shell.folder / "orders.py").write_text(ORDERS)
    shell.ok("ingest", shell.write("o.jsonl", *(order(n) for n in reversed(range(10)))))
    return shell


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
    report = state["report"]
    assert (state["phase"], state["written"], report["changed"], report["new"]) == ("swapped", 5, 5, 0)
    assert filled.ok("get", "orders/o1", "--json").json["data"]["depot"] == "d1"
    collections = {found["collection"] for found in filled.ok("ls", "--json").json["collections"]}
    assert collections == {"orders", "ops_dedupe", "ops_rebuilds"}
    assert filled.ok("rebuild", "orders").code == 0
    assert filled.ok("verify", "--json").json["equal"] == 5


def test_a_person_at_a_terminal_is_asked(filled: Shell) -> None:
    (filled.folder / "orders.py").write_text(CHANGED)
    refused = filled.on_terminal("rebuild", "orders", keys=b"n\n")
    assert refused.code == 1
    assert "5 documents?" in refused.out
    assert "Rebuilt orders; documents written: 5." in filled.on_terminal("rebuild", "orders", keys=b"y\n").out


def test_an_unknown_view_is_said_to_be_unknown(filled: Shell, start: Any) -> None:
    start()
    ran = filled.run("rebuild", "nothing")
    assert ran.code == 1
    assert "no view nothing" in ran.err
