"""What only the Firestore store can get wrong: limits, deadlines, others' values, field names, prefixes."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import re
import time
from typing import Any

import pytest
from google.api_core.datetime_helpers import DatetimeWithNanoseconds
from google.cloud import firestore
from google.cloud.firestore_v1.vector import Vector

from millpond.core.errors import Unavailable, WriteRefused
from millpond.core.model import Committed, Conflict, Patch, Put, Ref
from millpond.stores.firestore.store import COMMIT_BYTES_MAX_EMULATOR, FirestoreStore
from tests.common.firestore_proxy import AFTER, BEFORE, COMMIT, HANG, READ, Fault
from tests.common.stores import Run
from tests.contract.rig import Firestore
from tests.contract.writes import entry

A, B = Ref("ponds", "a"), Ref("ponds", "b")
DEADLINE_S = 0.5
AT_A_NANOSECOND = DatetimeWithNanoseconds(2026, 1, 8, 12, 0, 0, nanosecond=123_456_789, tzinfo=dt.UTC)  # type: ignore[no-untyped-call]


def test_a_commit_over_the_limit_is_refused_before_it_is_sent(fire: Firestore, run: Run) -> None:
    """Firestore would call it RESOURCE_EXHAUSTED, which looks as if waiting would help; each write is fine."""
    store = fire.store()
    writes = [Put(Ref("ponds", f"{n}"), None, {"blob": "x" * 1_000_000}) for n in range(5)]
    with pytest.raises(WriteRefused, match=f"5 writes .* over {COMMIT_BYTES_MAX_EMULATOR}") as refused:
        run(store.commit(writes))
    assert refused.value.code == "COMMIT_TOO_LARGE"
    assert fire.counts.calls[COMMIT] == 0
    assert isinstance(run(store.commit(writes[:3])), Committed)


def test_log_entries_count_towards_the_limit(fire: Firestore, run: Run) -> None:
    """The document alone is small, its entries are not: refused before it is sent."""
    store = fire.store(keeps_log=True)
    # What was random before does not compress.
    entries = [entry(f"m{n}", data=random.Random(n).randbytes(800_000)) for n in range(6)]
    with pytest.raises(WriteRefused, match=f"8 writes .* over {COMMIT_BYTES_MAX_EMULATOR}") as refused:
        run(store.commit([Put(A, None, {"n": 1})], entries))
    assert refused.value.code == "COMMIT_TOO_LARGE"
    assert fire.counts.calls[COMMIT] == 0


def test_a_commit_just_under_the_limit_is_taken(fire: Firestore, run: Run) -> None:
    """The limit is the emulator's, less a margin: what we let pass, it takes."""
    store = fire.store()
    writes = [Put(Ref("ponds", f"{n}"), None, {"blob": "x" * 1_000_000}) for n in range(4)]

    def with_more(length: int) -> list[Put]:
        return [*writes, Put(A, None, {"blob": "x" * length})]

    with pytest.raises(WriteRefused) as refused:
        run(store.commit(with_more(900_000)))
    size = re.search(r"has (\d+) bytes", str(refused.value))
    assert size is not None
    fits = 900_000 - (int(size[1]) - COMMIT_BYTES_MAX_EMULATOR)
    assert fits > 10_000
    with pytest.raises(WriteRefused, match="bytes, over"):
        run(store.commit(with_more(fits + 100)))
    assert isinstance(run(store.commit(with_more(fits - 100))), Committed)


@pytest.mark.parametrize("position", [BEFORE, AFTER])
@pytest.mark.parametrize("method", [READ, COMMIT])
def test_a_call_that_hangs_ends_at_its_deadline(fire: Firestore, run: Run, method: str, position: str) -> None:
    """FIRESTORE_RPC_DEADLINE_S: then it is unknown whether it was applied."""
    run(fire.store().commit([Put(A, None, {})]))
    store = fire.store(deadline_s=DEADLINE_S)
    fire.inject(Fault(method, position, HANG, None))
    began = time.monotonic()
    with pytest.raises(Unavailable) as hung:
        run(store.read([A, B]) if method == READ else store.commit([Put(B, None, {})]))
    assert hung.value.code == "DEADLINE_EXCEEDED"
    assert DEADLINE_S <= time.monotonic() - began < DEADLINE_S + 1


def test_a_conflict_costs_one_call(fire: Firestore, run: Run) -> None:
    """It tells whether a document exists that was to be created; which one has changed, the engine finds out."""
    store = fire.store()
    first = run(store.commit([Put(A, None, {"n": 1})]))
    assert isinstance(first, Committed)
    run(store.commit([Put(A, first.versions[0], {"n": 2})]))
    fire.proxy.counts.clear()
    assert run(store.commit([Put(A, None, {}), Put(B, None, {})])) == Conflict(exists=True)
    assert run(store.commit([Put(A, first.versions[0], {}), Put(B, None, {})])) == Conflict(exists=False)
    assert (fire.counts.calls, fire.counts.refused) == ({COMMIT: 2}, 2)


def test_documents_of_one_commit_have_one_version(fire: Firestore, run: Run) -> None:
    """By that an instance counts the commits of others."""
    store = fire.store()
    committed = run(store.commit([Put(A, None, {"n": 1}), Put(B, None, {"n": 1})]))
    assert isinstance(committed, Committed)
    assert committed.versions[0] == committed.versions[1]
    assert {found.version for found in run(store.read([A, B]))} == set(committed.versions)


def test_two_writers_at_once_lose_nothing(fire: Firestore, run: Run) -> None:
    """Each adds to what it read, under the version it read: every addition that was committed is there."""

    async def add(store: FirestoreStore) -> None:
        for _ in range(10):
            while True:
                (found,) = await store.read([A])
                count = (found.data or {"n": 0})["n"]
                if isinstance(await store.commit([Put(A, found.version, {"n": count + 1})]), Committed):
                    break

    async def all_of_them() -> None:
        await asyncio.gather(*(add(store) for store in stores))

    stores = [fire.store(deadline_s=20) for _ in range(3)]
    run(all_of_them())
    assert run(stores[0].read([A]))[0].data == {"n": 30}


def test_what_only_others_write_is_read_and_left_alone(fire: Firestore, run: Run) -> None:
    """Places, references, nanoseconds, vectors: a patch changes its own fields, and not one byte of theirs."""
    others = fire.others()
    place = others.document("ponds", "a")
    place.set(
        {
            "where": firestore.GeoPoint(52.5, 13.4),
            "next": others.document("ponds", "b"),
            "at": AT_A_NANOSECOND,
            "vector": Vector([1.0, 2.5]),
            "list": [others.document("ponds", "c"), firestore.GeoPoint(0, 0)],
            "map": {"where": firestore.GeoPoint(1, 2), "mine": "old"},
            "none": float("nan"),
            "status": "old",
        }
    )
    before = fire.raw("ponds/a")
    store = fire.store()
    (found,) = run(store.read([A]))
    root = f"projects/{fire.project}/databases/(default)/documents"
    assert found.data["where"] == {"latitude": 52.5, "longitude": 13.4}
    assert found.data["next"] == f"{root}/ponds/b"
    assert found.data["at"] == dt.datetime(2026, 1, 8, 12, 0, 0, 123_456, tzinfo=dt.UTC)
    assert isinstance(run(store.commit([Patch(A, found.version, {("status",): "new"})])), Committed)
    after = fire.raw("ponds/a")
    assert {name for name in before if before[name] != after[name]} == {"status"}
    (found,) = run(store.read([A]))
    assert isinstance(run(store.commit([Patch(A, found.version, {("map", "mine"): "new"})])), Committed)
    kept = place.get().to_dict() or {}
    assert kept["map"] == {"where": firestore.GeoPoint(1, 2), "mine": "new"}


NAMES = (
    *("a.b", "`", "tick`s", "back\\slash", "\\`", "naïve 🌊", "ключ"),
    *("1st", "with space", "a-b", "a/b", "*", "[0]"),
)


def test_every_field_name_can_be_patched(fire: Firestore, run: Run) -> None:
    """A name is a name, whatever is in it: nothing is taken for a path, nothing else is touched."""
    store = fire.store()
    deep: dict[str, Any] = {name: {"kept": 1, name: 1} for name in NAMES}
    (version,) = run(store.commit([Put(A, None, {**deep, "a": {"b": "not this one"}})])).versions
    for name in NAMES:
        (version,) = run(store.commit([Patch(A, version, {(name, name): 2, (name, "new"): name})])).versions
        deep[name] |= {name: 2, "new": name}
        assert run(store.read([A]))[0].data == {**deep, "a": {"b": "not this one"}}
    (version,) = run(store.commit([Patch(A, version, {(name,): None for name in NAMES})])).versions
    assert fire.others().document("ponds", "a").get().to_dict() == {
        **dict.fromkeys(NAMES),
        "a": {"b": "not this one"},
    }


def test_two_databases_are_two_worlds(fire: Firestore, run: Run) -> None:
    """FIRESTORE_DATABASE: the same path in each, and neither sees the other's."""
    here, there = fire.store(), fire.store(database="archive")
    run(here.commit([Put(A, None, {"in": "here"})]))
    run(there.commit([Put(A, None, {"in": "there"}), Put(B, None, {})]))
    assert [found.data for found in run(here.read([A, B]))] == [{"in": "here"}, None]
    assert [found.data for found in run(there.read([A, B]))] == [{"in": "there"}, {}]
    assert run(here.collections()) == [("ponds", 1)]
    assert run(there.collections()) == [("ponds", 2)]


def test_two_prefixes_do_not_see_each_other(fire: Firestore, run: Run) -> None:
    """FIRESTORE_COLLECTION_PREFIX: reading, writing, listing, counting and sweeping stay on their own side."""
    blue, green = fire.store(prefix="blue."), fire.store(prefix="green.")
    below = Ref("ponds/a/fish", "x")
    expired = {"expireAt": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}
    run(blue.commit([Put(A, None, {"side": "blue"}), Put(below, None, {}), Put(B, None, expired)]))
    assert [found.data for found in run(green.read([A, below]))] == [None, None]
    assert run(green.collections()) == []
    assert run(green.list_documents("ponds", 10, None)) == []
    assert run(green.sweep(2_000_000_000_000_000, None)) == 0
    assert isinstance(run(green.commit([Put(A, None, {"side": "green"})])), Committed)
    assert [found.data for found in run(blue.read([A, B]))] == [{"side": "blue"}, expired]
    assert run(blue.collections()) == [("ponds", 2), ("ponds/a/fish", 1)]
    assert [found.id for found in fire.others().collections()] == ["blue.ponds", "green.ponds"]
