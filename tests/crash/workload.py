"""The real engine on the real embedded store, with messages for every view, and what is stored after each commit.

Everything in the store is compared, byte by byte: documents, receipts, the log, its counts and the version counter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from millpond.core.model import Committed, Conflict, Delivery, LogEntry, Write
from millpond.stores.sqlite.store import SqliteStore
from tests.common.pond import NOW, SECOND, at, delivery, service, signal, tick
from tests.common.rig import Rig
from tests.crash.recorder import Acknowledged, RecordingDisk

STORE = "pond.db"
Content = dict[str, list[tuple[Any, ...]]]
TABLES = {
    "documents": "SELECT * FROM documents ORDER BY 1, 2",
    "receipts": "SELECT * FROM receipts ORDER BY 1, 2",
    "events": "SELECT * FROM events ORDER BY 1",
    "event_counts": "SELECT * FROM event_counts WHERE n > 0 ORDER BY 1, 2",
    "last_version": "SELECT n FROM last_version",
}
# Small, so that a short workload has many checkpoints.
_CHECKPOINT_PAGES = 24


class WatchedStore(SqliteStore):
    """The embedded store, noting in the disk's journal what it holds once a commit has returned."""

    def __init__(self, path: Path, disk: RecordingDisk, synchronous: str) -> None:
        super().__init__(path)
        self._disk = disk
        self._write_connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}").fetchall()
        if synchronous != "FULL":
            self._write_connection.execute(f"PRAGMA synchronous = {synchronous}")
        self._note()

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        committed = await super().commit(writes, log)
        if isinstance(committed, Committed):
            self._note()
        return committed

    async def sweep(self, now: int, events_before: int | None) -> int:
        swept = await super().sweep(now, events_before)
        self._note()
        return swept

    def _note(self) -> None:
        self._disk.journal.append(Acknowledged(content_of(self._look_connection)))


def batches() -> list[list[Delivery]]:
    """Messages that arrive together: news, copies, stale ones, poison, one that changes nothing, one big."""
    made: list[list[Delivery]] = []
    for number in range(7):
        one = f"m{number}"
        made += [
            [
                service(f"{one}a", number, f"mark-{number}", ts=number),
                tick(f"{one}b", number, number, 100 + number),
            ],
            [
                signal(f"{one}c", number, state=f"s{number}", updatedAt=at(number)),
                delivery({"what": one}, f"{one}d"),
            ],
            [
                service(f"{one}a", number, f"mark-{number}", ts=number),
                service(f"{one}e", number, "old", ts=-number),
            ],
        ]
    big = {"topic": "ingest-heartbeat", "pipeline_id": "big", "ts": at(1), "note": "x" * 60_000}
    made.insert(10, [delivery(big, "big"), *(tick(f"t{n}", n, n, n, eventId=f"e{n}") for n in range(20))])
    return made


def record(path: Path, disk: RecordingDisk, synchronous: str) -> None:
    """Open a new store, work, close it, open it again and work on."""

    async def work() -> None:
        arriving = batches()
        for part in (arriving[:14], arriving[14:]):
            store = WatchedStore(path, disk, synchronous)
            pond = Rig(store, None, _clock(), CONSUMER_QUEUE_SIZE="1000")
            for batch in part:
                results = await pond.send(*batch)
                assert all(result.settled for result in results), results
            assert await store.sweep(0, NOW + 5 * SECOND) > 0
            await pond.service.close()

    asyncio.run(work())


def _clock() -> Callable[[], int]:
    """A second later each time it is asked."""
    now = NOW

    def tell() -> int:
        nonlocal now
        now += SECOND
        return now

    return tell


def content_of(connection: apsw.Connection) -> Content:
    """Every row of every table; a count of nothing says nothing."""
    connection.execute("BEGIN")
    try:
        return {name: connection.execute(query).fetchall() for name, query in TABLES.items()}
    finally:
        connection.execute("COMMIT")


def disagreements(content: Content) -> list[str]:
    """Where the log says that something was applied, buried or counted, and the documents do not."""
    documents = {f"{row[0]}/{row[1]}": msgspec.msgpack.decode(row[4]) for row in content["documents"]}
    faults = []
    for _, message_id, _, _, _, outcome, body in content["events"]:
        views = msgspec.msgpack.decode(body)[8]
        for _, path, in_view, _, stamp, _ in views:
            stored = documents.get(path)
            if in_view == "applied" and (stored is None or stored["source"]["stamp"] < stamp):
                faults.append(f"{message_id} was applied to {path}")
        if outcome == "poison" and f"dead_letters/s__{message_id}" not in documents:
            faults.append(f"{message_id} was buried")
    counted = sum(n for _, _, n in content["event_counts"])
    if counted != len(content["events"]):
        faults.append(f"{counted} are counted")
    versions = [row[2] for row in (*content["documents"], *content["receipts"])]
    if max(versions, default=0) > content["last_version"][0][0]:
        faults.append("the version counter is behind")
    return faults
