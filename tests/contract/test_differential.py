"""Every store against the memory store, the contract in its shortest form: told the same, they answer the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings as Settings  # noqa: N812 - a type here, as its name says
from hypothesis.stateful import run_state_machine_as_test

from millpond.core.ports import StoreWithCatalog
from millpond.stores.firestore.store import FirestoreStore
from millpond.stores.memory import MemoryStore
from millpond.stores.sqlite.store import SqliteStore
from tests.common.properties import examples
from tests.common.stores import Run
from tests.contract.differential import Side, StoresAgree


def tell(run: Run, open_store: Callable[[str], StoreWithCatalog], name: str, settings: Settings) -> int:
    """Tell many stories to the memory store and to another; how many. Each story has a place of its own."""
    numbers = itertools.count()

    class Told(StoresAgree):
        def __init__(self) -> None:
            place = str(next(numbers))
            super().__init__([Side("memory", MemoryStore, run), Side(name, lambda: open_store(place), run)], run)

    run_state_machine_as_test(Told, settings=settings)
    return next(numbers)


def test_sqlite_answers_as_memory_does(run: Run, tmp_path: Path) -> None:
    """Reads, commits under every precondition, the log, listings, sweeps, and closing in between."""
    told = tell(run, lambda place: SqliteStore(tmp_path / f"{place}.db"), "sqlite", examples(80, steps=30))
    assert told >= 80


def test_firestore_answers_as_memory_does(
    run: Run, firestore_emulator: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same on Google's emulator, each story in a project of its own."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", firestore_emulator)

    def open_store(place: str) -> StoreWithCatalog:
        return FirestoreStore(project=f"{project}-{place}", keeps_log=True)

    assert tell(run, open_store, "firestore", examples(25, steps=25)) >= 25
