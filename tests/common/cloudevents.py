"""Events as Eventarc sends them about documents of Firestore."""

from __future__ import annotations

from typing import Any

from google.events.cloud.firestore_v1 import DocumentEventData

from millpond.model import Document
from millpond.stores.firestore_values import encode_fields

UPDATED = "google.cloud.firestore.document.v1.updated"
DATABASE = "projects/my-project/databases/(default)"
Headers = list[tuple[bytes, bytes]]


def document_name(run_id: str, collection: str = "flow_runs") -> str:
    return f"{DATABASE}/documents/{collection}/{run_id}"


def event_headers(run_id: str, *, event_type: str = UPDATED, event_id: str = "e-1", **more: str) -> dict[str, str]:
    """What stands in the headers of a binary event; `ce-` before each."""
    return {
        "specversion": "1.0",
        "id": event_id,
        "type": event_type,
        "source": f"//firestore.googleapis.com/{DATABASE}",
        "subject": f"documents/flow_runs/{run_id}",
        "document": f"flow_runs/{run_id}",
        "database": "(default)",
        "project": "my-project",
        "location": "nam5",
        "time": "2026-01-08T12:40:00.000000Z",
        **more,
    }


def binary(attributes: dict[str, str], content_type: str) -> Headers:
    named = [(f"ce-{name}".encode(), value.encode()) for name, value in attributes.items()]
    return [(b"host", b"127.0.0.1"), (b"content-type", content_type.encode()), *named]


def protobuf_data(run_id: str, run: Document | None) -> bytes:
    message = DocumentEventData.pb()()
    if run is not None:
        message.value.name = document_name(run_id)
        encode_fields(message.value.fields, run)
        message.old_value.name = document_name(run_id)
        message.update_mask.field_paths.append("steps")
    data: bytes = message.SerializeToString()
    return data


def binary_protobuf(run_id: str, run: Document | None, **attributes: Any) -> tuple[Headers, bytes]:
    """The headers and the body of a binary event with protobuf data: what Eventarc sends by default."""
    headers = binary(event_headers(run_id, **attributes), "application/protobuf")
    return headers, protobuf_data(run_id, run)
