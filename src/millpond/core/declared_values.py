"""Checks the values that a view declares: topics, collection, key, times, limits. Pure. Called when it is loaded.

The attributes and their types are those of `View`, so a new attribute is checked at once. Errors say what to write.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from millpond.core.collections import root_of
from millpond.core.declared_names import METHODS_OF
from millpond.core.view import REPLACE, View

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
_LETTERS = "begin with a letter and have letters, digits, _ . - only, at most 100"
_DAYS_MAX = 36_500


def value_faults(view: View, kind: type[View]) -> Iterator[str]:
    """What is wrong with the values of the attributes, in the order of `View`."""
    for name, annotation in View.__annotations__.items():
        if name == "kind":
            continue
        try:
            value = getattr(view, name)
        except Exception as error:  # noqa: BLE001 - it may be a property, with a bug of its own
            yield f"{name} cannot be read: {type(error).__name__}: {error}"
            continue
        if callable(value) and "Callable" not in str(annotation):
            instead = f"{name}_of" if f"{name}_of" in METHODS_OF[kind] else None
            hint = f": did you mean {instead}()?" if instead else ""
            yield f"{name} must be a value, not a method{hint}"
        else:
            check = _OF_NAME.get(name) or _OF_TYPE.get(str(annotation))
            fault = None if check is None else check(name, value)
            if fault is not None:
                yield fault


def _text(name: str, value: Any) -> str | None:
    return None if isinstance(value, str) else f"{name} must be text, not {_type_of(value)}"


def _boolean(name: str, value: Any) -> str | None:
    return None if type(value) is bool else f"{name} must be True or False, not {_type_of(value)}"


def _boolean_or_none(name: str, value: Any) -> str | None:
    return None if value is None else _boolean(name, value)


def _limit(name: str, value: Any) -> str | None:
    """A number from 0, or None: no limit."""
    if value is None:
        return None
    if type(value) not in {int, float} or not math.isfinite(value) or value < 0:
        return f"{name} must be a number from 0, or None for no limit, not {_shown(value)}"
    return None


def _days(name: str, value: Any) -> str | None:
    if value is None or (type(value) in {int, float} and 0 < value <= _DAYS_MAX):
        return None
    return f"{name} must be a number over 0 and up to {_DAYS_MAX:,}, or None for ever, not {_shown(value)}"


def _names(name: str, value: Any) -> str | None:
    """Topics or event types: a tuple or list of texts, none of them twice."""
    example = "orders" if name == "topics" else "order.created"
    if isinstance(value, str):
        return f'{name} must be a tuple, not text: write {name} = ("{value.strip() or example}",)'
    if type(value) not in {tuple, list}:
        return f'{name} must be a tuple of texts, such as ("{example}",), not {_type_of(value)}'
    for item in value:
        if not isinstance(item, str):
            return f'{name} must hold texts, such as ("{example}",), not {_type_of(item)}'
        if not item.strip():
            return f"{name} holds a blank name"
        # A message's name is compared without its path and without white space, so such a name would match none.
        if item.rpartition("/")[2].strip() != item:
            return f'{name} must be without path and white space: "{item.rpartition("/")[2].strip()}", not {item!r}'
        if value.count(item) > 1:
            return f'{name} holds "{item}" twice'
    return None


def _fields(name: str, value: Any) -> str | None:
    """Names of payload fields: one text, or several in a tuple or list."""
    if not isinstance(value, str) and type(value) not in {tuple, list}:
        example = f'{name} = "{_EXAMPLES.get(name, "field")}"'
        return f"{name} must be a field's name, or a tuple of names, such as {example}, not {_type_of(value)}"
    for item in (value,) if isinstance(value, str) else value:
        if not isinstance(item, str):
            return f"{name} must hold names of fields, not {_type_of(item)}"
        if not item.strip():
            return f"{name} holds a blank name: leave it out, or name a field"
    return None


def _payload_fields(name: str, value: Any) -> str | None:
    """The same, without the signs that only times have."""
    fault = _fields(name, value)
    for item in () if fault else (value,) if isinstance(value, str) else value:
        if item.startswith("envelope.") or item.endswith("?"):
            return f"{name} names fields of the payload only, not {item!r}: override {name}_of(event) for more"
    return fault


def _times(name: str, value: Any) -> str | None:
    fault = _fields(name, value)
    for item in () if fault else (value,) if isinstance(value, str) else value:
        if not item.removesuffix("?").removeprefix("envelope.").strip():
            return f"{name} must name a field, not {item!r}"
    return fault


def _collection(name: str, value: Any) -> str | None:
    fault = _text(name, value)
    if fault or not value:
        return fault
    parts = value.split("/")
    if len(parts) % 2 == 0:
        return f'{name} must be a path with an odd number of parts, such as "{parts[0] or "orders"}", not {value!r}'
    if not _NAME.fullmatch(parts[0]) or not all(_is_segment(part) for part in parts):
        return f"{name} must {_LETTERS}, not {value!r}"
    return None


def _is_segment(part: str) -> bool:
    return bool(part.strip()) and part not in {".", ".."} and not (part.startswith("__") and part.endswith("__"))


def _view_name(name: str, value: Any) -> str | None:
    fault = _text(name, value)
    if not fault and value and not _NAME.fullmatch(value):
        return f"{name} must {_LETTERS}, not {value!r}"
    return fault


def _adopt(name: str, value: Any) -> str | None:
    """Names of fields of the stored document, or a method."""
    if not callable(value):
        return _fields(name, value)
    try:
        inspect.signature(value).bind(object())
    except TypeError:
        return f"{name} must be a method with one argument, def {name}(self, document), or names of fields"
    except ValueError:
        # A callable whose signature cannot be known.
        return None
    return f"{name}() must not be async" if inspect.iscoroutinefunction(value) else None


def _existing(name: str, value: Any) -> str | None:
    if value in ("", REPLACE):
        return None
    return f'{name} must be "{REPLACE}", or be left out: documents of other programs are then left alone'


def default_name(view: View) -> str:
    """Its name, or the first part of its collection."""
    return view.name or root_of(view.collection)


def _type_of(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else "text" if isinstance(value, str) else type(value).__name__


def _shown(value: Any) -> str:
    return f"{value!r}" if type(value) in {int, float} else _type_of(value)


_EXAMPLES: Final = {"key": "orderId", "time": "updatedAt", "sequence": "version", "adopt": "updatedAt"}
_Check = Callable[[str, Any], str | None]
_OF_NAME: Final[dict[str, _Check]] = {
    "name": _view_name,
    "collection": _collection,
    "topics": _names,
    "event_types": _names,
    "key": _payload_fields,
    "time": _times,
    "sequence": _payload_fields,
    "retention_days": _days,
    "adopt": _adopt,
    "existing": _existing,
}
_OF_TYPE: Final[dict[str, _Check]] = {
    "str": _text,
    "bool": _boolean,
    "bool | None": _boolean_or_none,
    "float | None": _limit,
}
