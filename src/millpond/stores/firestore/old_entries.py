"""Log entries of earlier builds on Firestore, one document for each message. Read, and no longer written. Pure."""

from __future__ import annotations

import zlib

from millpond.core import timestamps
from millpond.core.model import LogEntry, Snapshot
from millpond.stores.log_entry import decode_entry

_EVENT_ID_CHARS_MAX = 300


def event_id_key(event_id: str) -> str:
    """An event id as it is stored and searched: cut, because an index limits the length."""
    return event_id[:_EVENT_ID_CHARS_MAX]


def arrival_of(snapshot: Snapshot) -> int:
    """The time the log is in order of: the arrival of the delivery that completed the entry."""
    return timestamps.from_datetime((snapshot.data or {})["arrivedAt"])


def decode_old_entry(snapshot: Snapshot) -> LogEntry:
    data = snapshot.data or {}
    arrived_at = timestamps.from_datetime(data.get("firstArrivedAt") or data["arrivedAt"])
    body = zlib.decompress(data["body"])
    return decode_entry(data["messageId"], data["topic"], data["eventId"], arrived_at, data["outcome"], body)
