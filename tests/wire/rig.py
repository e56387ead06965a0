"""A whole service on the real Firestore client, the proxy between it and the emulator, and a patient broker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from millpond import settings as settings_module
from millpond.core.model import Delivery, Document
from millpond.core.ports import StoreWithCatalog
from millpond.gcp.emulators import FIRESTORE_EMULATOR_VARIABLE
from millpond.service.stores import open_store
from tests.common.firestore_proxy import Fault, FirestoreProxy
from tests.common.rig import Rig
from tests.wire.onlooker import Onlooker, Seen
from tests.wire.table import Line
from tests.wire.traffic import ENVIRONMENT, Holdings

ROUNDS_MAX = 10
# A service that cannot be closed fails its own row, and no other.
CLOSE_S = 30.0
_PATIENT = {
    "STORE": "firestore",
    "VIEWS": "tests.common.pond",
    "FIRESTORE_RETRY_MAX_ATTEMPTS": "4",
    "FIRESTORE_RETRY_INITIAL_BACKOFF_S": "0.005",
    "FIRESTORE_RETRY_MAX_BACKOFF_S": "0.02",
    # Long, so that a busy machine is never taken for a fault; rows that wait for time to pass say so.
    "FIRESTORE_RETRY_MAX_TOTAL_S": "15",
    "FIRESTORE_RPC_DEADLINE_S": "20",
}


class WireRig(Rig[StoreWithCatalog]):
    """Messages go in as push requests; each 200 is checked against the emulator before anything else can happen."""

    def __init__(self, project: str, address: str, onlooker: Onlooker, **environment: str) -> None:
        environment = {**_PATIENT, **ENVIRONMENT, "GCP_PROJECT": project, **environment}
        # The store looks at the environment when it is made, and each has an address of its own.
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv(FIRESTORE_EMULATOR_VARIABLE, address)
            super().__init__(open_store(settings_module.load(environment)), **environment)
        self.project = project
        # What was acknowledged although the store did not hold it.
        self.lies: list[str] = []
        # Messages that were acknowledged as something else than buried.
        self.in_documents: set[str] = set()
        self._onlooker = onlooker
        self._holdings = Holdings()
        self._seen: Mapping[str, Seen] | None = None

    async def __aexit__(self, *_: object) -> None:
        await asyncio.wait_for(self.service.close(), CLOSE_S)

    @property
    def database(self) -> str:
        return f"projects/{self.project}/databases/(default)"

    async def deliver(self, *messages: Delivery) -> list[int]:
        """Push all of them at once; the statuses."""
        return [status for status, _ in await self.push(*messages)]

    async def deliver_until_taken(self, messages: Sequence[Delivery]) -> None:
        """Redeliver, as a broker does, whatever is not answered 200."""
        for _ in range(ROUNDS_MAX):
            statuses = await self.deliver(*messages)
            messages = [message for message, status in zip(messages, statuses, strict=True) if status != 200]
            if not messages:
                return
        raise AssertionError(f"still not taken: {[message.message_id for message in messages]}")

    def look(self) -> Mapping[str, Seen]:
        return self._onlooker.documents(self.project)

    def answered(self) -> list[tuple[str, Line]]:
        """(message id, what its log line says), in the order they were answered. Ends the log."""
        names = ("http_status", "outcome", "reason", "severity", "error_code")
        lines = [line for line in self.lines() if "outcome" in line]
        return [(line["messageId"], Line(*(line[name] for name in names))) for line in lines]

    def on_answer(self, message: Delivery, status: int, answer: Any) -> None:
        if status != 200:
            return
        if answer["outcome"] != "poison":
            self.in_documents.add(message.message_id)
        if self._seen is None:
            # Answers of one turn of the event loop share a look: nothing can happen between them.
            self._seen = self.look()
            asyncio.get_running_loop().call_soon(self._look_away)
        lie = self._holdings.lacks(message, self._seen)
        if lie is not None:
            self.lies.append(lie)

    def _look_away(self) -> None:
        self._seen = None


def inject(proxy: FirestoreProxy, rig: WireRig, fault: Fault) -> Fault:
    proxy.faults[rig.database] = fault
    return fault


def documents_of_views(found: Mapping[str, Seen]) -> dict[str, Document]:
    """Without receipts, letters and the event log, and without our own clock: what a fold is compared with."""
    return {
        path: {name: value for name, value in sorted(seen.data.items()) if name != "ingestedAt"}
        for path, seen in sorted(found.items())
        if not path.startswith(("ops_dedupe/", "dead_letters/", "millpond_event_segments/"))
    }
