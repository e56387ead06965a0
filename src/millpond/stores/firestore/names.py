"""Refs ↔ Firestore's resource names. The prefix, if set, is put before the first collection of a path."""

from __future__ import annotations

from millpond.core.collections import EVENT_LOG, EVENT_SEGMENTS
from millpond.core.model import Ref


class Names:
    def __init__(self, project: str, database: str, prefix: str) -> None:
        self.database = f"projects/{project}/databases/{database}"
        self.root = f"{self.database}/documents"
        self._prefix = prefix
        self._start = f"{self.root}/{prefix}"

    def document(self, ref: Ref) -> str:
        return f"{self._start}{ref.collection}/{ref.id}"

    def ref(self, name: str) -> Ref:
        collection, _, key = name.removeprefix(self._start).rpartition("/")
        return Ref(collection, key)

    def parent(self, collection: str) -> tuple[str, str]:
        """(the parent's resource name, the collection's own id), for queries."""
        above, _, last = collection.rpartition("/")
        return (f"{self._start}{above}", last) if above else (self.root, self._prefix + last)

    def collection(self, collection_id: str) -> str | None:
        """The name of a top-level collection without the prefix; None if it has another prefix or is internal."""
        if not collection_id.startswith(self._prefix):
            return None
        name = collection_id.removeprefix(self._prefix)
        # Listings do not show the event log.
        return None if name in {"", EVENT_LOG, EVENT_SEGMENTS} else name
