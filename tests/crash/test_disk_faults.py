"""A disk that is full or fails, at the first call, the second, the third, …: nothing is half there, and it heals.

Messages go through the push endpoint. The same service, on the same connection, takes them again once the fault is
lifted. Each row counts N up until a run meets no fault any more, so every call of that kind had its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import apsw
import pytest

from millpond.core.errors import Unavailable
from millpond.core.model import Committed, Delivery, Put, Ref
from millpond.stores.sqlite.connection import open_reader
from millpond.stores.sqlite.store import SqliteStore
from proof.kills.check import StoreCheck
from proof.kills.client import Deliveries, Load
from proof.kills.traffic import Traffic
from tests.common.pond import NOW
from tests.common.server import Server
from tests.crash.failing_pond import NEWS, POISON, SEVERAL, failing_pond, statuses, undisturbed
from tests.crash.faulty_disk import Fault, FaultyDisk
from tests.crash.recorder import sqlite_on
from tests.crash.workload import Content

Row = tuple[str, type[apsw.Error]]
FULL, FAILS = apsw.FullError, apsw.IOError
IN_A_COMMIT: list[Row] = [("write", FULL), ("write", FAILS), ("sync", FAILS), ("read", FAILS)]
IN_A_CHECKPOINT: list[Row] = [*IN_A_COMMIT[:3], ("truncate", FAILS)]
AT_THE_START: list[Row] = [("open", apsw.CantOpenError), ("delete", FAILS), *IN_A_COMMIT]
# Without retries of our own, the first fault is answered.
ONE_TRY = {"FIRESTORE_RETRY_MAX_ATTEMPTS": "1"}
# More calls than any of these runs makes.
_CALLS_MAX = 1_000


def named(rows: Sequence[Row]) -> pytest.MarkDecorator:
    ids = [f"{call} {error.__name__}" for call, error in rows]
    return pytest.mark.parametrize(("call", "error"), rows, ids=ids)


def count_up(run: Callable[[int], Awaitable[bool]]) -> int:
    """Let the first call fail, then the second, …, until there is none left to fail; how many there were."""

    async def count() -> int:
        for nth in range(1, _CALLS_MAX):
            if not await run(nth):
                return nth - 1
        raise AssertionError("it never ends")

    return asyncio.run(count())


@named(IN_A_COMMIT)
@pytest.mark.parametrize("kind", ["news", "poison"])
@pytest.mark.parametrize("lasting", [True, False], ids=["until lifted", "once"])
def test_a_failed_commit_leaves_nothing_and_is_retried(
    quick_folder: Path, call: str, error: type[apsw.Error], kind: str, lasting: bool
) -> None:
    """The whole batch is absent and answered 503; the same service then takes it as if nothing had been."""
    messages = {"news": NEWS, "poison": POISON}[kind]
    struck = strike_all(quick_folder, Fault(call, error, lasting), messages)
    # A page takes two writes. A letter needs nothing of the file that is not in memory.
    assert struck >= {"write": 6, "sync": 1, "read": 1 if kind == "news" else 0}[call]


@named(IN_A_COMMIT[:2])
def test_a_fault_long_before_the_commit_leaves_nothing(
    quick_folder: Path, call: str, error: type[apsw.Error]
) -> None:
    """The same where memory holds little, so that pages are written, and fail, while rows are still being added."""
    assert strike_all(quick_folder, Fault(call, error), SEVERAL, memory_pages=4) > 25


def test_a_store_that_may_not_grow_leaves_nothing(quick_folder: Path) -> None:
    """Room for no more pages, for one, for two, …: SQLite then gives up a statement, not the transaction; we do."""
    expected = asyncio.run(undisturbed(quick_folder / "undisturbed", SEVERAL))

    async def grow(nth: int) -> bool:
        async with failing_pond(quick_folder / f"{nth}", ONE_TRY) as pond:
            before = pond.content()
            connection = pond.writer
            pages = int(connection.execute("PRAGMA page_count").get)
            connection.execute(f"PRAGMA max_page_count = {pages + nth - 1}").fetchall()
            answers = await pond.push(*SEVERAL)
            connection.execute("PRAGMA max_page_count = 1000000").fetchall()
            refused = statuses(answers) == {503}
            if refused:
                assert pond.content() == before, nth
                answers = await pond.push(*SEVERAL)
            assert statuses(answers) == {200}, (nth, answers)
            assert pond.content() == expected, nth
            return refused

    assert count_up(grow) > 5


def strike_all(folder: Path, fault: Fault, messages: list[Delivery], memory_pages: int | None = None) -> int:
    """Let each call of the batch fail in its turn: nothing may be there, and all of it later. How many calls."""
    expected = asyncio.run(undisturbed(folder / "undisturbed", messages))
    tries = {} if fault.lasting else ONE_TRY

    async def strike(nth: int) -> bool:
        async with failing_pond(folder / f"{nth}", tries, memory_pages=memory_pages) as pond:
            before = pond.content()
            pond.disk.arm(fault, nth)
            answers = await pond.push(*messages)
            pond.disk.lift()
            if pond.disk.struck:
                assert statuses(answers) == {503}, (nth, answers)
                assert {(a["outcome"], a["reason"]) for _, a in answers} == {("retry", "store_unavailable")}
                assert pond.content() == before, nth
                answers = await pond.push(*messages)
            assert statuses(answers) == {200}, (nth, answers)
            assert pond.content() == expected, nth
            return pond.disk.struck > 0

    return count_up(strike)


@named(IN_A_COMMIT)
def test_a_fault_that_passes_is_not_noticed(quick_folder: Path, call: str, error: type[apsw.Error]) -> None:
    """A second try within the message's time succeeds: 200, and everything is as if nothing had been."""
    expected = asyncio.run(undisturbed(quick_folder / "undisturbed", NEWS))

    async def fail(nth: int) -> bool:
        async with failing_pond(quick_folder / f"{nth}") as pond:
            pond.disk.arm(Fault(call, error), nth)
            assert statuses(await pond.push(*NEWS)) == {200}, nth
            assert pond.content() == expected, nth
            return pond.disk.struck > 0

    assert count_up(fail) > 0


@named(IN_A_CHECKPOINT)
@pytest.mark.parametrize("lasting", [True, False], ids=["until lifted", "once"])
def test_a_failed_checkpoint_loses_nothing(
    quick_folder: Path, call: str, error: type[apsw.Error], lasting: bool
) -> None:
    """The batch is there as a whole or not at all, whatever is answered, and redelivery ends as it must."""
    expected = without_counter(asyncio.run(undisturbed(quick_folder / "undisturbed", NEWS)))
    was_there: list[bool] = []

    async def fail(nth: int) -> bool:
        async with failing_pond(quick_folder / f"{nth}", ONE_TRY, checkpoints=True) as pond:
            before = without_counter(pond.content())
            pond.disk.arm(Fault(call, error, lasting), nth)
            answers = await pond.push(*NEWS)
            pond.disk.lift()
            found = without_counter(pond.content())
            assert found == expected or (found == before and statuses(answers) == {503}), nth
            assert statuses(await pond.push(*NEWS)) == {200}
            assert without_counter(pond.content()) == expected, nth
            was_there.append(found == expected)
            return pond.disk.struck > 0

    assert count_up(fail) > 0
    # The last run was undisturbed. Of the others some struck the checkpoint, behind a commit that was done.
    assert any(was_there[:-1])


def without_counter(content: Content) -> Content:
    """A batch that changes nothing takes a version number all the same."""
    return {name: rows for name, rows in content.items() if name != "last_version"}


# A connection that was never finished is closed by Python, and then our disk has no caller to raise its error in.
@pytest.mark.filterwarnings("ignore:Exception ignored in. None:pytest.PytestUnraisableExceptionWarning")
@named(AT_THE_START)
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "after a crash"])
def test_a_store_that_could_not_be_opened_can_be_opened_later(
    quick_folder: Path, call: str, error: type[apsw.Error], is_new: bool
) -> None:
    """A start that meets the fault fails with one clear error, or does not mind; the next one works."""

    async def start(nth: int) -> bool:
        path = quick_folder / f"{nth}.db"
        if not is_new:
            await _leave_crashed(path)
        disk = FaultyDisk()
        disk.arm(Fault(call, error, lasting=True), nth)
        with sqlite_on(disk), contextlib.suppress(Unavailable):
            await SqliteStore(path).close()
        disk.lift()
        store = SqliteStore(path)
        looking = open_reader(path)
        assert looking.execute("PRAGMA integrity_check").get == "ok"
        looking.close()
        assert await store.collections() == ([] if is_new else [("ponds", 1)])
        assert isinstance(await store.commit([Put(Ref("ponds", "b"), None, {"n": 2})]), Committed)
        await store.close()
        return disk.struck > 0

    assert count_up(start) > 0


async def _leave_crashed(path: Path) -> None:
    """Leave a store as a killed process does: with a write-ahead log that was not folded back."""
    store = SqliteStore(path)
    await store.commit([Put(Ref("ponds", "a"), None, {"n": 1})])
    files = [path, path.with_name(f"{path.name}-wal")]
    contents = [file.read_bytes() for file in files]
    await store.close()
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)


async def test_a_server_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    """A real server whose files may not grow answers 503 and loses nothing; with room again it takes everything."""
    traffic = Traffic(1, "room", NOW)
    deliveries = Deliveries()
    with Server(tmp_path, ONE_TRY) as server:
        pid = server.process.pid
        size = server.store.with_name("millpond.db-wal").stat().st_size
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size + 150_000, hard))
        messages = [traffic.next_message() for _ in range(40)]
        await Load(server.port, iter(messages), deliveries).run(connections=1)
        assert 0 < len(deliveries.unacknowledged) < len(messages)
        assert deliveries.unanswered == 0
        assert StoreCheck(deliveries).check(server.store, whole=True) == []
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
        await Load(server.port, iter(deliveries.unacknowledged), deliveries).run(connections=1)
        assert deliveries.unacknowledged == []
        assert StoreCheck(deliveries).check(server.store, whole=True) == []
