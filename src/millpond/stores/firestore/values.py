"""Documents as Firestore's own messages, and back.

On the protobuf classes themselves: the client library's wrappers around them cost ten times as much, and every
document of every commit passes here.
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
# A mask for whoever wants versions only. An ordinary name nobody uses: `__name__` is not promised to be one.
NO_FIELDS = ("_",)
_SCALARS = {
    str: "string_value",
    int: "integer_value",
    float: "double_value",
    bool: "boolean_value",
    bytes: "bytes_value",
}


def encode_fields(fields: Any, document: Mapping[str, Any]) -> None:
    """Fill a map of values; the document was checked before, so every type is one of ours."""
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
        # An empty map is a map, too.
        target.map_value.SetInParent()
        encode_fields(target.map_value.fields, value)
    elif kind is list:
        target.array_value.SetInParent()
        for item in value:
            encode_value(target.array_value.values.add(), item)
    else:
        # Words of ours that are texts underneath, such as an outcome.
        target.string_value = str(value)


def decode_fields(fields: Any) -> Document:
    # Firestore keeps no order of fields; one that does not change from call to call is easier to read.
    return {name: decode_value(fields[name]) for name in sorted(fields)}


def decode_value(value: Any) -> Any:
    """A value as we know it. What only others write (places, references) is shown in a simpler form.

    A patch leaves it alone. A view that replaces or merges into such a document writes the simpler form.
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
    """Whole nanoseconds since the epoch, which is also how we write a document's version."""
    target.seconds, target.nanos = divmod(int(nanoseconds), _SECOND_NS)


def get_time(source: Any) -> int:
    return int(source.seconds) * _SECOND_NS + int(source.nanos)


def field_path(path: tuple[str, ...]) -> str:
    """A path for an update mask: names that are not plain words stand in backquotes, so dots are dots."""
    return ".".join(name if _PLAIN_NAME.fullmatch(name) else _quoted(name) for name in path)


def _quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
