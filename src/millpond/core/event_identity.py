"""Whether two messages are the same event, also if a producer published it again under a new message id. Pure.

Called by `route` for every event, and by `receipts` and `plan` for tallies.
"""

from __future__ import annotations

from millpond.core.document import canonical_json
from millpond.core.hashing import base32_sha256
from millpond.core.model import Event


def logical_key(event: Event, own_time: int | None, sequence: int | None) -> str:
    """52 characters that are equal for a message and its republished copies only.

    An eventId alone is not enough: producers reuse one for every update of an object. If a payload has no time of
    its own, a copy cannot be distinguished from a genuine repetition, so each message counts as an event.
    """
    if event.event_id is not None:
        identity = f"id\0{event.event_id}\0{own_time}\0{sequence}".encode()
    else:
        mark = f"\0{own_time}" if own_time is not None else f"\0\0{event.message_id}"
        identity = canonical_json(event.payload) + mark.encode()
    return base32_sha256(identity)


def content_mark(event: Event) -> str:
    """A hash of the payload, in 52 characters: copies with the same eventId may differ in content."""
    return base32_sha256(canonical_json(event.payload))
