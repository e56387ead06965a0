"""Letters in parts that are purged, or expire, while a delivery is being buried: what was acknowledged opens.

Each test lets something happen between the moment a delivery's parts are stored, or its letter is found there, and
the commit that stores the letter. It is held against every store.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence

import msgspec
import pytest

from millpond.core import timestamps
from millpond.core.collections import LETTERS
from millpond.core.errors import Unavailable
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Committed, Conflict, Delete, Delivery, LogEntry, Outcome, Put, Ref, Snapshot, Write
from millpond.core.ports import StoreWithCatalog
from millpond.dead_letters.correction import PARTS_OUTLIVE_US
from millpond.dead_letters.store import StoredLetters
from tests.common.faulty_store import StoreAround
from tests.common.pond import NOW
from tests.common.rig import Rig
from tests.common.stores import Run, open_store

Meanwhile = Callable[[], Awaitable[None]]
# No JSON, and nothing that can be compressed into one document.
BIG = Delivery(
    message_id="1", publish_time=NOW, data=os.urandom(1_900_000), subscription="projects/p/subscriptions/s"
)
LETTER = Ref(LETTERS, "s__1")
KEPT_US = 14 * timestamps.DAY_US
EARLY, LATE = "before the plan", "before the commit"


class Interrupted(StoreAround):
    """A store in which something happens right before the next commit of a letter, or of a log line alone."""

    def __init__(self, store: StoreWithCatalog) -> None:
        super().__init__(store)
        self.meanwhile: Meanwhile | None = None
        # Requests that are still on their way after their sender has given up.
        self.held_up: list[tuple[Sequence[Write], Sequence[LogEntry]]] = []
        self.hold_up = False

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        if any(isinstance(write, Put) and write.ref == LETTER for write in writes) or (log and not writes):
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                await meanwhile()
            if self.hold_up:
                self.hold_up = False
                self.held_up.append((writes, log))
                raise Unavailable("no answer", code="DEADLINE_EXCEEDED")
        return await self.inner.commit(writes, log)


class Slow:
    """Buries, and lets something happen after its parts were stored, or its letter was found there."""

    def __init__(self, letters: StoredLetters) -> None:
        self._letters = letters
        self.meanwhile: Meanwhile | None = None

    async def write_letter(self, item: Item) -> DeadLetter:
        letter = await self._letters.write_letter(item)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return letter

    async def close(self) -> None:
        pass


class Pond(Rig[Interrupted]):
    """One instance of the service. Others on the same store are other instances."""

    def __init__(self, store: StoreWithCatalog) -> None:
        patient = {"FIRESTORE_RETRY_INITIAL_BACKOFF_S": "0.01", "FIRESTORE_RETRY_MAX_BACKOFF_S": "2"}
        super().__init__(Interrupted(store), POISON_POLICY="park", EVENT_LOG="on", **patient)
        keep = round(self.settings.letter_ttl_days * timestamps.DAY_US)
        self.slow = Slow(StoredLetters(self.store, keep=keep, wall_clock=lambda: self.now))
        self.bury_in(self.slow)

    def interrupt(self, when: str, meanwhile: Meanwhile) -> None:
        """Let it happen to the next delivery that is buried: before it is planned, or right before its commit."""
        (self.slow if when == EARLY else self.store).meanwhile = meanwhile

    async def bury(self, delivery: Delivery = BIG) -> Outcome:
        """Poison where it was buried, and the broker would forget it."""
        result = await self.service.engine.handle(delivery)
        assert result.buried or result.outcome is Outcome.RETRY, result
        return result.outcome

    async def purge(self) -> None:
        assert await self.service.letters.purge(LETTER)

    async def opens(self) -> bool:
        """Whether the letter is there; if it is, it must hold the message."""
        opened = await self.service.letters.open_letter(LETTER)
        assert opened is None or opened[1].data == BIG.data
        return opened is not None

    async def sweep_at(self, now: int) -> None:
        """What has expired by then is gone: another instance, whose clock is steady, has deleted it."""
        self.now = now
        while await self.store.sweep(now, None):
            pass


@pytest.fixture(params=["memory", "sqlite", "firestore"])
def store(request: pytest.FixtureRequest, run: Run) -> Iterator[StoreWithCatalog]:
    opened = open_store(request.param, request)
    yield opened
    run(opened.close())


async def until_buried(pond: Pond) -> None:
    """As the broker does it: what was not acknowledged comes again."""
    while await pond.bury() is Outcome.RETRY:
        pass
    assert await pond.opens()


async def is_right(pond: Pond, outcome: Outcome, when: str) -> bool:
    """Not acknowledged, or the letter opens. Found there and then purged, it was acknowledged before the purge."""
    opens = await pond.opens()
    return outcome is Outcome.RETRY or opens or when == LATE


@pytest.mark.parametrize("when", [EARLY, LATE])
@pytest.mark.parametrize("attempt", [None, 2], ids=["the same bytes", "other bytes"])
@pytest.mark.parametrize("instances", [1, 2])
async def test_the_letter_a_redelivery_found_is_purged(
    store: StoreWithCatalog, instances: int, attempt: int | None, when: str
) -> None:
    """The second delivery stored no parts of its own, and those it counted on are gone."""
    async with Pond(store) as one, Pond(store) as other:
        assert await one.bury() is Outcome.POISON
        one.interrupt(when, (one, other)[instances - 1].purge)
        outcome = await one.bury(msgspec.structs.replace(BIG, attempt=attempt))
        assert await is_right(one, outcome, when)
        await until_buried(one)


@pytest.mark.parametrize("when", [EARLY, LATE])
@pytest.mark.parametrize("attempt", [None, 2], ids=["the same bytes", "other bytes"])
async def test_two_deliveries_at_once_and_the_first_letter_is_purged(
    store: StoreWithCatalog, attempt: int | None, when: str
) -> None:
    """The purge must not take along parts that the other delivery has stored for itself."""
    async with Pond(store) as one, Pond(store) as other:

        async def buried_and_purged() -> None:
            assert await other.bury(msgspec.structs.replace(BIG, attempt=attempt)) is Outcome.POISON
            await other.purge()

        one.interrupt(when, buried_and_purged)
        assert await one.bury() is Outcome.POISON
        assert await one.opens()


@pytest.mark.parametrize("when", [EARLY, LATE])
async def test_the_letter_a_redelivery_found_expires(store: StoreWithCatalog, when: str) -> None:
    """And is swept with its parts: what it held is held by nothing."""
    async with Pond(store) as pond:
        assert await pond.bury() is Outcome.POISON
        pond.now += KEPT_US - 1
        swept_at = pond.now + 1 + PARTS_OUTLIVE_US
        pond.interrupt(when, lambda: pond.sweep_at(swept_at))
        assert await is_right(pond, await pond.bury(), when)
        await until_buried(pond)


async def test_the_parts_of_a_delivery_expire_before_its_commit(store: StoreWithCatalog) -> None:
    """An instance that stood still for as long as letters are kept acknowledges nothing with what it stored."""
    async with Pond(store) as pond:
        pond.interrupt(EARLY, lambda: pond.sweep_at(NOW + KEPT_US + PARTS_OUTLIVE_US))
        assert await pond.bury() is Outcome.RETRY
        pond.interrupt(LATE, lambda: pond.sweep_at(pond.now + KEPT_US + PARTS_OUTLIVE_US))
        assert await pond.bury() is Outcome.RETRY
        await until_buried(pond)


@pytest.mark.parametrize("when", [EARLY, LATE])
@pytest.mark.parametrize("instances", [1, 2])
async def test_a_letter_is_purged_while_its_replay_is_buried_again(
    store: StoreWithCatalog, instances: int, when: str
) -> None:
    """A replay that says `poison` says that the letter is there."""
    async with Pond(store) as one, Pond(store) as other:
        assert await one.bury() is Outcome.POISON
        one.interrupt(when, (one, other)[instances - 1].purge)
        result = await one.service.replay_letter(LETTER.id)
        assert result is not None
        assert await is_right(one, result.outcome, when)
        await until_buried(one)


async def test_a_commit_that_arrives_after_the_purge_stores_nothing(store: StoreWithCatalog) -> None:
    """Its sender gave it up and sent it again; that one was stored, acknowledged, and the letter purged."""
    async with Pond(store) as pond:
        pond.store.hold_up = True
        assert await pond.bury() is Outcome.POISON
        assert await pond.opens()
        await pond.purge()
        ((writes, log),) = pond.store.held_up
        assert isinstance(await store.commit(writes, log), Conflict)
        assert not await pond.opens()


async def test_opening_a_letter_while_it_is_purged_finds_none(store: StoreWithCatalog) -> None:
    """Not an error: who asks a moment later is told the same."""
    async with Pond(store) as pond:
        assert await pond.bury() is Outcome.POISON

        async def read(refs: Sequence[Ref]) -> list[Snapshot]:
            found = await store.read(refs)
            if refs == [LETTER]:
                del pond.store.read
                await pond.purge()
            return found

        pond.store.read = read  # type: ignore[method-assign]
        assert not await pond.opens()


async def test_an_expired_letter_outlives_none_of_its_parts(store: StoreWithCatalog) -> None:
    """They expire a day later. Where the store removes them first all the same, the letter counts as gone."""
    async with Pond(store) as pond:
        assert await pond.bury() is Outcome.POISON
        (head,) = await store.read([LETTER])
        names = (head.data or {})["parts"]
        parts = await store.read([Ref(f"{LETTER.path}/parts", name) for name in names])
        assert {(part.data or {})["expireAt"] for part in parts} == {
            timestamps.to_datetime(NOW + KEPT_US + PARTS_OUTLIVE_US)
        }
        await store.commit([Delete(parts[0].ref, parts[0].version or 0)])
        with pytest.raises(Unavailable, match="is gone"):
            await pond.opens()
        pond.now += KEPT_US
        assert not await pond.opens()


async def test_nothing_is_left_of_a_purged_letter(store: StoreWithCatalog) -> None:
    """Neither its parts, nor the token of its commit."""
    async with Pond(store) as pond:
        assert await pond.bury() is Outcome.POISON
        await pond.purge()
        assert await store.list_documents(f"{LETTER.path}/parts", 10, None) == []


@pytest.mark.parametrize("size", [10, 1_900_000], ids=["small", "in parts"])
async def test_two_messages_of_one_id_without_a_subscription_at_once(store: StoreWithCatalog, size: int) -> None:
    """The second is not taken for the first: it comes again, and has a letter of its own."""
    async with Pond(store) as pond:
        one, other = (msgspec.structs.replace(BIG, subscription="", data=os.urandom(size)) for _ in range(2))

        async def until_settled(delivery: Delivery) -> None:
            while await pond.bury(delivery) is Outcome.RETRY:
                pass

        await asyncio.gather(until_settled(one), until_settled(other))
        letters = await store.list_documents(LETTERS, 10, None)
        opened = [await pond.service.letters.open_letter(letter.ref) for letter in letters]
        assert {found[1].data for found in opened if found is not None} == {one.data, other.data}
