"""A service on a disk that can fail, asked as Pub/Sub asks, and the messages it gets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import apsw

from millpond.core.model import Delivery
from millpond.stores.sqlite.store import SqliteStore
from tests.common.pond import at, delivery, service, signal, tick
from tests.common.rig import Rig
from tests.common.sqlite_writer import writer_of
from tests.crash.faulty_disk import FaultyDisk
from tests.crash.recorder import sqlite_on
from tests.crash.workload import STORE, Content, content_of, disagreements

FIRST = [
    service("f1", 0, "ok", ts=0),
    tick("f2", 0, ts=0, price=1),
    signal("f3", 0, state="new", updatedAt=at(0)),
]
# Documents made and replaced, one that comes too late, a copy, and one that needs several pages.
NEWS = [
    service("n1", 5, "late", ts=-5),
    service("n2", 6, "ok", ts=6),
    tick("n3", 6, ts=6, price=2),
    signal("n4", 6, state="filled", updatedAt=at(6)),
    delivery({"topic": "ingest-heartbeat", "pipeline_id": "big", "ts": at(6), "note": "x" * 9_000}, "n5", 6),
    FIRST[0],
]
POISON = [delivery({"what": "is this"}, "p1"), delivery({"topic": "market-ticks", "symbol": []}, "p2")]
# Several pages each, and enough of them to share a statement.
SEVERAL = [
    delivery({"topic": "ingest-heartbeat", "pipeline_id": f"p{n}", "ts": at(n), "note": "x" * 9_000}, f"b{n}", n)
    for n in range(4)
]
Answers = list[tuple[int, dict[str, Any]]]


class FailingPond(Rig[SqliteStore]):
    def __init__(self, path: Path, disk: FaultyDisk, settings: Mapping[str, str]) -> None:
        super().__init__(SqliteStore(path), **settings)
        self._path = path
        self.disk = disk

    @property
    def writer(self) -> apsw.Connection:
        return writer_of(self._path)

    def content(self) -> Content:
        """What another process would see; it must be sound."""
        connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            assert connection.execute("PRAGMA integrity_check").get == "ok"
            found = content_of(connection)
        finally:
            connection.close()
        assert disagreements(found) == []
        return found


@contextlib.asynccontextmanager
async def failing_pond(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    *,
    checkpoints: bool = False,
    memory_pages: int | None = None,
) -> AsyncIterator[FailingPond]:
    """A pond with a few messages in it.

    `checkpoints`: one after every commit, instead of none. `memory_pages`: of a commit so much is kept in memory
    until its end.
    """
    disk = FaultyDisk()
    with sqlite_on(disk):
        pond = FailingPond(_made(folder) / STORE, disk, settings or {})
    if checkpoints:
        pond.writer.execute("PRAGMA wal_autocheckpoint = 1").fetchall()
    if memory_pages is not None:
        pond.writer.execute(f"PRAGMA cache_size = {memory_pages}")
    try:
        assert statuses(await pond.push(*FIRST)) == {200}
        yield pond
    finally:
        disk.lift()
        await pond.service.close()
        disk.unregister()


async def undisturbed(folder: Path, messages: list[Delivery]) -> Content:
    """What the store holds where nothing goes wrong."""
    async with failing_pond(folder) as pond:
        assert statuses(await pond.push(*messages)) == {200}
        return pond.content()


def statuses(answers: Answers) -> set[int]:
    return {status for status, _ in answers}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
