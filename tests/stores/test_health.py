"""When the service is ready: what the last reads and commits say, not a probe alone; and how it comes back."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from millpond.alerts.definitions import load
from millpond.core.errors import AccessDenied, StoreError, StoreFileGone, Unavailable, WriteRefused
from millpond.core.model import Committed, Conflict, LogEntry, Put, Ref, Snapshot, Write
from millpond.live.readiness import StoreReadiness
from millpond.stores.health import FAILING_S, SECOND_CHANCE_S, Call, StoreHealth
from millpond.stores.memory import MemoryStore
from millpond.stores.observed import ObservedStore
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics

AWAY = Unavailable("away")
A = Ref("ponds", "a")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Scene(MemoryStore):
    """A store whose reads or commits fail while told so, its health, and who looks after it."""

    def __init__(self, *, local: bool = True) -> None:
        super().__init__()
        self.clock = Clock()
        self.health = StoreHealth(self.clock)
        self.observed = ObservedStore(self, self.health)
        self.output = io.BytesIO()
        self.log = Log(self.output, env="test", metrics=Metrics())
        self.monitor = StoreReadiness(self.observed, self.health, self.log, local=local)
        self.local = local
        self.reads_fail: StoreError | None = None
        self.commits_fail: StoreError | None = None
        self.reads = self.writes_tried = 0
        self.hangs: asyncio.Event | None = None

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        self.reads += 1
        if self.hangs is not None:
            await self.hangs.wait()
        if self.reads_fail is not None:
            raise self.reads_fail
        return await super().read(refs)

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        if self.commits_fail is not None:
            raise self.commits_fail
        return await super().commit(writes, log)

    async def try_write(self) -> bool:
        self.writes_tried += 1
        if self.local and self.commits_fail is not None:
            raise self.commits_fail
        return self.local

    async def try_commit(self) -> None:
        """As the engine does with a message."""
        with contextlib.suppress(StoreError):
            await self.observed.commit([Put(A, None, {"n": 1})])

    async def pass_seconds(self, seconds: int) -> None:
        """As the service does it: a look every second."""
        for _ in range(seconds):
            self.clock.now += 1
            await self.monitor.look()

    def lines(self) -> list[tuple[str, str | None]]:
        self.log.close()
        lines = [json.loads(line) for line in self.output.getvalue().splitlines()]
        return [(line["severity"], line.get("reason")) for line in lines]


@contextlib.asynccontextmanager
async def opened(*, local: bool = True) -> AsyncIterator[Scene]:
    scene = Scene(local=local)
    try:
        yield scene
    finally:
        await scene.monitor.close()
        scene.log.close()


async def test_a_full_disk_makes_it_unready_and_space_makes_it_ready_without_any_message() -> None:
    """Reads succeed all the while: they say nothing about commits. The load balancer sends nothing any more."""
    async with opened() as scene:
        assert await scene.monitor.not_ready() is None
        scene.commits_fail = Unavailable("the disk is full")
        await scene.try_commit()
        assert await scene.monitor.not_ready() is None
        await scene.pass_seconds(round(FAILING_S))
        assert await scene.monitor.not_ready() == "store_failing"
        await scene.pass_seconds(600)
        assert await scene.monitor.not_ready() == "store_failing"
        scene.commits_fail = None
        await scene.pass_seconds(1)
        assert await scene.monitor.not_ready() is None
    assert scene.lines() == [("ERROR", "store_failing"), ("NOTICE", None)]


@pytest.mark.parametrize("local", [True, False], ids=["embedded", "firestore"])
async def test_one_failed_try_changes_nothing(local: bool) -> None:
    """Nor one now and then, with successes in between."""
    async with opened(local=local) as scene:
        await scene.observed.read([A])
        for _ in range(20):
            scene.commits_fail = AWAY
            await scene.try_commit()
            scene.commits_fail = None
            assert await scene.monitor.not_ready() is None
            await scene.pass_seconds(1)
            await scene.try_commit()
        scene.commits_fail = AWAY
        await scene.try_commit()
        scene.commits_fail = None
        await scene.pass_seconds(60)
        assert await scene.monitor.not_ready() is None
    assert scene.lines() == []


async def test_firestore_away_and_back() -> None:
    """Reads tell when it is back; until then nothing but a read a second is asked of it."""
    async with opened(local=False) as scene:
        await scene.observed.read([A])
        scene.reads_fail = scene.commits_fail = AWAY
        await scene.try_commit()
        await scene.pass_seconds(10)
        assert scene.reads == 11
        assert await scene.monitor.not_ready() == "store_failing"
        scene.reads_fail = scene.commits_fail = None
        await scene.pass_seconds(round(SECOND_CHANCE_S) + 1)
        assert await scene.monitor.not_ready() is None


async def test_commits_that_cannot_be_tried_get_a_second_chance() -> None:
    """Where reads succeed and only messages can tell, they are let in again after a while, and decide."""
    async with opened(local=False) as scene:
        await scene.observed.read([A])
        scene.commits_fail = AccessDenied("writing is not allowed")

        async def fail_for(seconds: int) -> None:
            for _ in range(seconds):
                await scene.try_commit()
                await scene.pass_seconds(1)

        for _ in range(2):
            await fail_for(round(FAILING_S) + 1)
            assert await scene.monitor.not_ready() == "store_failing"
            await scene.pass_seconds(round(SECOND_CHANCE_S) - 2)
            assert await scene.monitor.not_ready() == "store_failing"
            await scene.pass_seconds(2)
            assert await scene.monitor.not_ready() is None
        await fail_for(round(FAILING_S) + 1)
        assert await scene.monitor.not_ready() == "store_failing"
        scene.commits_fail = None
        await scene.try_commit()
        assert await scene.monitor.not_ready() is None


async def test_a_store_that_never_answered_is_not_waited_for() -> None:
    """A revision that cannot reach its store gets no traffic; it does when the store answers."""
    async with opened(local=False) as scene:
        scene.reads_fail = AWAY
        assert await scene.monitor.not_ready() == "store_failing"
        scene.reads_fail = None
        assert await scene.monitor.not_ready() is None


async def test_an_idle_service_on_firestore_is_not_asked_for_reads() -> None:
    """Each would be paid for. The count of letters, every 15 s, tells that the store is away."""
    async with opened(local=False) as scene:
        await scene.observed.read([A])
        await scene.pass_seconds(100)
        assert scene.reads == 1
        scene.health.failed(Call.READ, AWAY)
        scene.reads_fail = AWAY
        await scene.pass_seconds(5)
        assert await scene.monitor.not_ready() == "store_failing"


async def test_what_is_refused_says_nothing_about_the_store() -> None:
    """The write is at fault; a conflict is an answer, and so a success."""
    async with opened() as scene:
        scene.commits_fail = WriteRefused("too large")
        for _ in range(10):
            await scene.try_commit()
            scene.clock.now += 1
        assert not scene.health.is_failing(Call.COMMIT)
        scene.health.failed(Call.COMMIT, AWAY)
        scene.commits_fail = None
        assert isinstance(await scene.observed.commit([Put(A, 99, {"n": 1})]), Conflict)
        assert not scene.health.is_failing(Call.COMMIT)


async def test_a_call_that_is_given_up_has_failed() -> None:
    """The engine ends one that takes longer than its messages may wait: a store that hangs is not healthy."""
    async with opened() as scene:
        scene.hangs = asyncio.Event()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scene.observed.read([A]), 0.01)
        assert scene.health.is_failing(Call.READ)


async def test_a_store_that_hangs_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask whether it is ready: their reads would pile up behind the first. Each gets an answer."""
    monkeypatch.setattr("millpond.live.readiness.PATIENCE_S", 0.02)
    async with opened() as scene:
        assert await scene.monitor.not_ready() is None
        scene.clock.now += 2
        asked, scene.hangs = scene.reads, asyncio.Event()
        await asyncio.gather(*(scene.monitor.not_ready() for _ in range(50)))
        scene.clock.now += FAILING_S
        assert await scene.monitor.not_ready() == "store_failing"
        assert scene.reads == asked + 1
        scene.hangs.set()
        scene.clock.now += 2
        assert await scene.monitor.not_ready() is None


async def test_a_lost_file_stays_lost() -> None:
    """No success makes up for it, and its line is written once, at once."""
    async with opened() as scene:
        assert await scene.monitor.not_ready() is None
        scene.reads_fail = StoreFileGone("pond.db was deleted: restart")
        await scene.pass_seconds(1)
        assert await scene.monitor.not_ready() == "store_file_gone"
        scene.reads_fail = None
        await scene.pass_seconds(100)
        assert await scene.monitor.not_ready() == "store_file_gone"
    assert scene.lines() == [("CRITICAL", "store_file_gone")]


def test_the_page_and_readiness_agree() -> None:
    """The alert that decides the dashboard's verdict has the bound that readiness has."""
    (alert,) = (alert for alert in load().alerts if alert.id == "store-failing")
    (case,) = alert.cases
    assert case.critical is not None
    assert (case.measure, case.critical.at_least, case.critical.for_s) == ("level", FAILING_S, 0)
