"""Events about documents as Eventarc sends them: binary or structured, with protobuf or JSON of the same document.

The protobuf is Google's own message and the JSON is Google's own mapping of it, so that neither is ours.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from google.events.cloud.firestore_v1 import DocumentEventData
from google.protobuf import json_format

UPDATED = "google.cloud.firestore.document.v1.updated"
DATABASE = "projects/pond/databases/(default)"
ATTRIBUTES = {
    "specversion": "1.0",
    "id": "event-1",
    "source": f"//firestore.googleapis.com/{DATABASE}",
    "type": UPDATED,
    "time": "2026-01-08T12:00:00.123456Z",
    "project": "pond",
    "database": "(default)",
}


class Moment(NamedTuple):
    """A time as Firestore keeps it, to the nanosecond."""

    seconds: int
    nanos: int = 0


class Reference(NamedTuple):
    path: str


class Place(NamedTuple):
    latitude: float
    longitude: float


class Sent(NamedTuple):
    """One request: what stands in its headers, and its body."""

    headers: dict[str, str]
    body: bytes

    @property
    def raw_headers(self) -> list[tuple[bytes, bytes]]:
        return [(name.encode(), value.encode()) for name, value in self.headers.items()]


def full_name(run_id: str) -> str:
    return f"{DATABASE}/documents/flow_runs/{run_id}"


def attributes(**changes: str | None) -> dict[str, str]:
    """The usual ones with these instead; None takes one away."""
    return {name: value for name, value in {**ATTRIBUTES, **changes}.items() if value is not None}


def message(document: Mapping[str, Any], name: str) -> Any:
    """A DocumentEventData: the document, and a little of what an update has besides."""
    data = DocumentEventData.pb()()
    data.value.name = data.old_value.name = name
    data.update_mask.field_paths.append("steps")
    _fill(data.value.fields, document)
    return data


def as_protobuf(document: Mapping[str, Any], name: str) -> bytes:
    encoded: bytes = message(document, name).SerializeToString()
    return encoded


def as_json(document: Mapping[str, Any], name: str) -> Any:
    return json_format.MessageToDict(message(document, name))


def binary(data: bytes, content_type: str | None, given: Mapping[str, str]) -> Sent:
    headers = {f"ce-{name}": value for name, value in given.items()}
    return Sent({**headers, **({} if content_type is None else {"content-type": content_type})}, data)


def structured(event: Any) -> Sent:
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    return Sent({"content-type": "application/cloudevents+json; charset=utf-8"}, body)


def _structured_base64(document: Mapping[str, Any], name: str, given: Mapping[str, str]) -> Sent:
    data = base64.b64encode(as_protobuf(document, name)).decode()
    return structured({**given, "datacontenttype": "application/protobuf", "data_base64": data})


Form = Callable[[Mapping[str, Any], str, Mapping[str, str]], Sent]
# Every way an event about a document may come: the document, its full name, the attributes.
FORMS: dict[str, Form] = {
    "binary protobuf": lambda document, name, given: binary(
        as_protobuf(document, name), "application/protobuf", given
    ),
    "binary JSON": lambda document, name, given: binary(
        json.dumps(as_json(document, name)).encode(), "application/json", given
    ),
    "structured": lambda document, name, given: structured({**given, "data": as_json(document, name)}),
    "structured base64": _structured_base64,
}


def _fill(fields: Any, document: Mapping[str, Any]) -> None:
    for name, value in document.items():
        _set(fields[name], value)


_SCALARS = {bool: "boolean_value", int: "integer_value", float: "double_value", str: "string_value"}


def _set(target: Any, value: Any) -> None:
    if value is None:
        target.null_value = 0
    elif isinstance(value, Moment):
        target.timestamp_value.seconds, target.timestamp_value.nanos = value
    elif isinstance(value, dt.datetime):
        target.timestamp_value.FromDatetime(value)
    elif isinstance(value, Reference):
        target.reference_value = value.path
    elif isinstance(value, Place):
        # An origin is a place, too.
        target.geo_point_value.SetInParent()
        target.geo_point_value.latitude, target.geo_point_value.longitude = value
    elif isinstance(value, bytes):
        target.bytes_value = value
    elif isinstance(value, dict):
        target.map_value.SetInParent()
        _fill(target.map_value.fields, value)
    elif isinstance(value, list):
        target.array_value.SetInParent()
        for item in value:
            _set(target.array_value.values.add(), item)
    else:
        setattr(target, _SCALARS[type(value)], value)
