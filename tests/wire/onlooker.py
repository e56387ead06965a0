"""Reads the emulator directly, past the proxy and past our own store, and at once.

It blocks on purpose: while it looks, nothing else of this event loop can change what it sees.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import grpc
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreGrpcTransport
from google.cloud.firestore_v1.types import RunQueryResponse

from millpond.core.model import Document
from millpond.stores.firestore.values import decode_fields, get_time

_OWNER = [("authorization", "Bearer owner")]


class Seen(NamedTuple):
    """One document: its version, what it holds, and the message it came in."""

    version: int
    data: Document
    raw: Any


class Onlooker:
    def __init__(self, emulator: str) -> None:
        self._channel = grpc.insecure_channel(emulator)
        self._client = FirestoreClient(transport=FirestoreGrpcTransport(channel=self._channel))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def documents(self, project: str, database: str = "(default)") -> dict[str, Seen]:
        """Every document of a database, collections below documents included, by path."""
        parent = f"projects/{project}/databases/{database}/documents"
        query = {"from_": [{"all_descendants": True}]}
        answers = self._client.run_query({"parent": parent, "structured_query": query}, metadata=_OWNER)
        found: dict[str, Seen] = {}
        for answer in answers:
            raw = RunQueryResponse.pb(answer)
            if raw.HasField("document"):
                path = raw.document.name.removeprefix(f"{parent}/")
                version = get_time(raw.document.update_time)
                found[path] = Seen(version, decode_fields(raw.document.fields), raw.document)
        return found
