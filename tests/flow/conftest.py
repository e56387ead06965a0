"""The stores the flow-run worker is held against, and an event loop for each test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from tests.common.stores import open_store
from tests.flow.bench import WatchedStore

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


@pytest.fixture(params=["memory", "sqlite", "firestore"])
def store(request: pytest.FixtureRequest, run: Run[Any]) -> Iterator[WatchedStore]:
    opened = open_store(request.param, request)
    yield WatchedStore(opened)
    run(opened.close())


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    """Run one coroutine to its end on the test's own event loop."""
    with asyncio.Runner() as runner:
        yield runner.run
