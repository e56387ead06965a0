"""Power cuts below SQLite: what was acknowledged is there; what was under way is there as a whole, or not at all.

A workload is recorded once. Then the power is cut before and after every call that writes, syncs, resizes, makes or
removes a file, and the plain store is opened on what is left. Near a sync or an answer the disk is cut in every way
that `crash.power` knows, elsewhere in one that a seed chooses; MILLPOND_CRASH_CUTS=all: in every way, everywhere.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from millpond.core.errors import StoreError
from millpond.core.model import Committed, Put, Ref
from millpond.stores.sqlite import schema as sqlite_schema
from millpond.stores.sqlite.connection import open_reader, open_writer
from millpond.stores.sqlite.store import SqliteStore
from tests.crash.power import KEPT, Disk, write_files
from tests.crash.recorder import (
    Acknowledged,
    Created,
    Deleted,
    RecordingDisk,
    Resized,
    Step,
    Synced,
    Written,
    sqlite_on,
)
from tests.crash.workload import STORE, content_of, disagreements, record

IN_EVERY_WAY = os.environ.get("MILLPOND_CRASH_CUTS") == "all"
MIGRATIONS = (
    *sqlite_schema.MIGRATIONS,
    "CREATE TABLE next_year(x); INSERT INTO next_year SELECT id FROM documents",
    "CREATE TABLE after_that(x); UPDATE documents SET expire_at = 1",
)


class Cut(NamedTuple):
    """The power is cut before this step of the journal; these files are left."""

    step: int
    kept: str
    files: dict[str, bytes]


def cuts(journal: Sequence[Step], disk: Disk, *, seed: int = 1) -> Iterator[Cut]:
    """Cuts between any two steps, and at both ends."""
    for number in range(len(journal) + 1):
        step = journal[number] if number < len(journal) else None
        near = isinstance(step, Synced) or (number > 0 and isinstance(journal[number - 1], Acknowledged))
        chance = random.Random(f"{seed} {number}")
        for kept in KEPT if near or IN_EVERY_WAY else (chance.choice(KEPT),):
            yield Cut(number, kept, disk.cut(kept, chance))
        if step is not None:
            disk.take(step)


def recorded(folder: Path, work: Callable[[Path, RecordingDisk], None]) -> list[Step]:
    disk = RecordingDisk()
    with sqlite_on(disk):
        work(folder / STORE, disk)
    disk.unregister()
    return disk.journal


def allowed(journal: Sequence[Step], step: int) -> tuple[list[Any], list[Any]]:
    """What a store cut before this step may hold, and what it held earlier."""
    before = [found.content for found in journal[:step] if isinstance(found, Acknowledged)]
    after = [found.content for found in journal[step:] if isinstance(found, Acknowledged)]
    # A cut while the store is made anew: opening it again ends where opening it once would have.
    return [*before[-1:], *after[:1]], before[:-1]


async def judged(folder: Path, cut: Cut, journal: Sequence[Step]) -> str:
    """Whole, lost, or what is wrong with the store that is left."""
    write_files(folder, cut.files)
    try:
        found = await look(folder / STORE)
    except (StoreError, apsw.Error, AssertionError) as error:
        return f"damaged: {error}"
    expected, earlier = allowed(journal, cut.step)
    if found in expected:
        return "whole"
    return "lost" if found in earlier else "a mixture"


async def look(path: Path) -> Any:
    """What the store holds; it must be sound, agree with itself, and take another commit."""
    store = SqliteStore(path)
    try:
        connection = open_reader(path)
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        found = content_of(connection)
        connection.close()
        assert disagreements(found) == []
        committed = await store.commit([Put(Ref("ponds", "afterwards"), None, {"n": 1})])
        assert committed == Committed([found["last_version"][0][0] + 1])
    finally:
        await store.close()
    return found


@pytest.fixture
def left(quick_folder: Path) -> Path:
    """Where the files lie when the power is back."""
    folder = quick_folder / "left"
    folder.mkdir()
    return folder


def test_what_a_cut_leaves() -> None:
    """What was synced is sure; of the rest, names and content, as much is left as the cut says."""
    disk = Disk({"old": b"0123456789"})
    steps: list[Step] = [Created("new"), Written("new", 0, b"a" * 600), Synced("new", folder=True)]
    steps += [Written("new", 600, b"b" * 1_000), Resized("old", 4), Deleted("old", synced=False)]
    for step in steps:
        disk.take(step)
    chance = random.Random(1)
    synced, written = b"a" * 600, b"a" * 600 + b"b" * 1_000
    assert disk.cut("nothing", chance) == {"old": b"0123456789", "new": synced}
    assert disk.cut("everything", chance) == {"new": written}
    beginnings = {disk.cut("beginning", chance)["new"] for _ in range(50)}
    assert len(beginnings) > 10
    assert all(written.startswith(found) and len(found) >= 600 for found in beginnings)
    scattered = {disk.cut("scattered", chance)["new"] for _ in range(50)}
    assert all(found.startswith(synced) for found in scattered)
    # A later sector without an earlier one, and more than was ever written.
    assert any(found[600:601] == b"\0" and found.endswith(b"b") for found in scattered)
    assert any(len(found) > len(written) for found in scattered)
    assert {"old" in disk.cut("scattered", chance) for _ in range(50)} == {True, False}


def test_a_power_cut_loses_nothing_acknowledged(tmp_path: Path, left: Path) -> None:
    """Wherever it strikes: making the store, a commit, a checkpoint, closing, or opening again."""
    journal = recorded(tmp_path, lambda path, disk: record(path, disk, "FULL"))

    async def judge() -> Counter[tuple[str, str]]:
        return Counter([(await judged(left, cut, journal), cut.kept) for cut in cuts(journal, Disk())])

    verdicts = asyncio.run(judge())
    assert {verdict for verdict, _ in verdicts} == {"whole"}
    assert verdicts.total() > 1_000
    assert min(verdicts["whole", kept] for kept in KEPT) > 100


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_cuts_are_noticed_where_commits_are_not_synced(tmp_path: Path, left: Path, synchronous: str) -> None:
    """The same cuts lose acknowledged commits with less than synchronous=FULL, or they would prove nothing."""
    journal = recorded(tmp_path, lambda path, disk: record(path, disk, synchronous))

    async def loses() -> bool:
        for cut in cuts(journal, Disk()):
            if await judged(left, cut, journal) == "lost":
                return True
        return False

    assert asyncio.run(loses())


def test_a_second_power_cut_during_recovery(tmp_path: Path, left: Path) -> None:
    """A store that is cut again while it recovers from the first cut still holds what was acknowledged."""
    journal = recorded(tmp_path, lambda path, disk: record(path, disk, "FULL"))
    chance = random.Random(1)
    first_cuts = chance.sample([cut for cut in cuts(journal, Disk()) if STORE in cut.files], 25)
    verdicts: Counter[str] = Counter()
    for first in first_cuts:
        write_files(left, first.files)
        recovery = recorded(left, lambda path, _: asyncio.run(SqliteStore(path).close()))
        again = list(cuts(recovery, Disk(first.files)))
        for second in chance.sample(again, min(8, len(again))):
            verdicts[asyncio.run(judged(left, second._replace(step=first.step), journal))] += 1
    assert set(verdicts) == {"whole"}
    assert verdicts.total() > 100


def test_a_power_cut_during_an_upgrade(tmp_path: Path, left: Path) -> None:
    """Each step of a schema is there with its number or not at all, and the next start ends the upgrade."""
    path = tmp_path / STORE
    asyncio.run(_fill(path))
    begin = {STORE: path.read_bytes()}
    journal = recorded(tmp_path, lambda path, _: open_writer(path, MIGRATIONS).close())
    found: Counter[int] = Counter()
    for cut in cuts(journal, Disk(begin)):
        write_files(left, cut.files)
        found[_upgraded(left / STORE)] += 1
    # Before the first step, between the two, and after both.
    assert set(found) == {1, 2, 3}
    assert found.total() > 30


async def _fill(path: Path) -> None:
    store = SqliteStore(path)
    await store.commit([Put(Ref("ponds", f"p{number}"), None, {"n": number}) for number in range(30)])
    await store.close()


def _upgraded(path: Path) -> int:
    """The schema that was found; it must be whole, and become the last."""
    connection = apsw.Connection(str(path))
    number = int(connection.execute("PRAGMA user_version").get)
    for expected, last in ((number, False), (len(MIGRATIONS), True)):
        if last:
            connection.close()
            connection = open_writer(path, MIGRATIONS)
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("PRAGMA user_version").get == expected
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert ("next_year" in tables, "after_that" in tables) == (expected >= 2, expected >= 3)
        assert connection.execute("SELECT count(*) FROM documents").get == 30
        expired = connection.execute("SELECT count(*) FROM documents WHERE expire_at = 1").get
        assert expired == (30 if expected >= 3 else 0)
    connection.close()
    return number
