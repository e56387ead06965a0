"""What doctor says of documents that another program wrote, on the embedded store and on Firestore."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path

import pytest

from millpond.core.model import Document, Put, Ref
from millpond.core.ports import StoreWithCatalog
from millpond.core.view import View
from millpond.doctor.embedded import check_embedded
from millpond.doctor.existing_documents import check_existing
from millpond.doctor.findings import State
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite.store import SqliteStore
from tests.common.stores import Run, open_store
from tests.reprocess.doors import Doors, Passes

NOW = time.time_ns() // 1_000
PAST = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
AHEAD = dt.datetime(2190, 1, 1, tzinfo=dt.UTC)
OURS = {"state": "open", "source": {"stamp": "01767184800000000.00000000000000000000.01767184800000000.1"}}


class Adopting(Doors):
    adopt = "savedAt"


class Replacing(Doors):
    existing = "replace"


async def put(store: StoreWithCatalog, **documents: Document) -> None:
    await store.commit([Put(Ref("doors", name), None, document) for name, document in documents.items()])


@pytest.mark.parametrize("kind", ["memory", "firestore"])
def test_documents_that_no_view_adopts_are_named(kind: str, run: Run, request: pytest.FixtureRequest) -> None:
    store = open_store(kind, request)
    run(put(store, ours=OURS, a={"n": 1}, b={"n": 2}, c={"source": "somewhere"}, d={"source": {"stamp": 7}}))
    (found,) = run(check_existing(store, [Doors()], 100, NOW))
    assert found.state is State.WARNING
    assert found.found == (
        "4 documents of doors written by another program, which the view doors does not adopt: their events become "
        "dead letters (doors/a, doors/b, doors/c, …)"
    )
    assert "adopt = " in found.advice
    assert "docs/cutover.md" in found.advice
    run(store.close())


async def test_adopted_times_in_the_future_are_named() -> None:
    """They freeze their documents: every event is older."""
    store = MemoryStore()
    await put(store, ours=OURS, old={"savedAt": PAST}, wrong={"savedAt": AHEAD}, bare={})
    left_alone, frozen, adopted = await check_existing(store, [Adopting()], 100, NOW)
    assert (left_alone.state, "doors/bare" in left_alone.found) == (State.WARNING, True)
    assert frozen.found == "1 document of doors adopted with a time in the future (doors/wrong)"
    assert (frozen.state, "correct the time" in frozen.advice) == (State.WARNING, True)
    assert (adopted.state, adopted.found) == (
        State.OK,
        "1 document of doors written by another program, and adopted",
    )


async def test_a_view_that_replaces_has_said_so() -> None:
    store = MemoryStore()
    await put(store, other={"n": 1})
    (found,) = await check_existing(store, [Replacing()], 100, NOW)
    assert (found.state, "1 looked at" in found.found) == (State.OK, True)


@pytest.mark.parametrize("views", [[], [Passes()]], ids=["no views", "nothing stored"])
async def test_there_is_nothing_to_say_of_what_is_not_there(views: list[View]) -> None:
    found = await check_existing(MemoryStore(), views, 100, NOW)
    assert [finding.state for finding in found] == [State.OK] * len(views)


async def test_no_more_is_read_than_may_be_and_doctor_says_so() -> None:
    store = MemoryStore()
    await put(store, **{str(number): {"n": number} for number in range(5)})
    (found,) = await check_existing(store, [Doors()], 3, NOW)
    assert found.found.startswith(
        "3 documents of doors written by another program among the first 3, more were not"
    )


def test_doctor_looks_at_the_embedded_store_and_leaves_it_as_it_is(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "pond.db"
    store = SqliteStore(path)
    run(put(store, ours=OURS, other={"n": 1}))
    run(store.close())
    before = {one.name: one.read_bytes() for one in path.parent.iterdir()}
    (found,) = [finding for finding in check_embedded(path, [Doors()]) if finding.check == "documents"]
    assert (found.state, "1 document of doors" in found.found) == (State.WARNING, True)
    assert {one.name: one.read_bytes() for one in path.parent.iterdir()} == before
