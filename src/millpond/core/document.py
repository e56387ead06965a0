"""What a document may hold, checked before anything is sent, in the same way for every store. Pure.

The rules are Firestore's. They hold on the embedded store too, so that a document that one store accepts is
accepted by the other. Called by the stores, routing and views.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.core.errors import WriteRefused
from millpond.core.fields import INTEGER_MAX, INTEGER_MIN
from millpond.core.hashing import base32_sha256
from millpond.core.ids import ID_BYTES_MAX
from millpond.core.model import Document, Ref

DOCUMENT_BYTES_MAX = 1_048_576
DEPTH_MAX = 20
FIELD_NAME_BYTES_MAX = 1_500

# A name of so many characters is within the limit, even at four bytes each.
_SHORT_NAME = FIELD_NAME_BYTES_MAX // 4
# The first characters of ids that may be forbidden; the empty text is for the empty id.
_SUSPICIOUS = frozenset({"", ".", "_"})
_SCALARS = frozenset({str, bool, float, bytes, type(None)})
# What to store instead, for types that views use. A float would lose digits of a Decimal.
_INSTEAD = {
    Decimal: "str(value), or whole cents as an int",
    tuple: "list(value)",
    set: "sorted(value)",
    dt.date: "value.isoformat()",
}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, Any]).decode
_canonical = msgspec.json.Encoder(order="sorted").encode


def encode_document(ref: Ref, data: Document, *, checked: bool = False) -> bytes:
    """The document as bytes (MessagePack, times as timestamps). Raises WriteRefused with what is wrong with it."""
    fault = None if checked else find_fault(data)
    if fault:
        raise WriteRefused(f"{ref.path}: {fault}", code="INVALID_ARGUMENT")
    try:
        encoded = _encode(data)
    except UnicodeEncodeError:
        raise WriteRefused(f"{ref.path}: text holds a lone surrogate", code="INVALID_ARGUMENT") from None
    except (OverflowError, ValueError):
        raise WriteRefused(f"{ref.path}: a time is outside the years 1 to 9999", code="INVALID_ARGUMENT") from None
    if len(encoded) > DOCUMENT_BYTES_MAX:
        raise WriteRefused(
            f"{ref.path}: {len(encoded)} bytes, over the {DOCUMENT_BYTES_MAX} a document may have",
            code="INVALID_ARGUMENT",
        )
    return encoded


def approximate_size(data: Document | None) -> int:
    """The approximate size of a document in bytes; for budgets, not for limits."""
    return 0 if data is None else len(_encode(data))


def decode_document(encoded: bytes) -> Document:
    return _decode(encoded)


def patched(document: Document, fields: Mapping[tuple[str, ...], Any]) -> Document:
    """A copy with the named field paths set; missing maps on the path are created."""
    result = dict(document)
    for path, value in fields.items():
        level = result
        for name in path[:-1]:
            below = level.get(name)
            level[name] = dict(below) if isinstance(below, dict) else {}
            level = level[name]
        level[path[-1]] = value
    return result


def check_ref(ref: Ref) -> None:
    """Raise WriteRefused for a path that a store would refuse, so that every store raises the same error."""
    collection, key = ref
    if not _legal_collection(collection) or not _legal_segment(key) or "/" in key:
        raise WriteRefused(f"{ref.path:.120}: not a legal document path", code="INVALID_ARGUMENT")


@lru_cache(maxsize=1_024)
def _legal_collection(collection: str) -> bool:
    segments = collection.split("/")
    return len(segments) % 2 == 1 and all(_legal_segment(segment) for segment in segments)


def _legal_segment(segment: str) -> bool:
    if segment[:1] in _SUSPICIOUS and _forbidden(segment):
        return False
    return len(segment) * 4 <= ID_BYTES_MAX or len(segment.encode(errors="surrogatepass")) <= ID_BYTES_MAX


def _forbidden(segment: str) -> bool:
    return not segment or segment in {".", ".."} or (segment.startswith("__") and segment.endswith("__"))


def find_fault(value: Document, depth: int = 1) -> str | None:
    """What makes this map unrepresentable, or None. Called for every document, so the common case comes first."""
    for name, item in value.items():
        if type(name) is not str:
            return f"a field name is {type(name).__name__}, not text"
        if name[:2] == "__" or not 0 < len(name) <= _SHORT_NAME:
            fault = _name_fault(name)
            if fault:
                return fault
        kind = type(item)
        if kind in _SCALARS or (kind is int and INTEGER_MIN <= item <= INTEGER_MAX):
            continue
        fault = _value_fault(item, depth)
        if fault:
            return fault
    return None


def representable(value: Any) -> Any:
    """A payload's value unchanged, or as canonical JSON text if a document cannot hold it."""
    if type(value) in _SCALARS:
        return value
    # Depth 1, because the value becomes a field of the document.
    return canonical_json(value).decode() if _value_fault(value, depth=1) else value


def canonical_json(value: Any) -> bytes:
    """The same bytes for the same value: sorted keys, no white space."""
    return _canonical(value)


def hash_of(value: Any) -> str:
    """A hash of 52 characters, equal for equal values: the document id of content that has no id."""
    return base32_sha256(canonical_json(value))


def _name_fault(name: str) -> str | None:
    if name.startswith("__") and name.endswith("__"):
        return f"the field name {name!r:.80} is reserved"
    if not name:
        return "a field name is empty"
    if len(name.encode(errors="surrogatepass")) > FIELD_NAME_BYTES_MAX:
        return f"the field name {name[:40]!r}… is over {FIELD_NAME_BYTES_MAX} bytes"
    return None


def _value_fault(item: Any, depth: int) -> str | None:
    kind = type(item)
    if kind is dt.datetime:
        return None if item.tzinfo is not None else "a time has no zone"
    if kind is dict:
        return f"maps nest deeper than {DEPTH_MAX}" if depth >= DEPTH_MAX else find_fault(item, depth + 1)
    if kind is list:
        return _list_fault(item, depth)
    if kind is int:
        return None if INTEGER_MIN <= item <= INTEGER_MAX else "an integer is over 64 bits"
    hint = f": return {_INSTEAD[kind]}" if kind in _INSTEAD else ""
    return f"{kind.__name__} is not a type a document can hold{hint}"


def _list_fault(items: list[Any], depth: int) -> str | None:
    if depth >= DEPTH_MAX:
        return f"maps nest deeper than {DEPTH_MAX}"
    for item in items:
        kind = type(item)
        if kind in _SCALARS:
            continue
        if kind is list:
            return "a list stands directly inside a list"
        fault = _value_fault(item, depth + 1)
        if fault:
            return fault
    return None


def is_expired(document: Document | None, now: int) -> bool:
    """Whether its `expireAt` has passed: the store may delete it at any moment."""
    expires = (document or {}).get("expireAt")
    return isinstance(expires, dt.datetime) and timestamps.from_datetime(expires) <= now


def same_value(one: Any, other: Any, tolerance: float = 0.0) -> bool:
    """Whether two values are equal in value and type: 1, 1.0 and true differ. NaN equals NaN.

    `tolerance` is the relative difference that two floats may have.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same_value(value, other[name], tolerance) for name, value in one.items()
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(same_value(*pair, tolerance) for pair in zip(one, other, strict=True))
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=tolerance) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
