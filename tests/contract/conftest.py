"""Every store the contract is held against. A new adapter is a name here and a branch in common/stores.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from millpond.core.ports import StoreWithCatalog
from tests.common.stores import open_store

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


@pytest.fixture(params=["memory", "sqlite", "firestore", "firestore with a prefix"])
def store(request: pytest.FixtureRequest, run: Run[Any]) -> Iterator[StoreWithCatalog]:
    opened = open_store(request.param, request)
    yield opened
    run(opened.close())


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    """Run one coroutine to its end on the test's own event loop."""
    with asyncio.Runner() as runner:
        yield runner.run
