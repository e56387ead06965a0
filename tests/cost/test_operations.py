"""What is counted of each call to Firestore, by collection, on the emulator."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest

from millpond.core.collections import PROBE
from millpond.core.model import Committed, Conflict, Delete, Put, Ref
from millpond.stores import firestore
from millpond.stores.firestore.operations import COUNTED
from millpond.stores.firestore.store import FirestoreStore
from millpond.stores.operations import COLLECTIONS_MAX, OTHER, Operations, Spent
from tests.common.firestore_proxy import BEFORE, COMMIT, HANG, READ, Fault, FirestoreProxy
from tests.common.stores import Run

A, B = Ref("ponds", "a"), Ref("ponds", "b")
BELOW = Ref("ponds/a/days/monday/frogs", "x")
LATER = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(params=["", "pre."])
def store(
    request: pytest.FixtureRequest, run: Run, firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)
    opened = FirestoreStore(project=project, prefix=request.param)
    yield opened
    run(opened.close())


async def taken(store: FirestoreStore) -> dict[str, Spent]:
    """What was counted; the end of a call without an answer is looked at a little later."""
    await asyncio.sleep(0.05)
    return store.operations.take()


def test_reads_and_queries_are_counted_on_firestore(run: Run, store: FirestoreStore) -> None:
    """Documents that are missing, queries that find nothing, counts, and lists cost reads as well."""

    async def ask() -> None:
        await store.read([A, B, BELOW])
        assert await taken(store) == {"ponds": Spent(reads=2), "ponds/*/days/*/frogs": Spent(reads=1)}
        await store.read([PROBE])
        assert await taken(store) == {OTHER: Spent(reads=1)}
        assert await store.list_documents("ponds", 10, None) == []
        assert await store.count_documents("ponds") == 0
        assert await taken(store) == {"ponds": Spent(reads=2)}
        for at in (0, 500, 1_000):
            await store.commit(
                [Put(Ref("ponds", f"{n:04}"), None, {"n": n}) for n in range(at, min(at + 500, 1_001))]
            )
        written = (await taken(store))["ponds"]
        assert (written.writes, written.expiring, written.reads) == (1_001, 0, 0)
        assert len(await store.list_documents("ponds", 7, None)) == 7
        assert await taken(store) == {"ponds": Spent(reads=7)}
        assert await store.count_documents("ponds") == 1_001
        assert await taken(store) == {"ponds": Spent(reads=2)}
        measured = await store.measure("ponds")
        assert (measured.documents, measured.more, len(measured.sample)) == (1_001, False, 20)
        assert await taken(store) == {"ponds": Spent(reads=22)}

    run(ask())


def test_writes_are_counted_on_firestore(run: Run, store: FirestoreStore) -> None:
    """A document that is created to expire counts once as such; what was refused counts only as what was read."""

    async def write() -> None:
        made = await store.commit([Put(A, None, {"expireAt": LATER}), Put(BELOW, None, {"text": "x" * 1_000})])
        assert isinstance(made, Committed)
        spent = await taken(store)
        assert (spent["ponds"].writes, spent["ponds"].expiring) == (1, 1)
        assert 1_000 < spent["ponds/*/days/*/frogs"].bytes < 1_200
        again = await store.commit([Put(A, made.versions[0], {"expireAt": LATER})])
        assert isinstance(again, Committed)
        assert (await taken(store))["ponds"].expiring == 0
        assert isinstance(await store.commit([Put(A, None, {}), Delete(B, 1_000)]), Conflict)
        # A refused commit costs nothing.
        assert await taken(store) == {}
        (found,) = await store.read([A])
        assert found.version is not None
        assert isinstance(await store.commit([Delete(A, found.version)]), Committed)
        assert await taken(store) == {"ponds": Spent(reads=1, deletes=1)}
        below = await store.measure("ponds/*/days/*/frogs")
        assert (below.documents, [found.ref for found in below.sample]) == (1, [BELOW])
        assert (await store.measure("others/*/frogs")).documents == 0

    run(write())


@pytest.mark.parametrize("waited_s", [0, 0.1])
def test_a_call_that_is_given_up_ends_and_is_told_apart_on_firestore(
    run: Run, firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch, waited_s: float
) -> None:
    """Its commit may have been applied, its documents read: it is not counted as done, and not forgotten."""

    async def give_up() -> None:
        async with FirestoreProxy(firestore_emulator) as proxy:
            monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", proxy.address)
            store = FirestoreStore(project=project, deadline_s=10)
            await store.read([A])
            await taken(store)
            for method, call, lost in (
                (COMMIT, lambda: store.commit([Put(A, None, {}), Put(B, None, {})]), Spent(unanswered_writes=2)),
                (READ, lambda: store.read([A, B]), Spent(unanswered_reads=2)),
            ):
                proxy.faults[store.names.database] = Fault(method, BEFORE, HANG)
                task = asyncio.ensure_future(call())
                await asyncio.sleep(waited_s)
                # The call is on its way.
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await taken(store) == {"ponds": lost}
            await store.close()

    run(give_up())


def test_every_method_that_is_called_is_counted() -> None:
    """A call of another method would be billed and not counted."""
    folder = Path(firestore.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    called = {name.title().replace("_", "") for name in re.findall(r"\.client\(\)\s*\.(\w+)\(", text)}
    by_name = set(re.findall(r"\{_SERVICE\}/(\w+)", text))
    assert called | by_name == set(COUNTED)
    assert {"Commit", "BatchGetDocuments"} <= by_name


def test_the_number_of_collections_is_bounded() -> None:
    """Whatever views name their collections, what is kept of an hour stays small, and nothing is lost."""
    operations = Operations()
    for number in range(COLLECTIONS_MAX + 50):
        operations.of(f"c{number}").reads += 1
    operations.of("x" * 1_000).reads += 1
    found = operations.take()
    assert len(found) <= COLLECTIONS_MAX + 1
    assert max(map(len, found)) < 200
    assert sum(spent.reads for spent in found.values()) == COLLECTIONS_MAX + 51
