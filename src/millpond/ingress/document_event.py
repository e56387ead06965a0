"""What an event about a document carries (`DocumentEventData`), as protobuf or as JSON, into the same plain values.

Protobuf is what Eventarc sends unless asked for JSON. Only the document after the change is looked at. Types that
documents here do not have are read as the Firestore store reads them, so both forms give the same.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from millpond.errors import MalformedEnvelope, json_type
from millpond.flow.event import EventData
from millpond.model import Document
from millpond.stores.firestore_values import decode_fields

REASON = "malformed_event"
NO_DATA = EventData(None, None)


def decode_protobuf(data: bytes) -> EventData:
    """Raises MalformedEnvelope, and ModuleNotFoundError where the extra `gcp` is not installed."""
    # Here, because JSON needs none of Google's libraries.
    from google.events.cloud.firestore_v1 import DocumentEventData  # noqa: PLC0415
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        message = DocumentEventData.pb().FromString(data)
    except DecodeError:
        raise MalformedEnvelope("the data is not a DocumentEventData in protobuf", REASON) from None
    if not message.HasField("value"):
        return NO_DATA
    try:
        return EventData(message.value.name or None, decode_fields(message.value.fields))
    except (OverflowError, RecursionError):
        raise MalformedEnvelope("the document holds a time, or a depth, that none can hold", REASON) from None


def decode_json(data: bytes) -> EventData:
    try:
        return from_json(msgspec.json.decode(data))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise MalformedEnvelope("the data is not JSON", REASON) from None
    except RecursionError:
        raise MalformedEnvelope("the data nests too deep", REASON) from None


def from_json(data: Any) -> EventData:
    """`{"value": {"name", "fields"}, "oldValue", "updateMask"}`, decoded already."""
    if data is None:
        return NO_DATA
    value = _object(data, "the data").get("value")
    if value is None:
        return NO_DATA
    document = _object(value, "value")
    name = document.get("name")
    if name is not None and not isinstance(name, str):
        raise MalformedEnvelope(f"value.name must be text, not {json_type(name)}", REASON)
    try:
        return EventData(name or None, _fields(document))
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise MalformedEnvelope("value.fields holds a value that is not what its type says", REASON) from None


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise MalformedEnvelope(f"{what} must be an object, not {json_type(value)}", REASON)
    return value


def _fields(holder: Mapping[str, Any]) -> Document:
    fields = _object(holder.get("fields") or {}, "fields")
    return {name: _value(fields[name]) for name in sorted(fields)}


def _value(value: Any) -> Any:
    """A typed value; null for a type nobody has told us of."""
    for kind, content in _object(value, "a value").items():
        decode = _DECODERS.get(kind)
        if decode is not None:
            return decode(content)
    return None


def _time(content: str) -> dt.datetime:
    parsed = dt.datetime.fromisoformat(content)
    if parsed.tzinfo is None:
        raise ValueError(content)
    return parsed.astimezone(dt.UTC)


def _boolean(content: Any) -> bool:
    if not isinstance(content, bool):
        raise TypeError(content)
    return content


def _text(content: Any) -> str:
    if not isinstance(content, str):
        raise TypeError(content)
    return content


def _place(content: Any) -> Document:
    place = _object(content, "geoPointValue")
    return {name: float(place.get(name, 0.0)) for name in ("latitude", "longitude")}


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "nullValue": lambda _: None,
    "booleanValue": _boolean,
    # As text, because JSON's numbers do not hold 64 bits.
    "integerValue": int,
    "doubleValue": float,
    "timestampValue": _time,
    "stringValue": _text,
    "bytesValue": lambda content: base64.b64decode(content, validate=True),
    "referenceValue": _text,
    "geoPointValue": _place,
    "arrayValue": lambda content: [_value(item) for item in _object(content, "arrayValue").get("values") or []],
    "mapValue": lambda content: _fields(_object(content, "mapValue")),
}
