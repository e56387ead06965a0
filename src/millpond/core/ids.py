"""One reversible encoder that makes any text a legal document id on every store.

Firestore forbids `/`, the ids `.` and `..`, and the form `__x__`; ids made of several parts are joined by `__`.
Escaping is percent-style, so ordinary ids (`BRK.B`, `prod__api`) stay readable, and two different inputs never
get the same id. The id of a view whose key always has one part needs no separator: `encode_name` keeps every name
that Firestore allows. Called by views, routing, receipts and dead letters.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from millpond.core.errors import InvalidEvent

ID_BYTES_MAX = 1_500
SEPARATOR = "__"

# The second underscore of a pair, and any at either end. A part can then neither contain the separator, nor form
# one with the underscores next to it, nor make an id of the form `__x__`.
_ESCAPED = re.compile(r"[%/\x00]|(?<=_)_|^_|_$")
_PLAIN = re.compile(r"[A-Za-z0-9:~+@-][A-Za-z0-9.:~+@-]*")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


@lru_cache(maxsize=4_096)
def encode_id(*parts: str) -> str:
    """The document id of `parts`, joined by `__`. Refuses empty parts and ids over 1,500 bytes."""
    if sum(map(len, parts)) > ID_BYTES_MAX:
        # Checked before escaping: the text may be megabytes long, and escaping never makes it shorter.
        raise _too_long()
    encoded = SEPARATOR.join([_encode_part(part) for part in parts])
    if len(encoded) * 4 > ID_BYTES_MAX and len(encoded.encode()) > ID_BYTES_MAX:
        raise _too_long()
    return encoded


def _too_long() -> InvalidEvent:
    return InvalidEvent(f"the document id would be over {ID_BYTES_MAX} bytes", reason="id_too_long")


@lru_cache(maxsize=4_096)
def encode_name(name: str) -> str:
    """The document id of a view whose key is one part: `name` itself if every store accepts it.

    Escaped ids contain `%` and two hex digits. A name that contains these is escaped: no two names share an id.
    """
    if len(name) <= ID_BYTES_MAX and _is_kept(name):
        if len(name) * 4 > ID_BYTES_MAX and len(name.encode()) > ID_BYTES_MAX:
            raise _too_long()
        return name
    return encode_id(name)


def _is_kept(name: str) -> bool:
    return (
        name not in {"", ".", ".."}
        and "/" not in name
        and "\0" not in name
        and not (name.startswith(SEPARATOR) and name.endswith(SEPARATOR))
        and _ESCAPE.search(name) is None
    )


def decode_name(encoded: str) -> str:
    """The name `encode_name` was given."""
    return unquote(encoded) if _ESCAPE.search(encoded) else encoded


def unescaped_id(encoded: str) -> str | None:
    """The id that `encode_name` returns today for a document stored under `encoded`; None if it is the same id.

    Earlier builds escaped these ids with `encode_id`. Ids that `encode_id` cannot return are another program's.
    """
    if _ESCAPE.search(encoded) is None:
        return None
    name = decode_name(encoded)
    try:
        kept = encode_name(name)
    except InvalidEvent:
        return None
    return kept if kept != encoded and encode_id(name) == encoded else None


def decode_id(encoded: str) -> tuple[str, ...]:
    """The parts `encode_id` was given."""
    return tuple(unquote(part) for part in encoded.split(SEPARATOR))


def _encode_part(part: str) -> str:
    if _PLAIN.fullmatch(part):
        return part
    if not part:
        raise InvalidEvent("a document id needs every one of its parts, and one is empty", reason="empty_id")
    if part in {".", ".."}:
        return part.replace(".", "%2E")
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", part)
