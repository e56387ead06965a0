"""Letters too big for one document: their parts are there before they are, and no other delivery touches them."""

from __future__ import annotations

import asyncio
import contextlib
import os

import msgspec
import pytest

from millpond.core.errors import InvalidEvent, Unavailable
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Committed, Delivery, Ref, Snapshot
from millpond.core.plan import needs_of, plan
from millpond.core.ports import StoreWithCatalog
from millpond.core.receipts import Receipts
from millpond.dead_letters.store import StoredLetters
from millpond.stores.memory import MemoryStore
from tests.common.faulty_store import FaultyStore
from tests.common.pond import NOW
from tests.common.rig import Bench

FAULT = InvalidEvent("poison")
BIG = Delivery(
    message_id="1",
    publish_time=NOW,
    data=os.urandom(500),
    subscription="projects/p/subscriptions/s",
    attempt=1,
)


def letters_in(store: StoreWithCatalog) -> StoredLetters:
    return StoredLetters(store, keep=10**12, wall_clock=lambda: NOW, part_bytes_max=100)


async def dig(letters: StoredLetters, attempt: int) -> DeadLetter:
    delivery = msgspec.structs.replace(BIG, attempt=attempt)
    return await letters.write_letter(Item(delivery, "t", NOW, faults=(FAULT,)))


async def everything(store: StoreWithCatalog) -> list[Snapshot]:
    return [found for name, _ in await store.collections() for found in await store.list_documents(name, 99, None)]


async def bury(store: StoreWithCatalog, letter: DeadLetter) -> None:
    """As the engine does it: planned on what the store holds."""
    item = Item(BIG, "t", NOW, faults=(FAULT,), letter=letter)
    snapshots = {found.ref: found for found in await store.read(needs_of(item).all)}
    planned = plan([item], snapshots, NOW, Receipts())
    assert planned.results[0].buried
    assert isinstance(await store.commit(planned.writes), Committed)


async def data_of(letters: StoredLetters, ref: Ref | None) -> bytes | None:
    assert ref is not None
    opened = await letters.open_letter(ref)
    assert opened is not None
    return opened[1].data


@pytest.mark.parametrize("fails_in", range(1, 9))
async def test_a_redelivery_that_stops_half_way_leaves_the_letter_whole(fails_in: int) -> None:
    """The attempt's number makes it other bytes: parts under the same names would no longer fit together."""
    store = FaultyStore()
    letters = letters_in(store)
    letter = await dig(letters, 1)
    await bury(store, letter)
    store.before = [None] * (fails_in - 1) + [Unavailable("gone")]
    with contextlib.suppress(Unavailable):
        await dig(letters, 2)
    assert await data_of(letters, letter.ref) == BIG.data
    assert letter.document is not None
    assert len(letter.document["parts"]) > 3


@pytest.mark.parametrize("winner", [0, 1])
async def test_two_first_deliveries_at_once_make_one_whole_letter(winner: int) -> None:
    store = MemoryStore()
    letters = letters_in(store)
    dug = await asyncio.gather(dig(letters, 1), dig(letters, 2))
    await bury(store, dug[winner])
    assert await data_of(letters, dug[0].ref) == BIG.data
    other = dug[1 - winner].document
    assert other is not None
    assert not set(other["parts"]) & set((dug[winner].document or {})["parts"])


async def test_a_letter_that_lies_there_is_not_written_again() -> None:
    store = MemoryStore()
    letters = letters_in(store)
    await bury(store, await dig(letters, 1))
    before = await everything(store)
    await dig(letters, 2)
    assert await everything(store) == before


async def test_purging_takes_the_parts_along() -> None:
    store = MemoryStore()
    letters = letters_in(store)
    letter = await dig(letters, 1)
    await bury(store, letter)
    assert letter.ref is not None
    assert len(await everything(store)) > 4
    assert await letters.purge(letter.ref)
    assert await everything(store) == []


async def test_parts_have_names_of_their_own() -> None:
    """Sixteen random characters, and a number that sorts."""
    letter = await dig(letters_in(MemoryStore()), 1)
    assert letter.document is not None
    names = list(letter.document["parts"])
    assert names == sorted(names)
    (mark,) = {name[:16] for name in names}
    assert names == [f"{mark}-{number:03d}" for number in range(len(names))]


async def test_a_letter_too_big_for_one_document_comes_in_parts() -> None:
    """Incompressible megabytes are kept whole, and purged whole."""
    bench = Bench(FaultyStore())
    data = os.urandom(2_500_000)
    message = Delivery(message_id="big", publish_time=NOW, data=data, subscription="s")
    (result,) = await bench.send(message)
    assert (result.reason, result.buried) == ("invalid_json", True)
    opened = await bench.service.letters.open_letter(Ref("dead_letters", "s__big"))
    assert opened is not None
    assert opened[1] == message
    assert await bench.service.letters.purge(Ref("dead_letters", "s__big"))
    assert await bench.store.collections() == []
