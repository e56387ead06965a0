"""The embedded store's file, seen and held by another process than the one under test."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path


def message_ids(store: Path) -> set[str]:
    """The message ids of the event log."""
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return {row[0] for row in connection.execute("SELECT message_id FROM events")}


@contextlib.contextmanager
def store_held(store: Path) -> Iterator[None]:
    """Hold the file's write lock, as a stuck disk would: no commit succeeds."""
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
