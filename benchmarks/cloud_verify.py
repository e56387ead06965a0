"""Reads the result of a run back from Firestore, and compares it with the fold of the messages."""

from __future__ import annotations

import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore_v1 import Client

from benchmarks.cloud_messages import Message, fold
from millpond.core.collections import EVENT_SEGMENTS

_CLEAR_S_MAX = 60
_NAMED_MAX = 3


def find_faults(project: str, sent: Sequence[Message], acknowledged: set[str]) -> list[str]:
    """Descriptions of lost or wrong data; empty if there is none.

    A message counts as applied when its receipt is there. Every acknowledged one must be, each once, and each
    document must be the newest of those applied. More may be sent than acknowledged, if a run was cut off.
    """
    # The client finds the emulator by FIRESTORE_EMULATOR_HOST.
    client = Client(project=project, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    receipts = [
        str(snapshot.get("messageId"))
        for snapshot in client.collection("ops_dedupe").select(["messageId"]).stream()
    ]
    found = {snapshot.id: snapshot.to_dict() or {} for snapshot in client.collection("ops_services").stream()}
    applied = set(receipts)
    faults = []
    if len(applied) != len(receipts):
        faults.append(f"{len(receipts) - len(applied)} messages have two receipts")
    if lost := acknowledged - applied:
        faults.append(f"{len(lost)} acknowledged messages left no receipt: {_some(lost)}")
    if strange := applied - {message.message_id for message in sent}:
        faults.append(f"{len(strange)} receipts are of messages that were never sent: {_some(strange)}")
    expected = fold(message for message in sent if message.message_id in applied)
    wrong = expected.keys() ^ found.keys()
    for name in expected.keys() & found.keys():
        winner, document = expected[name], found[name]
        fields = {key: document.get(key) for key in winner.fields()}
        if fields != winner.fields() or document["source"]["messageId"] != winner.message_id:
            wrong.add(name)
    if wrong:
        faults.append(f"{len(wrong)} of {len(expected)} documents are not the newest event: {_some(wrong)}")
    return faults


def find_faults_by_log(found: Mapping[str, Any], sent: Sequence[Message]) -> list[str]:
    """Of a run that left no receipts, from what `millpond verify --json` says: the log has each message once."""
    faults = []
    if found["entries"] != len(sent):
        faults.append(f"the event log has {found['entries']} of {len(sent)} messages")
    if found["different"] or found["notCheckable"]:
        faults.append(f"{found['different']} documents differ, {found['notCheckable']} are not checkable")
    services = {message.document_id for message in sent}
    if found["equal"] != len(services):
        faults.append(f"{found['equal']} of {len(services)} documents equal the fold")
    return faults


def count_segments(project: str) -> int:
    """How many documents the event log has."""
    client = Client(project=project, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    ids = [snapshot.id for snapshot in client.collection(EVENT_SEGMENTS).select([]).stream()]
    return len(ids)


def tick_price(project: str, symbol: str) -> float | None:
    """The price that a symbol's document shows."""
    client = Client(project=project, credentials=AnonymousCredentials())  # type: ignore[no-untyped-call]
    document = client.collection("market_ticks_latest").document(symbol).get().to_dict() or {}
    price: float | None = document.get("price")
    return price


def clear(emulator: str, project: str) -> None:
    """Clear a project, so that one run's data does not slow the next."""
    database = urllib.parse.quote("(default)")
    url = f"http://{emulator}/emulator/v1/projects/{project}/databases/{database}/documents"
    with urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=_CLEAR_S_MAX):
        pass


def _some(names: set[str]) -> str:
    return ", ".join(sorted(names)[:_NAMED_MAX]) + (" …" if len(names) > _NAMED_MAX else "")
