"""Decodes the data of an event about a document (`DocumentEventData`), protobuf or JSON, to the same plain values.

Eventarc sends protobuf unless configured for JSON. Only the document after the change is read. Types that our
documents do not have are decoded as the Firestore store decodes them, so both forms give the same values. Called by
`cloudevent`.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.core.errors import MalformedEnvelope, json_type
from millpond.core.fields import INTEGER_MAX, INTEGER_MIN
from millpond.core.model import Document
from millpond.flow.event_filter import EventData
from millpond.stores.firestore.values import decode_fields

REASON = "malformed_event"
NO_DATA = EventData(None, None)
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_DOUBLE = re.compile(r"-?Infinity|NaN|[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")


def decode_protobuf(data: bytes) -> EventData:
    """Raises MalformedEnvelope, and ModuleNotFoundError if the extra `gcp` is not installed."""
    # Imported here: JSON does not need Google's libraries.
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
    except RecursionError:
        raise MalformedEnvelope("the data nests too deep", REASON) from None
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise MalformedEnvelope("value.fields holds a value that is not what its type says", REASON) from None


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise MalformedEnvelope(f"{what} must be an object, not {json_type(value)}", REASON)
    return value


def _fields(holder: Mapping[str, Any]) -> Document:
    given = holder.get("fields")
    fields = _object({} if given is None else given, "fields")
    return {name: _value(fields[name]) for name in sorted(fields)}


def _value(value: Any) -> Any:
    """A typed value; None for an unknown type."""
    for kind, content in _object(value, "a value").items():
        decode = _DECODERS.get(kind)
        if decode is not None:
            return decode(content)
    return None


def _integer(content: Any) -> int:
    # Sent as text, because JSON numbers do not hold 64 bits everywhere.
    value = int(content) if isinstance(content, str) and _INTEGER.fullmatch(content) else content
    if type(value) is not int or not INTEGER_MIN <= value <= INTEGER_MAX:
        raise TypeError(content)
    return value


def _double(content: Any) -> float:
    if isinstance(content, str) and _DOUBLE.fullmatch(content):
        return float(content)
    if isinstance(content, int | float) and not isinstance(content, bool):
        return float(content)
    raise TypeError(content)


def _time(content: Any) -> dt.datetime:
    if not isinstance(content, str) or not timestamps.RFC3339.fullmatch(content):
        raise TypeError(content)
    return dt.datetime.fromisoformat(content.upper()).astimezone(dt.UTC)


def _exactly(kind: type) -> Callable[[Any], Any]:
    def decode(content: Any) -> Any:
        if type(content) is not kind:
            raise TypeError(content)
        return content

    return decode


def _place(content: Any) -> Document:
    place = _object(content, "geoPointValue")
    return {name: _double(place.get(name, 0.0)) for name in ("latitude", "longitude")}


def _list(content: Any) -> list[Any]:
    values = _object(content, "arrayValue").get("values")
    if values is not None and not isinstance(values, list):
        raise TypeError(values)
    return [_value(item) for item in values or ()]


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "nullValue": lambda _: None,
    "booleanValue": _exactly(bool),
    "integerValue": _integer,
    "doubleValue": _double,
    "timestampValue": _time,
    "stringValue": _exactly(str),
    "bytesValue": lambda content: base64.b64decode(content, validate=True),
    "referenceValue": _exactly(str),
    "geoPointValue": _place,
    "arrayValue": _list,
    "mapValue": lambda content: _fields(_object(content, "mapValue")),
}
