"""Every store the contract is held against. A new adapter is a name here and a branch in common/stores.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millpond.core.ports import StoreWithCatalog
from tests.common.firestore_proxy import FirestoreProxy
from tests.common.stores import Run, open_store
from tests.contract.rig import Firestore
from tests.wire.onlooker import Onlooker


@pytest.fixture(params=["memory", "sqlite", "firestore", "firestore with a prefix"])
def store(request: pytest.FixtureRequest, run: Run) -> Iterator[StoreWithCatalog]:
    opened = open_store(request.param, request)
    yield opened
    run(opened.close())


@pytest.fixture
def fire(firestore_emulator: str, project: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[Firestore]:
    proxy = FirestoreProxy(firestore_emulator)
    run(proxy.__aenter__())
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", proxy.address)
    with Onlooker(firestore_emulator) as onlooker:
        opened = Firestore(project, firestore_emulator, proxy, onlooker, run)
        yield opened
        opened.close()
    run(proxy.__aexit__())
