"""Values of a payload's fields, in the type a view asks for. Pure. Called by `Event`, decoding and views.

Each function returns None for a missing value and raises InvalidEvent, with the field's name, for a value that can
never be right. Errors name types, never values: their texts are logged.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

from millpond.core.errors import InvalidEvent, json_type

INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)
# From here on a float may stand for several integers, so the producer's own may be lost.
_EXACT_FLOAT_MAX = 2.0**53
# A number as text. float() and int() alone also accept underscores, white space and digits of every script.
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# 40 digits are more than 64 bits need, also with leading zeros, and few enough for int() at once.
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
# Bounds of a decimal. Longer text, or an exponent of thousands, is cheap to send and expensive to compute with.
_DECIMAL_CHARS_MAX = 400
_DECIMAL_PLACES_MAX = 400


def is_blank(value: Any) -> bool:
    """Whether a field counts as missing: absent, null, or text of nothing but white space."""
    return value is None or (type(value) is str and (not value or value.isspace()))


def text_or_none(value: Any) -> str | None:
    """An optional field as trimmed text; None if it is neither text nor a number."""
    return trimmed(value, "") if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def trimmed(value: Any, name: str) -> str | None:
    """A field that must be text, trimmed; None if it is blank."""
    if type(value) is str:
        return value.strip() or None
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise InvalidEvent(f"{name} must be text, not {json_type(value)}")


def number_as_sent(value: Any, name: str) -> Any:
    """A finite number, or a decimal as text, unchanged."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    if isinstance(value, str) and _DECIMAL.fullmatch(value) and _is_finite(value):
        return value
    raise InvalidEvent(f"{name} must be a finite number, not {_described(value)}")


def integer(value: Any, name: str) -> int | None:
    """A whole number of 64 bits from a number or from text; None if it is blank."""
    if is_blank(value):
        return None
    kind = type(value)
    if kind is float and value.is_integer() and abs(value) <= _EXACT_FLOAT_MAX:
        value = int(value)
    elif kind is str and _WHOLE.fullmatch(text := value.strip()):
        value = int(text)
    elif kind is not int:
        what = "a number with a fraction or over 2^53" if kind is float else _described(value)
        raise InvalidEvent(f"{name} must be a whole number, not {what}")
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise InvalidEvent(f"{name} must be a whole number of at most 64 bits")
    return value  # type: ignore[no-any-return]


def decimal(value: Any, name: str) -> Decimal | None:
    """An exact decimal from a number or from text; None if it is blank. A float has the digits it was sent with."""
    if is_blank(value):
        return None
    kind = type(value)
    text = value.strip() if kind is str else repr(value) if kind is int or kind is float else ""
    if len(text) > _DECIMAL_CHARS_MAX or not _DECIMAL.fullmatch(text) or not _is_finite(text):
        raise InvalidEvent(f"{name} must be a finite decimal number, not {_described(value)}")
    found = Decimal(text)
    if found and found.adjusted() < -_DECIMAL_PLACES_MAX:
        raise InvalidEvent(f"{name} must be a decimal number of at most {_DECIMAL_PLACES_MAX} places")
    return found


def _is_finite(text: str) -> bool:
    return abs(float(text)) < float("inf")


def _described(value: Any) -> str:
    return "text that is none" if isinstance(value, str) else json_type(value)


@lru_cache(maxsize=1_024)
def time_fields(names: tuple[str, ...]) -> tuple[tuple[str, bool, bool, str], ...]:
    """For each name: the field, whether it is in the envelope, whether to skip non-times, the name in errors."""
    fields = []
    for name in names:
        called = name.removesuffix("?")
        field = called.removeprefix("envelope.")
        fields.append((field, field != called, name != called, called))
    return tuple(fields)
