"""Documents moved on real stores: found page by page, each by one commit, beside other writers and crashes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from millpond import Event
from millpond.core.errors import Unavailable, WriteRefused
from millpond.core.ids import encode_id
from millpond.core.model import Committed, Conflict, Delete, Document, Put, Ref, Write
from millpond.core.view import View
from millpond.reprocess import move_ids as moving
from millpond.reprocess.move_ids import Mover, MoveReport, find_old_documents
from millpond.reprocess.plan_move import Moved
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite.store import SqliteStore
from tests.common.faulty_store import FaultyStore
from tests.reprocess.doors import Doors

NAMES = ["x_", "strat__SPY__1", "100%"]
SAME = ["a%2Fb", "plain", "a%20b"]
OLD = [encode_id(name) for name in NAMES]
ROOT = Path(__file__).parents[2]
Step = Callable[[MemoryStore], Coroutine[Any, Any, None]]


class Houses(Doors):
    """Chooses the collection by event."""

    name = collection = "houses"

    def collection_of(self, event: Event) -> str:
        return f"houses/{event.require('house')}/doors"


def document(stamp: str, **fields: Any) -> Document:
    return {**fields, "source": {"stamp": stamp, "key": "k"}}


async def put(store: MemoryStore, collection: str, **documents: Document | None) -> None:
    writes: list[Write] = []
    for document_id, data in documents.items():
        (found,) = await store.read([Ref(collection, document_id)])
        if data is not None:
            writes.append(Put(found.ref, found.version, data))
        elif found.version is not None:
            writes.append(Delete(found.ref, found.version))
    assert isinstance(await store.commit(writes), Committed)


async def contents(store: MemoryStore, collection: str = "doors") -> dict[str, Any]:
    return {found.ref.id: found.data for found in await store.list_documents(collection, 1_000, None)}


class Interrupted(MemoryStore):
    """Lets another writer, or a fault, in right before a commit, as often as there are steps."""

    def __init__(self, *steps: Step) -> None:
        super().__init__()
        self.steps = list(steps)

    async def commit(self, writes: Sequence[Write], log: Any = ()) -> Committed | Conflict:
        if self.steps and any(isinstance(write, Delete) for write in writes):
            await self.steps.pop(0)(self)
        return await super().commit(writes, log)


async def moved(store: MemoryStore, *ids: str, views: Sequence[View] = (Doors(),)) -> list[MoveReport]:
    return await Mover(store, views, lambda _: None).move_all([Ref("doors", one) for one in ids])


async def test_all_of_them_are_found_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over several pages, in collections below a view's own too."""
    monkeypatch.setattr(moving, "_PAGE", 2)
    store = MemoryStore()
    await put(store, "doors", **{one: document("1") for one in (*OLD, *SAME)})
    await put(store, "houses/h1/doors", **{one: document("1") for one in (*OLD, *SAME)})
    await put(store, "others", **{"x%5F": document("1")})
    found = [found.old.path async for found in find_old_documents(store, [Doors(), Houses()])]
    assert found == [f"{path}/{one}" for path in ("doors", "houses/h1/doors") for one in sorted(OLD)]


async def test_the_writers_of_this_process_forget_what_they_remember() -> None:
    forgotten: list[Ref] = []
    store = MemoryStore()
    await put(store, "doors", **{"x%5F": document("1"), "y_": document("1")})
    mover = Mover(store, [Doors()], forgotten.extend)
    await mover.move_all([Ref("doors", "x%5F"), Ref("doors", "y%5F")], dry_run=True)
    assert forgotten == []
    await mover.move_all([Ref("doors", "x%5F"), Ref("doors", "y%5F")])
    assert forgotten == [Ref("doors", "x%5F"), Ref("doors", "x_")]


async def test_what_is_under_no_old_id_is_left() -> None:
    """A server may have other views than the command that asks."""
    reports = await moved(MemoryStore(), "plain", "a%2Fb")
    assert [(report.new, report.outcome) for report in reports] == [(None, Moved.LEFT)] * 2
    (unknown,) = await moved(MemoryStore(), "x%5F", views=[])
    assert unknown.outcome is Moved.LEFT


@pytest.mark.parametrize(
    ("written", "outcome"),
    [("x_", Moved.SUPERSEDED), ("x%5F", Moved.MOVED)],
    ids=["at the new id", "at the old id, by an instance of the earlier build"],
)
async def test_a_writer_that_is_quicker_loses_nothing(written: str, outcome: Moved) -> None:
    """It writes between our reading and our commit: both places are read again, and its document stays."""

    async def quicker(store: MemoryStore) -> None:
        await put(store, "doors", **{written: document("9", state="newest")})

    store = Interrupted(quicker)
    await put(store, "doors", **{"x%5F": document("1", state="old")})
    (report,) = await moved(store, "x%5F")
    assert report.outcome is outcome
    assert await contents(store) == {"x_": document("9", state="newest")}


async def test_a_document_that_never_rests_is_left() -> None:
    """Bounded: the others are moved, and the report says to come again."""

    async def restless(store: MemoryStore) -> None:
        (found,) = await store.read([Ref("doors", "x%5F")])
        await put(store, "doors", **{"x%5F": found.data})

    store = Interrupted(*[restless] * 1_000)
    await put(store, "doors", **{"x%5F": document("1")})
    (report,) = await moved(store, "x%5F")
    assert (report.outcome, "run the command again" in report.why) == (Moved.LEFT, True)
    assert store.steps, "it gave up before the other writer did"
    store.steps.clear()
    assert [one.outcome for one in await moved(store, "x%5F")] == [Moved.MOVED]


async def test_a_lost_reply_moves_once() -> None:
    """The commit was applied and its answer lost: reading again finds the old place empty."""
    store = FaultyStore()
    await put(store, "doors", **{"x%5F": document("1")})
    store.after = [Unavailable("the reply was lost")]
    forgotten: set[Ref] = set()
    mover = Mover(store, [Doors()], forgotten.update)
    assert [one.outcome for one in await mover.move_all([Ref("doors", "x%5F")])] == [Moved.GONE]
    assert await contents(store) == {"x_": document("1")}
    assert forgotten == {Ref("doors", "x%5F"), Ref("doors", "x_")}, "the commit may have been applied, and was"


async def test_a_document_the_store_refuses_is_left_where_it_is() -> None:
    """Two merged documents can be too big for one; the others are moved."""

    async def refuse(_: MemoryStore) -> None:
        raise WriteRefused("over 1 MiB")

    store = Interrupted(refuse)
    await put(store, "doors", **{one: document("1") for one in OLD})
    outcomes = [(one.outcome, one.why) for one in await moved(store, *OLD)]
    assert outcomes == [(Moved.LEFT, "over 1 MiB"), (Moved.MOVED, ""), (Moved.MOVED, "")]


KILLED = """
import asyncio, os, signal, sys
from tests.reprocess.doors import Doors
from millpond.reprocess.move_ids import Mover
from millpond.core.model import Ref
from millpond.stores.sqlite.store import SqliteStore

class Mortal(SqliteStore):
    left, after = int(sys.argv[2]), sys.argv[3] == "after"

    async def commit(self, writes, log=()):
        self.left -= 1
        if self.left == 0 and not self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await super().commit(writes, log)
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

async def main():
    mover = Mover(Mortal(sys.argv[1]), [Doors()], lambda _: None)
    for document_id in sys.argv[4:]:
        await mover.move_all([Ref("doors", document_id)])

asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commit", [1, 2, 3])
async def test_a_process_killed_on_the_way_leaves_each_document_in_one_place(
    tmp_path: Path, commit: int, when: str
) -> None:
    """At every commit there is, and another run finishes the work."""
    path = tmp_path / "pond.db"
    store = SqliteStore(path)
    await store.commit([Put(Ref("doors", one), None, document("1", was=one)) for one in OLD])
    await store.close()

    async def look(*, finish: bool) -> tuple[list[str], list[str]]:
        store = SqliteStore(path)
        if finish:
            await Mover(store, [Doors()], lambda _: None).move_all([Ref("doors", one) for one in OLD])
        found = await store.list_documents("doors", 100, None)
        await store.close()
        return sorted(one.ref.id for one in found), sorted((one.data or {})["was"] for one in found)

    command = [sys.executable, "-c", KILLED, str(path), str(commit), when, *OLD]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    assert await process.wait() == -signal.SIGKILL
    ids, documents = await look(finish=False)
    assert documents == sorted(OLD)
    assert len(set(ids) & set(OLD)) == len(OLD) - (commit if when == "after" else commit - 1)
    assert await look(finish=True) == (sorted(NAMES), sorted(OLD))
