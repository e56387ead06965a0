"""What doctor says of documents under ids that an earlier build escaped, and how much it looks at to say so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

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
from tests.reprocess.doors import Doors
from tests.reprocess.test_move_ids import OLD, SAME, document, put

SHOWN = "100%25 → 100%, strat_%5FSPY_%5F1 → strat__SPY__1, x%5F → x_"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An embedded store with documents of an earlier build, that no process has open."""
    path = tmp_path / "pond.db"

    async def fill() -> None:
        store = SqliteStore(path)
        for collection in ("doors", "trade_signals"):
            await store.commit([Put(Ref(collection, one), None, document("1")) for one in (*OLD, *SAME)])
        await store.close()

    asyncio.run(fill())
    return path


def test_doctor_names_them_by_collection_with_the_command(path: Path) -> None:
    """Reading only: not a file more lies beside the store afterwards."""
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    views = [*load_views(settings.load({})), Doors()]
    found = [finding for finding in check_embedded(path, views) if finding.check == "ids"]
    assert [(finding.state, finding.found) for finding in found] == [
        (State.WARNING, f"{name}: 3 documents lie under ids that an earlier build escaped: {SHOWN}")
        for name in ("trade_signals", "doors")
    ]
    assert found[1].advice.startswith("millpond move-ids --view doors;")
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == before


def test_doctor_says_that_there_are_none_and_how_much_it_saw() -> None:
    async def story(most: int) -> list[Any]:
        store = MemoryStore()
        await put(store, "doors", **{one: document("1") for one in SAME})
        return await check_ids(store, [Doors()], most)

    (whole,) = asyncio.run(story(3))
    assert (whole.state, "3 documents of 1 collection looked at" in whole.found) == (State.OK, True)
    assert ("only" in whole.found, whole.advice) == (False, "")
    (partly,) = asyncio.run(story(2))
    assert (partly.state, partly.found.endswith("(of doors only its first 2)")) == (State.OK, True)
    assert "move-ids --dry-run" in partly.advice


def test_doctor_looks_at_no_more_than_it_may_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids sort: 100%25, plain, strat_…, x%5F. What lies behind the bound is not counted."""
    monkeypatch.setattr(moving, "_PAGE", 2)

    class Counting(MemoryStore):
        given = 0

        async def list_documents(self, collection: str, limit: int, after: str | None) -> list[Snapshot]:
            found = await super().list_documents(collection, limit, after)
            self.given += len(found)
            return found

    async def story() -> tuple[list[Any], int]:
        store = Counting()
        await put(store, "doors", **{one: document("1") for one in (*OLD, "plain", "zebra")})
        return await check_ids(store, [Doors()], 3), store.given

    (found,), given = asyncio.run(story())
    assert found.found.startswith("doors: 2 documents lie under ids")
    assert "among its first 3 documents, more were not looked at: 100%25 → 100%," in found.found
    assert given == 4


def test_no_more_than_was_asked_for_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the last page: a document of a big collection may have a megabyte."""
    monkeypatch.setattr(moving, "_PAGE", 2)

    async def story() -> list[int]:
        store = MemoryStore()
        await put(store, "doors", **{str(number): document("1") for number in range(9)})
        return [len(page) async for page in moving.pages(store, "doors", 3)]

    assert asyncio.run(story()) == [2, 1]


def test_doctor_shows_a_few_examples_of_many() -> None:
    old = [moving.OldDocument(Ref("doors", f"{n}%5F"), Ref("doors", f"{n}_")) for n in range(5)]
    (found,) = ids_check.judge_ids([ids_check.Looked(Doors(), "doors", 5, old, whole=True)])
    assert found.found.endswith("0%5F → 0_, 1%5F → 1_, 2%5F → 2_, …")
    (one,) = ids_check.judge_ids([ids_check.Looked(Doors(), "doors", 5, old[:1], whole=True)])
    assert one.found == "doors: 1 document lies under an id that an earlier build escaped: 0%5F → 0_"
