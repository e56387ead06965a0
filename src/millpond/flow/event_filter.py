"""A CloudEvent about a document, and the filter that drops all events but updates of flow runs. Pure.

The filter never reads the store, so an event that is not for us costs no read. Called by `POST /events` and
`functions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from millpond.core.collections import FLOW_RUNS
from millpond.core.model import Document

UPDATED_TYPE = "google.cloud.firestore.document.v1.updated"
# The second form also names the author of the change.
_UPDATES = frozenset({UPDATED_TYPE, f"{UPDATED_TYPE}.withAuthContext"})


class EventData(NamedTuple):
    """What an event may carry: the document's full name, and its fields after the change."""

    name: str | None
    document: Document | None


class FlowEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A run was updated. `document` is the run as the event shows it; None if it shows none."""

    run_id: str
    id: str
    type: str = ""
    subject: str | None = None
    document: Document | None = None


class Filtered(msgspec.Struct, frozen=True, kw_only=True):
    """Not for us, and why."""

    text: str
    id: str
    type: str
    subject: str | None
    run_id: None = None


class EventFilter:
    """Tells updates of flow runs from all other events. `prefix` is FIRESTORE_COLLECTION_PREFIX."""

    def __init__(self, prefix: str = "") -> None:
        self._collection = prefix + FLOW_RUNS
        # Project and database are not compared: the trigger's own filter has selected them.
        parent = r"(?:/?|/?documents/|(?://[^/]+/)?projects/[^/]+/databases/[^/]+/documents/)"
        self._name = re.compile(rf"{parent}{re.escape(self._collection)}/([^/]+)", re.DOTALL)

    def read(self, attributes: Mapping[str, str], load: Callable[[], EventData]) -> FlowEvent | Filtered:
        """`load` decodes the event's data. It is called only if the attributes do not rule the event out."""
        event_id, event_type, subject = attributes["id"], attributes["type"], attributes.get("subject")

        def filtered(text: str) -> Filtered:
            return Filtered(text=text, id=event_id, type=event_type, subject=subject)

        if event_type not in _UPDATES:
            return filtered("not an update of a document")
        named = [attributes[name] for name in ("subject", "document") if attributes.get(name)]
        run_ids = [self._run_id(name) for name in named]
        if None in run_ids:
            return filtered(f"not a document of {self._collection}")
        name, document = load()
        if name:
            # The document's own name decides: attributes come through headers, which may escape characters.
            run_ids.append(self._run_id(name))
        if not run_ids:
            return filtered("names no document")
        if run_ids[-1] is None:
            return filtered(f"not a document of {self._collection}")
        return FlowEvent(run_id=run_ids[-1], id=event_id, type=event_type, subject=subject, document=document)

    def _run_id(self, name: str) -> str | None:
        """The run id in `projects/P/databases/D/documents/flow_runs/ID`, or in a suffix of that path."""
        found = self._name.fullmatch(name)
        return found[1] if found is not None else None
