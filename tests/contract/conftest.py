"""Every store the contract is held against. A new adapter is one more branch here, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from millpond.ports import StoreWithCatalog
from millpond.stores.firestore import FirestoreStore
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite import SqliteStore

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


@pytest.fixture(params=["memory", "sqlite", "firestore", "firestore with a prefix"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, run: Run[Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[StoreWithCatalog]:
    opened: StoreWithCatalog
    if request.param == "memory":
        opened = MemoryStore()
    elif request.param == "sqlite":
        opened = SqliteStore(tmp_path / "pond.db")
    else:
        monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", request.getfixturevalue("firestore_emulator"))
        prefix = "pre." if "prefix" in request.param else ""
        opened = FirestoreStore(project=request.getfixturevalue("project"), prefix=prefix, keeps_log=True)
    yield opened
    run(opened.close())


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    """Run one coroutine to its end on the test's own event loop."""
    with asyncio.Runner() as runner:
        yield runner.run
