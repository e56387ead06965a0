"""Checks what the methods of a view return. Pure. Called by routing, the plan and `View` for every event.

A wrong value is a bug of the view. Without these checks it would raise later, in a line of Millpond, or be stored:
text instead of a list of key parts would become one part per letter. Errors name class, method and type, no values.
"""

from __future__ import annotations

from typing import Any

from millpond.core.errors import WrongReturn
from millpond.core.model import Document
from millpond.core.stamp import SEQUENCE_MAX, decode_stamp
from millpond.core.timestamps import LATEST_US

_DOCUMENT = {"document": "a dict, DELETE or None", "fields": "a dict or None", "fold": "a dict"}
_TIME = "an int, microseconds from 1970 to 2200"
_SEQUENCE = "an int from 0 to 2^63-1"


def check_document(view: object, method: str, value: Any) -> Document:
    """What `document`, `fields` or `fold` returned, as a new dict: the caller adds fields to it.

    The view may have returned the event's payload or a constant of its module, which must not change.
    """
    if not isinstance(value, dict):
        raise _wrong(view, method, _DOCUMENT[method], _type_of(value))
    return dict(value)


def check_order(view: object, own_time: Any, sequence: Any) -> None:
    """What `time_of` and `sequence_of` returned. With any other value the stamp would not sort."""
    if own_time is not None and (type(own_time) is not int or not 0 <= own_time < LATEST_US):
        raise _wrong(view, "time_of", f"{_TIME}, or None", _number_of(own_time))
    if sequence is not None and (type(sequence) is not int or not 0 <= sequence <= SEQUENCE_MAX):
        raise _wrong(view, "sequence_of", f"{_SEQUENCE}, or None", _number_of(sequence))


def check_time(view: object, method: str, value: Any) -> None:
    if type(value) is not int or not 0 <= value < LATEST_US:
        raise _wrong(view, method, _TIME, _number_of(value))


def wrong_address(view: object, collection: Any, document_id: Any) -> WrongReturn:
    """The error if `collection_of` or `id_of` returned something else than text."""
    if type(collection) is not str:
        return _wrong(view, "collection_of", "text", _type_of(collection))
    return _wrong(view, "id_of", "text", _type_of(document_id))


def check_parts(view: object, parts: Any, *, single: bool) -> None:
    """What `key_of` returned: the parts of the id; exactly one for a view with a single key."""
    kind = type(parts)
    if kind is not list and kind is not tuple:
        raise _wrong(view, "key_of", "a list or tuple of texts", _type_of(parts))
    for number, part in enumerate(parts, 1):
        if not isinstance(part, str):
            hint = ": raise InvalidEvent if the event lacks it" if part is None else ""
            raise _wrong(view, "key_of", "texts", f"{_type_of(part)} as part {number}{hint}")
    if not parts or (single and len(parts) != 1):
        wanted = "one text, because single_key is True" if single else "at least one text"
        raise _wrong(view, "key_of", wanted, f"{len(parts)}")


def check_stamp(view: object, value: Any) -> str | None:
    """What `adopt` returned. With any other text every event would be stale, or none."""
    if value is None:
        return None
    try:
        decode_stamp(value)
    except (AttributeError, TypeError, ValueError):
        wanted = "a stamp, as adopted_stamp() makes it, or None"
        raise _wrong(view, "adopt", wanted, "other text" if type(value) is str else _type_of(value)) from None
    return str(value)


def _wrong(view: object, method: str, wanted: str, got: str) -> WrongReturn:
    return WrongReturn(f"{type(view).__name__}.{method}() must return {wanted}, not {got}")


def _type_of(value: Any) -> str:
    name = type(value).__name__
    return {"NoneType": "None", "_DeleteType": "DELETE"}.get(name, name)


def _number_of(value: Any) -> str:
    return "an int out of that range" if type(value) is int else _type_of(value)
