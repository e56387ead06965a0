"""The stores the flow-run worker is held against, and an event loop for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.common.stores import Run, open_store
from tests.flow.bench import WatchedStore


@pytest.fixture(params=["memory", "sqlite", "firestore"])
def store(request: pytest.FixtureRequest, run: Run) -> Iterator[WatchedStore]:
    opened = open_store(request.param, request)
    yield WatchedStore(opened)
    run(opened.close())
