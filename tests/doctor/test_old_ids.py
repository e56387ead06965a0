"""What doctor says of documents under ids that an earlier build escaped, and how much it looks at to say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from millpond import settings
from millpond.core.model import Put, Ref, Snapshot
from millpond.doctor import old_ids as ids_check
from millpond.doctor.embedded import check_embedded
from millpond.doctor.findings import State
from millpond.doctor.old_ids import check_ids
from millpond.reprocess import move_ids as moving
from millpond.service.views import load_views
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite.store import SqliteStore
from tests.common.stores import Run
from tests.reprocess.doors import Doors
from tests.reprocess.test_move_ids import OLD, SAME, document, put

SHOWN = "100%25 → 100%, strat_%5FSPY_%5F1 → strat__SPY__1, x%5F → x_"


def test_doctor_names_them_by_collection_with_the_command(tmp_path: Path, run: Run) -> None:
    """Reading only: not a file more lies beside the store afterwards."""
    path = tmp_path / "pond.db"
    store = SqliteStore(path)
    for collection in ("doors", "trade_signals"):
        run(store.commit([Put(Ref(collection, one), None, document("1")) for one in (*OLD, *SAME)]))
    run(store.close())
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    views = [*load_views(settings.load({})), Doors()]
    found = [finding for finding in check_embedded(path, views) if finding.check == "ids"]
    assert [(finding.state, finding.found) for finding in found] == [
        (State.WARNING, f"{name}: 3 documents lie under ids that an earlier build escaped: {SHOWN}")
        for name in ("trade_signals", "doors")
    ]
    assert found[1].advice.startswith("millpond move-ids --view doors;")
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == before


async def test_doctor_says_that_there_are_none_and_how_much_it_saw() -> None:
    store = MemoryStore()
    await put(store, "doors", **{one: document("1") for one in SAME})
    (whole,) = await check_ids(store, [Doors()], 3)
    assert (whole.state, "3 documents of 1 collection looked at" in whole.found) == (State.OK, True)
    assert ("only" in whole.found, whole.advice) == (False, "")
    (partly,) = await check_ids(store, [Doors()], 2)
    assert (partly.state, partly.found.endswith("(of doors only its first 2)")) == (State.OK, True)
    assert "move-ids --dry-run" in partly.advice


async def test_doctor_looks_at_no_more_than_it_may_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids sort: 100%25, plain, strat_…, x%5F. What lies behind the bound is not counted."""
    monkeypatch.setattr(moving, "_PAGE", 2)

    class Counting(MemoryStore):
        given = 0

        async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
            found = await super().list_documents(collection, limit, after)
            self.given += len(found)
            return found

    store = Counting()
    await put(store, "doors", **{one: document("1") for one in (*OLD, "plain", "zebra")})
    (found,) = await check_ids(store, [Doors()], 3)
    assert found.found.startswith("doors: 2 documents lie under ids")
    assert "among its first 3 documents, more were not looked at: 100%25 → 100%," in found.found
    assert store.given == 4


async def test_no_more_than_was_asked_for_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the last page: a document of a big collection may have a megabyte."""
    monkeypatch.setattr(moving, "_PAGE", 2)
    store = MemoryStore()
    await put(store, "doors", **{str(number): document("1") for number in range(9)})
    assert [len(page) async for page in moving.pages(store, "doors", 3)] == [2, 1]


def test_doctor_shows_a_few_examples_of_many() -> None:
    old = [moving.OldDocument(Ref("doors", f"{n}%5F"), Ref("doors", f"{n}_")) for n in range(5)]
    (found,) = ids_check.judge_ids([ids_check.Looked(Doors(), "doors", 5, old, whole=True)])
    assert found.found.endswith("0%5F → 0_, 1%5F → 1_, 2%5F → 2_, …")
    (one,) = ids_check.judge_ids([ids_check.Looked(Doors(), "doors", 5, old[:1], whole=True)])
    assert one.found == "doors: 1 document lies under an id that an earlier build escaped: 0%5F → 0_"
