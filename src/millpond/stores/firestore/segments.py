"""The event log on Firestore: one document, a segment, for each commit, with the entries of all its messages. Pure.

A document for each message would double the bill, and an index on its time would limit the database to about 500
messages a second. A segment is in the same commit as the writes of its messages, never later. It holds:

    ids        hashes of message ids and event ids. The only index that finds an entry
    counts     "outcome topic" → number of messages, for sums
    n          the number of entries
    body       the entries, compressed
    from, to   the arrival of the first and of the last message
    expireAt   only with EVENT_LOG_TTL_DAYS

Its id is a shard, the time of the last arrival, and a random end. Ids that begin with the time would send all
writes to one server. Within a shard they are in order of time, so the log is read without an index on the time.
"""

from __future__ import annotations

import hashlib
import secrets
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.core.collections import EVENT_SEGMENTS
from millpond.core.model import Document, LogEntry, Outcome, Put, Ref, Snapshot
from millpond.stores.log_entry import decode_entry, encode_body

# A server takes about 500 writes a second with ids in order, so these take 8,000 commits a second.
SHARDS = "0123456789abcdef"
# A document may have 1 MiB; the rest is for its other fields.
BODY_BYTES_MAX = 900_000
# The keys of `counts` that any segment has, so that they can be summed: Firestore cannot list them.
COUNT_KEYS = Ref(EVENT_SEGMENTS, "keys")
TOO_LARGE = "the event log holds no data over 900,000 bytes, compressed; the letter does"
# The reason of a view that has taken this very message before: the log has its entry since then, if it was on.
_REDELIVERED = "duplicate_message_noop"
# Outcomes that depend on the message and the view's code alone. A redelivery has them again if that is the same.
_SAME_AGAIN = frozenset({Outcome.FILTERED, Outcome.TOO_OLD})
_TIME_DIGITS = 16
# A producer's event id may be of any length, and is in the payload too.
_EVENT_ID_CHARS_MAX = 1_500
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def encode_segments(log: Sequence[LogEntry], at: int, keep: int | None) -> list[Put]:
    """The segments of a commit: usually one, more if the entries do not fit; none if there is nothing new.

    `at` is the time for their ids, and `keep` how long they are kept, both in microseconds.
    """
    puts = []
    for entries, body in _bodies([entry for entry in log if not _is_redelivery(entry)]):
        ref = Ref(EVENT_SEGMENTS, f"{secrets.choice(SHARDS)}-{at:0{_TIME_DIGITS}}-{secrets.token_hex(4)}")
        puts.append(Put(ref, None, _document(entries, body, keep), checked=True))
    return puts


def decode_segment(snapshot: Snapshot) -> list[LogEntry]:
    """The entries of a segment, in the order in which they were committed."""
    rows = _decode(zlib.decompress((snapshot.data or {})["body"]))
    return [
        msgspec.structs.replace(decode_entry(message_id, topic, event_id, arrived_at, outcome, body), replay=replay)
        for message_id, topic, event_id, arrived_at, outcome, replay, body in rows
    ]


def time_of(segment_id: str) -> int:
    """The time in the id of a segment."""
    return int(segment_id[2 : 2 + _TIME_DIGITS])


def first_id(shard: str, at: int) -> str:
    """The lowest id of a shard's segments at this time or later."""
    return f"{shard}-{max(0, at):0{_TIME_DIGITS}}"


def last_id(shard: str) -> str:
    """An id after those of all segments of a shard."""
    return f"{shard}."


def hash_id(any_id: str) -> int:
    """A message id or an event id as it is indexed. Different ids may have one hash: compare them in full."""
    digest = hashlib.sha256(any_id.encode(errors="replace")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def event_id_key(event_id: str) -> str:
    """An event id as an entry holds it."""
    return event_id[:_EVENT_ID_CHARS_MAX]


def count_key(outcome: Outcome, topic: str) -> str:
    return f"{outcome} {topic}"


def _is_redelivery(entry: LogEntry) -> bool:
    """Whether every view took this very message before."""
    views = entry.result.views
    return not entry.replay and bool(views) and all(view.reason == _REDELIVERED for view in views)


def _is_repeated(entry: LogEntry) -> bool:
    """Whether an earlier entry counts the message, most likely: views took it before, or it is not for them."""
    views = entry.result.views
    known = any(view.reason == _REDELIVERED for view in views)
    return known and all(view.reason == _REDELIVERED or view.outcome in _SAME_AGAIN for view in views)


def _bodies(entries: Sequence[LogEntry]) -> Iterator[tuple[list[LogEntry], bytes]]:
    """The entries in groups, each with its body. Before compression, so that any content fits."""
    group: list[LogEntry] = []
    rows: list[msgspec.Raw] = []
    size = 0
    for entry in entries:
        row = _encode(_row(entry))
        if group and size + len(row) > BODY_BYTES_MAX:
            yield group, _compressed(rows)
            group, rows, size = [], [], 0
        group.append(entry)
        rows.append(msgspec.Raw(row))
        size += len(row)
    if group:
        yield group, _compressed(rows)


def _row(entry: LogEntry) -> tuple[Any, ...]:
    body = encode_body(entry)
    if len(body) > BODY_BYTES_MAX and len(zlib.compress(body, level=1)) > BODY_BYTES_MAX:
        delivery = msgspec.structs.replace(entry.delivery, data=None, data_fault=TOO_LARGE)
        body = encode_body(msgspec.structs.replace(entry, delivery=delivery, corrected={}))
    event_id = None if entry.event_id is None else event_id_key(entry.event_id)
    known = (entry.delivery.message_id, entry.topic, event_id, entry.arrived_at)
    return (*known, str(entry.result.outcome), entry.replay, body)


def _compressed(rows: list[msgspec.Raw]) -> bytes:
    return zlib.compress(_encode(rows), level=1)


def _document(entries: Sequence[LogEntry], body: bytes, keep: int | None) -> Document:
    hashes = {hash_id(entry.delivery.message_id) for entry in entries}
    hashes |= {hash_id(entry.event_id) for entry in entries if entry.event_id is not None}
    arrivals = [entry.arrived_at for entry in entries]
    document: Document = {
        "ids": sorted(hashes),
        "counts": _counts(entries),
        "n": len(entries),
        "body": body,
        "from": timestamps.to_datetime(min(arrivals)),
        "to": timestamps.to_datetime(max(arrivals)),
    }
    if keep is not None:
        document["expireAt"] = timestamps.to_datetime(max(arrivals) + keep)
    return document


def _counts(entries: Sequence[LogEntry]) -> dict[str, int]:
    """What a commit adds to the sums: a message that is not settled counts later, a replay moves its letter's."""
    counts: Counter[str] = Counter()
    for entry in entries:
        outcome = entry.result.outcome
        if outcome is Outcome.RETRY or (entry.replay and outcome in {Outcome.POISON, Outcome.DUPLICATE}):
            continue
        if _is_repeated(entry) or (outcome is Outcome.POISON and not entry.result.buried):
            # Poison in one view is in the log with the other views' effects, and counts with its burial.
            continue
        counts[count_key(outcome, entry.topic)] += 1
        if entry.replay:
            counts[count_key(Outcome.POISON, entry.topic)] -= 1
    return dict(counts)
