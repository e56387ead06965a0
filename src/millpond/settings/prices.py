"""The setting FIRESTORE_PRICES: what its owner pays. There is no default: prices differ by region, and change."""

from __future__ import annotations

from typing import Annotated

import msgspec

_FORM = (
    'a JSON object: {"currency": "EUR", "reads": …, "writes": …, "deletes": …, "storage": …}, prices per 100,000 '
    "operations, and of storage per GiB and month"
)
_Price = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Per 100,000 reads, writes and deletes, and per GiB stored for a month, in one currency."""

    currency: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}\Z")]
    reads: _Price
    writes: _Price
    deletes: _Price
    storage: _Price


def prices(value: str) -> Prices | None:
    """A parser, as those of `parse`."""
    if not value.strip():
        return None
    try:
        return msgspec.json.decode(value, type=Prices)
    except msgspec.ValidationError as error:
        raise ValueError(f"{_FORM} ({error})") from None
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        raise ValueError(_FORM) from None
