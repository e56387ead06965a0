"""Documents ↔ Firestore's protobuf messages. Called for every document of every read and commit.

It uses the protobuf classes directly, because the client library's wrappers cost ten times as much.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

from millpond.core import timestamps
from millpond.core.model import Document, Version

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECOND_NS = 1_000_000_000
# A field mask for reads that need versions only: a field that no document has. `__name__` is not documented for it.
NO_FIELDS = ("_",)
_SCALARS = {
    str: "string_value",
    int: "integer_value",
    float: "double_value",
    bool: "boolean_value",
    bytes: "bytes_value",
}


def encode_fields(fields: Any, document: Mapping[str, Any]) -> None:
    """Fill a map of values. The document must have been checked, so every type is known."""
    for name, value in document.items():
        encode_value(fields[name], value)


def encode_value(target: Any, value: Any) -> None:
    kind = type(value)
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        setattr(target, scalar, value)
    elif kind is dt.datetime:
        set_time(target.timestamp_value, timestamps.from_datetime(value) * 1_000)
    elif value is None:
        target.null_value = 0
    elif kind is dict:
        # Without this an empty map would be no value.
        target.map_value.SetInParent()
        encode_fields(target.map_value.fields, value)
    elif kind is list:
        target.array_value.SetInParent()
        for item in value:
            encode_value(target.array_value.values.add(), item)
    else:
        # Subclasses of str, such as an outcome.
        target.string_value = str(value)


def decode_fields(fields: Any) -> Document:
    # Firestore keeps no order of fields; a fixed one is easier to read.
    return {name: decode_value(fields[name]) for name in sorted(fields)}


def decode_value(value: Any) -> Any:
    """A value as Millpond represents it. Types of other programs (geo points, references) are simplified.

    A patch does not change them. A view that replaces or merges into such a document writes the simplified form.
    """
    kind = value.WhichOneof("value_type")
    if kind == "map_value":
        return decode_fields(value.map_value.fields)
    if kind == "array_value":
        return [decode_value(item) for item in value.array_value.values]
    if kind == "timestamp_value":
        return timestamps.to_datetime(get_time(value.timestamp_value) // 1_000)
    if kind == "geo_point_value":
        return {"latitude": value.geo_point_value.latitude, "longitude": value.geo_point_value.longitude}
    if kind is None or kind == "null_value":
        return None
    return getattr(value, kind)


def set_time(target: Any, nanoseconds: Version) -> None:
    """Set a timestamp from nanoseconds since the epoch, which is also the form of a document's version."""
    target.seconds, target.nanos = divmod(int(nanoseconds), _SECOND_NS)


def get_time(source: Any) -> int:
    return int(source.seconds) * _SECOND_NS + int(source.nanos)


def field_path(path: tuple[str, ...]) -> str:
    """A path for an update mask. Names that are not identifiers are in backquotes, so that dots are literal."""
    return ".".join(name if _PLAIN_NAME.fullmatch(name) else _quoted(name) for name in path)


def _quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
