"""A store with something in it, on a disk of the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from millpond.core.model import Delivery, LogEntry, Outcome, Put, Ref, Result
from millpond.stores.sqlite.store import SqliteStore

DOCUMENTS = 300
NOW = 1_767_873_600_000_000


def entry(number: int, took_us: int = 20_000) -> LogEntry:
    """A message of the log that arrived `took_us` after it was published."""
    published = NOW + number
    delivery = Delivery(message_id=f"m{number}", publish_time=published, data=b"{}")
    result = Result(Outcome.APPLIED, "applied", "t")
    return LogEntry(delivery=delivery, topic="t", event_id=None, arrived_at=published + took_us, result=result)


def fill(path: Path, first: int, count: int, took_us: int = 20_000) -> None:
    """Documents of 4 kB each, receipts, and an entry of the log for each, as a server would leave them."""

    async def write() -> None:
        store = SqliteStore(path)
        numbers = range(first, first + count)
        documents = [Put(Ref("ponds", f"p{n}"), None, {"n": n, "text": f"{n}" * 1_000}) for n in numbers]
        receipts = [Put(Ref("ops_dedupe", f"r{n}"), None, {"n": n}) for n in numbers]
        await store.commit([*documents, *receipts], [entry(n, took_us) for n in numbers])
        await store.close()

    asyncio.run(write())


@pytest.fixture
def pond(tmp_path: Path) -> Path:
    """A store that no process has open: 300 documents, 300 receipts, 300 entries."""
    path = tmp_path / "store" / "pond.db"
    path.parent.mkdir()
    fill(path, 0, DOCUMENTS)
    return path
