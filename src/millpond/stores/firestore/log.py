"""The event log on Firestore: one document per message, in the same commit as the message's writes."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from millpond.core import timestamps
from millpond.core.collections import EVENT_LOG
from millpond.core.hashing import base32_sha256
from millpond.core.ids import encode_id
from millpond.core.model import Delete, LogEntry, Put, Ref, Snapshot
from millpond.stores.log_entry import OPEN, completed, decode_entry, encode_body, is_same_message

# A document may have 1 MiB; the rest is for its other fields.
_BODY_BYTES_MAX = 900_000
_EVENT_ID_CHARS_MAX = 300
# An entry has the arrival time by its instance's clock, and is committed later. Readers must look back as far as
# clocks may differ (MAX_FUTURE_SKEW_S), plus the time a message is tried for.
_READ_AGAIN_US = 360 * timestamps.SECOND_US
_TOO_LARGE = "the event log holds no data over 900,000 bytes, compressed; the letter does"


class LogDocument(NamedTuple):
    """A log entry on its way into a commit."""

    ref: Ref
    write: Put | Delete


def encode_entries(log: Sequence[LogEntry], earlier: Sequence[Snapshot], keep: int | None) -> list[LogDocument]:
    """`earlier` are entries that the log holds already, of messages in `log`."""
    taken: dict[Ref, Snapshot] = {snapshot.ref: snapshot for snapshot in earlier}
    # The entry, and the arrival of the delivery that completed it: readers continue by that time.
    entries: dict[Ref, tuple[LogEntry, int]] = {}
    gone: list[LogDocument] = []
    for entry in log:
        ref = entry_ref(entry)
        found = taken.get(ref) or _open_entry(entry, earlier)
        # An earlier copy of the message in the same commit goes before what the log holds.
        copy = entries.get(ref)
        before = copy[0] if copy is not None else None if found is None else decode_snapshot(found)
        newer = entry if before is None else completed(before, entry)
        if newer is None:
            continue
        if found is not None and found.ref != ref and found.version is not None:
            gone.append(LogDocument(found.ref, Delete(found.ref, found.version)))
        entries[ref] = (newer, entry.arrived_at)
    puts = []
    for ref, (newer, arrived_at) in entries.items():
        base = taken[ref].version if ref in taken else None
        puts.append(LogDocument(ref, Put(ref, base, _document(newer, arrived_at, keep), checked=True)))
    return [*gone, *puts]


def _open_entry(entry: LogEntry, earlier: Sequence[Snapshot]) -> Snapshot | None:
    """The entry of the burial of a replayed message. Its topic may have been unknown."""
    if not entry.replay:
        return None
    for found in earlier:
        before = decode_snapshot(found)
        if before.result.outcome in OPEN and is_same_message(before, entry):
            return found
    return None


def entry_ref(entry: LogEntry) -> Ref:
    """The ref of an entry. Message ids are unique only within a topic, so the id has both."""
    message_id = entry.delivery.message_id
    # A hash comes first: Pub/Sub's ids grow, and consecutive document ids would overload one Firestore server.
    return Ref(EVENT_LOG, encode_id(base32_sha256(message_id.encode())[:6], message_id, entry.topic or "-"))


def event_id_key(event_id: str | None) -> str | None:
    """An event id as it is stored and searched: cut, because an index limits the length."""
    return None if event_id is None else event_id[:_EVENT_ID_CHARS_MAX]


def decode_snapshot(snapshot: Snapshot) -> LogEntry:
    data = snapshot.data or {}
    arrived_at = timestamps.from_datetime(data.get("firstArrivedAt") or data["arrivedAt"])
    body = zlib.decompress(data["body"])
    return decode_entry(data["messageId"], data["topic"], data["eventId"], arrived_at, data["outcome"], body)


def encode_position(last: Snapshot, *, exact: bool) -> str:
    """The position after this entry; if not `exact`, _READ_AGAIN_US before it, for late commits."""
    arrived_at = timestamps.from_datetime((last.data or {})["arrivedAt"])
    return f"{arrived_at} {last.ref.id}" if exact else f"{arrived_at - _READ_AGAIN_US}"


def decode_position(position: str | None) -> tuple[dt.datetime, str | None] | None:
    if position is None:
        return None
    arrived_at, _, after_id = position.partition(" ")
    return timestamps.to_datetime(int(arrived_at)), after_id or None


def _document(entry: LogEntry, arrived_at: int, keep: int | None) -> dict[str, object]:
    body = zlib.compress(encode_body(entry), level=1)
    if len(body) > _BODY_BYTES_MAX:
        delivery = msgspec.structs.replace(entry.delivery, data=None, data_fault=_TOO_LARGE)
        short = msgspec.structs.replace(entry, delivery=delivery, corrected={})
        body = zlib.compress(encode_body(short), level=1)
    document: dict[str, object] = {
        "messageId": entry.delivery.message_id,
        "eventId": event_id_key(entry.event_id),
        "topic": entry.topic,
        "outcome": str(entry.result.outcome),
        "arrivedAt": timestamps.to_datetime(arrived_at),
        "body": body,
    }
    if arrived_at != entry.arrived_at:
        document["firstArrivedAt"] = timestamps.to_datetime(entry.arrived_at)
    if keep is not None:
        document["expireAt"] = timestamps.to_datetime(entry.arrived_at + keep)
    return document
