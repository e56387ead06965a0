"""Bulk work on Firestore against a store that enforces Google's rule: hardly refused, nearly as fast as allowed.

Each kind of work runs through the code of its command, on a clock that jumps.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from millpond.cli import ingest
from millpond.cli.backend import LocalBackend, ViewRebuild
from millpond.core import timestamps
from millpond.core.ids import encode_id
from millpond.core.model import Delivery, Put, Ref
from millpond.core.ports import StoreWithCatalog
from millpond.engine.pace import Pace
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite.store import SqliteStore
from tests.common.rig import Rig
from tests.common.ruled_store import Rule, RuledStore, gradually, in_steps
from tests.common.warped_time import run_warped
from tests.reprocess.doors import Doors, DoorsWithRoom, LenientDoors, Passes, door

FIRESTORE = {
    "STORE": "firestore",
    "GCP_PROJECT": "p",
    "ENV": "test",
    "BUILT_IN_VIEWS": "none",
    "EVENT_LOG": "on",
    "CONSUMER_QUEUE_SIZE": "128",
    "FIRESTORE_RETRY_INITIAL_BACKOFF_S": "0.25",
    "FIRESTORE_RETRY_MAX_BACKOFF_S": "6",
}
AT_ONCE = 64
Work = Callable[["Mill", int], Coroutine[Any, Any, None]]


class Mill(Rig[RuledStore]):
    """An instance on a store with the rule; `backend` is what a command without a server has."""

    def __init__(self, store: RuledStore, *views: Any) -> None:
        super().__init__(store, views or (Doors(), Passes()), **FIRESTORE)

    @property
    def backend(self) -> LocalBackend:
        return LocalBackend(self.service)

    @property
    def pace(self) -> Pace:
        assert self.service.pace is not None
        return self.service.pace

    async def ingest(self, lines: int, folder: Path, name: str = "") -> ingest.IngestReport:
        """As `millpond ingest` does."""
        report = ingest.IngestReport()
        path = folder / "day.jsonl"
        path.write_text("\n".join(_line(door(f"m{name}{n}", "open", n, f"d{n % 997}")) for n in range(lines)))
        with path.open("rb") as file:
            source = ingest.ChunkSource(file)
            await ingest.send_all(self.backend, source, None, AT_ONCE, report, lambda _: None)
        return report


def _line(message: Delivery) -> str:
    data = json.loads(message.data or b"")
    published = timestamps.to_text(message.publish_time)
    return json.dumps({"topic": "doors", "data": data, "messageId": message.message_id, "publishTime": published})


def assert_polite(store: RuledStore, rule: Rule = in_steps) -> None:
    assert store.commits > 100
    assert store.refused_share <= 0.01
    assert store.used_share(rule) >= 0.9


async def fill(store: StoreWithCatalog, *messages: Delivery) -> None:
    """By another instance, in the past: without the rule, and without a pace."""
    async with Rig(store, (Doors(),), EVENT_LOG="on", CONSUMER_QUEUE_SIZE="100000") as past:
        for at in range(0, len(messages), 500):
            await past.send(*messages[at : at + 500])


async def fold(store: RuledStore, rebuild: ViewRebuild) -> dict[str, Any]:
    """The rule is about what is written, and read for that. The fold compares documents that are there."""
    store.paused = True
    found = await rebuild.fold()
    store.paused = False
    return found


@pytest.mark.parametrize("rule", [in_steps, gradually])
def test_a_file_is_ingested_at_nearly_the_allowed_rate(rule: Rule, tmp_path: Path) -> None:
    """Before and after the step of the fifth minute. A store that has the rule as a curve never allows less."""
    store = RuledStore(MemoryStore(), rule)
    lines = 15_000

    async def story() -> None:
        async with Mill(store) as mill:
            # Other bulk work of the same process, until the step is near.
            await mill.backend.deliver(door("early", "open", 0))
            for _ in range(280):
                async with mill.pace.turn(400):
                    mill.pace.committed(400, 0.02)
                for _ in range(100):
                    mill.pace.settled(None)
                await asyncio.sleep(1)
            report = await mill.ingest(lines, tmp_path)
            assert report.outcomes.keys() <= {"applied", "stale_ignored"}
            assert report.outcomes.total() == lines

    run_warped(story())
    assert store.refused_share <= 0.01
    assert store.used_share(in_steps, 285, 299) >= 0.9
    assert store.used_share(in_steps, 301, store.seconds - 1) >= 0.9
    assert store.seconds > 330
    assert store.largest <= 75, "a commit is a small part of a second"
    assert store.commits < lines / 5, "messages share commits all the same"


def test_letters_are_replayed_at_nearly_the_allowed_rate() -> None:
    """Each with its document, its receipt, its log entry and the note on the letter."""
    letters = 4_000
    inner = MemoryStore()
    store = RuledStore(inner)

    async def story() -> None:
        lost = [door(f"m{n}", "open", n, f"d{n}") for n in range(letters)]
        unread = [_without_state(message) for message in lost]
        await fill(inner, *unread)
        async with Mill(store, LenientDoors(), Passes()) as mill:
            ids = [found.ref.id for found in await inner.list_documents("dead_letters", letters + 1, None)]
            assert len(ids) == letters
            slots = asyncio.Semaphore(16)

            async def one(letter_id: str) -> None:
                async with slots:
                    answer = await mill.backend.replay(letter_id)
                assert answer is not None
                assert answer["outcome"] == "applied"

            await asyncio.gather(*map(one, ids))

    run_warped(story())
    assert_polite(store)


def _without_state(message: Delivery) -> Delivery:
    data = {name: value for name, value in json.loads(message.data or b"").items() if name != "state"}
    return msgspec.structs.replace(message, data=json.dumps(data).encode())


def test_a_rebuild_swaps_at_nearly_the_allowed_rate(tmp_path: Path) -> None:
    """Every document differs: it is written a page at a time."""
    inner = SqliteStore(tmp_path / "pond.db", durable=False)
    store = RuledStore(inner)
    doors = 8_000

    async def story() -> None:
        await fill(inner, *(door(f"m{n}", "open", n, f"d{n:05d}", room="hall") for n in range(doors)))
        async with Mill(store, DoorsWithRoom()) as mill, mill.backend.rebuild("doors") as rebuild:
            assert (await fold(store, rebuild))["report"]["different"] == doors
            advanced: list[int] = []
            assert (await rebuild.swap(advanced.append))["written"] == doors
            assert sum(advanced) == doors
        await store.close()

    run_warped(story())
    # After the documents, the swap waits until other instances have settled.
    settled = store.used_share(in_steps, 0, 2 * doors / 500 + 1)
    assert store.refused_share <= 0.01
    assert settled >= 0.9


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_a_rebuild_survives_a_store_that_allows_less(share: float, tmp_path: Path) -> None:
    """Its refused pages are tried again, in smaller ones: one of the first has more than a second allows."""
    inner = SqliteStore(tmp_path / "pond.db", durable=False)
    store = RuledStore(inner)
    store.share = share

    async def story() -> None:
        await fill(inner, *(door(f"m{n}", "open", n, f"d{n:05d}", room="hall") for n in range(1_500)))
        async with Mill(store, DoorsWithRoom()) as mill, mill.backend.rebuild("doors") as rebuild:
            await fold(store, rebuild)
            assert (await rebuild.swap(lambda _: None))["written"] == 1_500
        await store.close()

    run_warped(story())
    assert store.refused > 0
    assert store.written >= 1_500


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_receipts_are_adopted_by_a_store_that_allows_less(share: float, tmp_path: Path) -> None:
    inner = SqliteStore(tmp_path / "pond.db", durable=False)
    store = RuledStore(inner)
    store.share = share

    async def story() -> None:
        await fill(inner, *(door(f"m{n}", "open", n, f"d{n:05d}") for n in range(300)))
        async with Mill(store, Doors(), Passes()) as mill, mill.backend.rebuild("passes") as rebuild:
            await fold(store, rebuild)
            assert (await rebuild.swap(lambda _: None))["written"] == 300
        await store.close()

    run_warped(story())
    assert store.refused > 0


def test_while_firestore_is_exhausted_no_live_traffic_is_blamed(tmp_path: Path) -> None:
    """There is none, and what a page of bulk work missed is not live traffic's."""
    store = RuledStore(MemoryStore())
    store.share = 0.01
    reasons: Counter[str] = Counter()

    async def story() -> None:
        async with Mill(store) as mill:
            work = asyncio.create_task(mill.ingest(2_000, tmp_path))
            for _ in range(60):
                await asyncio.sleep(1)
                reasons[(mill.pace.reason or "").split(":")[0]] += 1
            store.share = 1.0
            await work

    run_warped(story())
    assert reasons["Firestore is exhausted"] >= 55
    assert "live traffic goes first" not in reasons


def test_receipts_are_adopted_at_nearly_the_allowed_rate(tmp_path: Path) -> None:
    """A tally that was added: its receipts and its documents are written."""
    inner = SqliteStore(tmp_path / "pond.db", durable=False)
    store = RuledStore(inner)
    events = 5_000

    async def story() -> None:
        await fill(inner, *(door(f"m{n}", "open", n, f"d{n:05d}") for n in range(events)))
        async with Mill(store, Doors(), Passes()) as mill, mill.backend.rebuild("passes") as rebuild:
            await fold(store, rebuild)
            assert (await rebuild.swap(lambda _: None))["written"] == events
        await store.close()

    run_warped(story())
    assert store.written >= 2 * events
    assert store.refused_share <= 0.01
    assert store.used_share(in_steps, 0, 4 * events / 500 + 1) >= 0.9


def test_ids_are_moved_at_nearly_the_allowed_rate() -> None:
    """Each document by a commit of its own, with two writes."""
    inner = MemoryStore()
    store = RuledStore(inner)
    ids = [encode_id(f"d_{n}_") for n in range(8_000)]

    async def story() -> None:
        document = {"state": "open", "source": {"stamp": "1", "key": "k"}}
        await inner.commit([Put(Ref("doors", one), None, document) for one in ids])
        async with Mill(store, Doors()) as mill:
            for at in range(0, len(ids), 100):
                answers = await mill.backend.move("doors", ids[at : at + 100])
                assert {answer["outcome"] for answer in answers} == {"moved"}

    run_warped(story())
    assert_polite(store)


def test_a_store_that_allows_half_for_a_while_is_given_half(tmp_path: Path) -> None:
    """No message is lost, the reason says so, and afterwards it is as fast as before."""
    store = RuledStore(MemoryStore())
    reasons: set[str] = set()

    async def story() -> None:
        async with Mill(store) as mill:

            async def weather() -> None:
                await asyncio.sleep(20)
                store.share = 0.5
                await asyncio.sleep(60)
                reasons.add((mill.pace.reason or "").split(":")[0])
                store.share = 1.0

            changing = asyncio.create_task(weather())
            report = await mill.ingest(14_000, tmp_path)
            await changing
            assert report.outcomes.keys() <= {"applied", "stale_ignored"}

    run_warped(story())
    assert reasons == {"Firestore is exhausted"}
    assert 0.35 < store.used_share(in_steps, 30, 80) <= 0.5
    assert store.refused_share < 0.05
    assert store.used_share(in_steps, 110, store.seconds - 1) > 0.9


def test_a_store_that_becomes_slow_is_given_less(tmp_path: Path) -> None:
    """Commits that take five times as long: fewer writes until they take as long as before."""
    store = RuledStore(MemoryStore())
    reasons: set[str] = set()

    async def story() -> None:
        async with Mill(store) as mill:

            async def weather() -> None:
                await asyncio.sleep(20)
                store.slower = 6.0
                await asyncio.sleep(50)
                reasons.add((mill.pace.reason or "").split(":")[0])
                store.slower = 1.0

            changing = asyncio.create_task(weather())
            await mill.ingest(12_000, tmp_path)
            await changing

    run_warped(story())
    assert reasons == {"commits take longer"}
    assert store.used_share(in_steps, 45, 70) < 0.4
    assert store.used_share(in_steps, 110, store.seconds - 1) > 0.9


async def _live(mill: Mill, seconds: float, a_second: int) -> list[float]:
    """How long each of these messages took, of which so many arrive in each second."""
    clock, took = asyncio.get_running_loop().time, []

    async def one(number: int) -> None:
        began = clock()
        result = await mill.service.handle(door(f"live{number}", "open", number, f"live{number % 500}"))
        assert result.settled
        took.append(clock() - began)

    async with asyncio.TaskGroup() as tasks:
        for number in range(int(seconds * a_second)):
            tasks.create_task(one(number))
            await asyncio.sleep(1 / a_second)
    return sorted(took)


@pytest.mark.parametrize("a_second", [40, 400])
def test_live_messages_take_no_longer_beside_bulk_work(a_second: int, tmp_path: Path) -> None:
    """Bulk work gets what live traffic leaves of the allowed rate, and a trickle if that is nothing."""
    seconds = 20

    async def story(lines: int) -> tuple[list[float], float]:
        # Live traffic alone is allowed: its collections are not new.
        store = RuledStore(MemoryStore(), lambda _: 500 + 5.0 * a_second)
        async with Mill(store) as mill:
            live = asyncio.create_task(_live(mill, seconds, a_second))
            bulk = asyncio.create_task(mill.ingest(lines, tmp_path, "bulk"))
            took = await live
            reason = mill.pace.reason if lines else None
            bulk.cancel()
            await asyncio.gather(bulk, return_exceptions=True)
            assert store.refused == 0
            assert reason is None or (reason == "live traffic goes first") is (a_second == 400)
            stored = sum((await store.count_events())["doors"].values())
            return took, (stored - len(took)) / seconds

    alone, _ = run_warped(story(0))
    beside, bulk_a_second = run_warped(story(20_000))
    assert bulk_a_second > 40 if a_second == 40 else 4 < bulk_a_second < 30
    assert len(beside) == len(alone) == seconds * a_second
    middle, late = len(alone) // 2, len(alone) * 99 // 100
    assert beside[middle] < alone[middle] * 1.25 + 0.005
    assert beside[late] < alone[late] * 1.25 + 0.005


def test_an_embedded_store_has_no_pace() -> None:
    """It takes as much as it can: nothing is slowed down, and no commit is timed."""

    async def story() -> None:
        async with Rig(MemoryStore(), (Doors(),)) as rig:
            assert rig.service.pace is None
            began = asyncio.get_running_loop().time()
            slots = [rig.service.handle_line(door(f"m{n}", "open", n, f"d{n}")) for n in range(60)]
            await asyncio.gather(*slots)
            assert asyncio.get_running_loop().time() - began < 0.1

    run_warped(story())
