"""How much Firestore stores for a document, by Google's rules for storage sizes. Pure; `examine` uses it.

An estimate: the rules are Google's, but which indexes a database has is not known here. It assumes those that
Firestore makes by itself, without the exemptions that `infra/terraform/firestore.tf` sets; a test compares the two.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from millpond.core.collections import (
    EVENT_LOG,
    EVENT_SEGMENTS,
    FLOW_RUNS,
    HISTORY,
    LETTER_PARTS,
    LETTERS,
    REBUILDS,
    RECEIPTS,
)
from millpond.core.model import Document, Ref

_NAME_BYTES = 16
_DOCUMENT_BYTES = 32
_ENTRY_BYTES = 32
_INDEXED_BYTES_MAX = 1_500
_TIMES = frozenset({"eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source"})
# Fields without an index, by the last name of the collection's path; a map's fields follow the map.
UNINDEXED: dict[str, frozenset[str]] = {
    RECEIPTS: frozenset({"messageId", "topic", "outcome", "reason", "views", "createdAt"}),
    "market_ticks": _TIMES,
    "market_ticks_latest": frozenset({"lastTickAt", "source"}),
    "market_bars_1m": _TIMES | {"start", "end"},
    "minutes": _TIMES | {"start", "end"},
    "trade_signals": _TIMES,
    "ingest_pipelines": frozenset({"lastHeartbeatAt", "updatedAt", "data", "source"}),
    "ops_services": frozenset({"lastHeartbeatAt", "updatedAt", "source"}),
    LETTERS: frozenset({"publishTime", "buriedAt", "replayedAt", "edits", "delivery", "attributes", "error"}),
    LETTER_PARTS: frozenset({"delivery", "data"}),
    EVENT_SEGMENTS: frozenset({"body", "n", "from", "to"}),
    EVENT_LOG: frozenset({"body"}),
    REBUILDS: frozenset({"rebuiltAt"}),
    FLOW_RUNS: frozenset({"steps", "millpond"}),
    HISTORY: frozenset({"hour", "minutes", "operations"}),
}
_EXPIRY = frozenset({"expireAt"})


def document_bytes(ref: Ref, data: Document) -> int:
    return _name_bytes(ref.path) + _fields_bytes(data)


def index_bytes(ref: Ref, data: Document) -> int:
    """Of all entries: two for each value (ascending and descending), one for each item of a list."""
    collection = ref.collection.rpartition("/")[2]
    unindexed = UNINDEXED.get(collection, frozenset()) | _EXPIRY
    parent = ref.collection.rpartition("/")[0]
    around = _name_bytes(ref.path) + (_name_bytes(parent) if parent else 0) + _ENTRY_BYTES
    indexed = {name: value for name, value in data.items() if name not in unindexed}
    return sum(entries * (around + size) for entries, size in _entries("", indexed))


def _entries(prefix: str, fields: Document) -> Iterator[tuple[int, int]]:
    """(number of entries, size of the name and the value), for each value that is indexed."""
    for name, value in fields.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _entries(f"{path}.", value)
        elif isinstance(value, list):
            yield from ((1, _text_bytes(path) + _indexed_bytes(item)) for item in value)
        else:
            yield 2, _text_bytes(path) + _indexed_bytes(value)


def _indexed_bytes(value: Any) -> int:
    return min(_value_bytes(value), _INDEXED_BYTES_MAX)


def _name_bytes(path: str) -> int:
    return sum(map(_text_bytes, path.split("/"))) + _NAME_BYTES


def _fields_bytes(fields: Document) -> int:
    return sum(_text_bytes(name) + _value_bytes(value) for name, value in fields.items()) + _DOCUMENT_BYTES


def _text_bytes(text: str) -> int:
    return len(text.encode(errors="surrogatepass")) + 1


def _value_bytes(value: Any) -> int:
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, str):
        return _text_bytes(value)
    if isinstance(value, int | float | dt.datetime):
        return 8
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, dict):
        return _fields_bytes(value)
    return sum(map(_value_bytes, value))
