"""Fields that grow with time and should have no index on Firestore: those that Millpond writes, and any document's.

A collection with an index on such a field takes about 500 writes a second, by Google's documentation. Pure. Called
by `indexes`; a test compares the table with what the code writes and with infra/terraform/firestore.tf.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
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
from millpond.core.model import Document

Path = tuple[str, ...]

_MINUTES = "market_bars_1m_by_symbol/*/days/*/minutes"
_BY_EVENT = ("eventTime", "producedAt", "publishedAt", "ingestedAt", "data", "source")
# By the path of the collection, with a * for the documents above it. A map is named if a time is in it: its fields
# follow it.
OWN: Mapping[str, tuple[str, ...]] = {
    RECEIPTS: ("createdAt", "expireAt"),
    LETTERS: ("publishTime", "buriedAt", "replayedAt", "edits", "expireAt"),
    f"{LETTERS}/*/{LETTER_PARTS}": ("expireAt",),
    EVENT_LOG: ("expireAt",),
    EVENT_SEGMENTS: ("from", "to", "expireAt"),
    REBUILDS: ("rebuiltAt",),
    FLOW_RUNS: ("steps", "millpond"),
    HISTORY: ("hour", "expireAt"),
}
BUILT_IN: Mapping[str, tuple[str, ...]] = {
    "ops_services": ("lastHeartbeatAt", "updatedAt", "source"),
    "ingest_pipelines": ("lastHeartbeatAt", "updatedAt", "data", "source"),
    "market_ticks_latest": ("lastTickAt", "source"),
    "market_ticks": (*_BY_EVENT, "expireAt"),
    "market_bars_1m": ("start", "end", *_BY_EVENT),
    _MINUTES: ("start", "end", *_BY_EVENT),
    "trade_signals": _BY_EVENT,
}
# These keep their indexes. A query of ours needs the first. People list bars and signals by the others, so they are
# the default of the Terraform variable `indexed`.
INDEXED: Mapping[str, tuple[str, ...]] = {
    EVENT_LOG: ("arrivedAt",),
    "market_bars_1m": ("ts",),
    _MINUTES: ("ts",),
    "trade_signals": ("createdAt", "decisionAt", "updatedAt"),
}
_TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")


def time_fields(document: Document) -> Iterator[Path]:
    """The paths of fields that hold a time, as a timestamp or as text. Firestore indexes a map field by field.

    A list with a time anywhere in it is one path: its elements have no paths of their own. Times as plain numbers
    are not recognised.
    """
    for name, value in document.items():
        if isinstance(value, dict):
            yield from ((name, *rest) for rest in time_fields(value))
        elif _has_time(value):
            yield (name,)


def _has_time(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_has_time, value))
    if isinstance(value, dict):
        return any(map(_has_time, value.values()))
    return isinstance(value, dt.datetime) or (isinstance(value, str) and bool(_TIME_TEXT.match(value)))
