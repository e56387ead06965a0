"""Every kind of store a test can be held against, opened empty."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from millpond.core.ports import StoreWithCatalog
from millpond.stores.firestore.store import FirestoreStore
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite.store import SqliteStore

# The fixture `run`: runs a coroutine to its end on the test's own event loop.
Run = Callable[[Coroutine[Any, Any, Any]], Any]


def open_store(kind: str, request: pytest.FixtureRequest) -> StoreWithCatalog:
    """`memory`, `sqlite`, `firestore` or `firestore with a prefix`; the last two on the emulator."""
    if kind == "memory":
        return MemoryStore()
    if kind == "sqlite":
        folder: Path = request.getfixturevalue("tmp_path")
        return SqliteStore(folder / "pond.db")
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", request.getfixturevalue("firestore_emulator"))
    prefix = "pre." if "prefix" in kind else ""
    return FirestoreStore(project=request.getfixturevalue("project"), prefix=prefix, keeps_log=True)
