"""Firestore's emulator behind a proxy that counts and injects faults, and as other programs write to it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore

from millpond.stores.firestore.store import FirestoreStore
from tests.common.firestore_proxy import Counts, Fault, FirestoreProxy
from tests.common.stores import Run
from tests.wire.onlooker import Onlooker


class Firestore:
    """Stores of one project: through the proxy, around it, and as others write to it."""

    def __init__(self, project: str, emulator: str, proxy: FirestoreProxy, onlooker: Onlooker, run: Run) -> None:
        self.project = project
        self.proxy = proxy
        self._onlooker = onlooker
        self._emulator = emulator
        self._run = run
        self._closing = ExitStack()

    def store(self, **more: Any) -> FirestoreStore:
        """One more store; its calls go through the proxy."""
        store = FirestoreStore(project=self.project, **more)
        self._closing.callback(lambda: self._run(store.close()))
        return store

    def others(self) -> firestore.Client:
        """The client that other programs use."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("FIRESTORE_EMULATOR_HOST", self._emulator)
            client = firestore.Client(project=self.project, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
        self._closing.callback(client.close)
        return client

    def raw(self, path: str) -> dict[str, bytes]:
        """A document's fields as the emulator holds them, byte for byte."""
        document = self._onlooker.documents(self.project)[path].raw
        return {name: value.SerializeToString(deterministic=True) for name, value in document.fields.items()}

    @property
    def counts(self) -> Counts:
        return self.proxy.counts[f"projects/{self.project}/databases/(default)"]

    def inject(self, fault: Fault) -> None:
        self.proxy.faults[f"projects/{self.project}/databases/(default)"] = fault

    def close(self) -> None:
        self._closing.close()
