"""Every store the contract is held against. A new adapter is a name here and a branch in common/stores.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millpond.core.ports import StoreWithCatalog
from tests.common.stores import Run, open_store


@pytest.fixture(params=["memory", "sqlite", "firestore", "firestore with a prefix"])
def store(request: pytest.FixtureRequest, run: Run) -> Iterator[StoreWithCatalog]:
    opened = open_store(request.param, request)
    yield opened
    run(opened.close())
