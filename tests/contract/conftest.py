"""Every store the contract is held against. A new adapter is one more branch here, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from millpond.ports import StoreWithCatalog
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite import SqliteStore

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, run: Run[Any]) -> Iterator[StoreWithCatalog]:
    opened: StoreWithCatalog = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "pond.db")
    yield opened
    run(opened.close())


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    """Run one coroutine to its end on the test's own event loop."""
    with asyncio.Runner() as runner:
        yield runner.run
