"""Which views took a dead letter's message as an operator corrected it: a record in the commit of the effect. Pure.

Each correction is another payload, so to receipts it is another event. Without this record a view could be asked
with a second correction after it took the first: if the letter did not learn of the first replay (a crash), or
learnt of it too late (an edit during the replay), or was purged meanwhile. `plan` calls it, for replays alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from millpond.core import timestamps
from millpond.core.collections import RECEIPTS
from millpond.core.hashing import base32_sha256
from millpond.core.ids import encode_id
from millpond.core.item import TAKEN, Item
from millpond.core.model import Delivery, Ref, ViewResult
from millpond.core.working_set import WorkingSet

# Longer than letters are usually kept.
KEPT_US = 90 * timestamps.DAY_US


def record_ref(delivery: Delivery) -> Ref:
    """The record of a message, by what identifies it: its subscription, its id and its data as it arrived."""
    parts = (delivery.subscription.encode(errors="replace"), delivery.message_id.encode(errors="replace"))
    return Ref(RECEIPTS, encode_id("corrected", base32_sha256(b"\0".join((*parts, delivery.data or b"")))))


def taken_by(item: Item, working: WorkingSet) -> frozenset[str]:
    """The views that took a correction of this replayed message before."""
    found = working.look(record_ref(item.delivery)) if item.targets else None
    views = (found or {}).get("views")
    return frozenset(views) if isinstance(views, dict) else frozenset()


def record_taken(item: Item, results: Iterable[ViewResult], working: WorkingSet, now: int) -> None:
    """Add the views that take the corrected message in this commit."""
    if item.delivery.correction is None or not item.targets:
        return
    before = taken_by(item, working)
    new = {
        view.view: {"document": view.doc, "outcome": str(view.outcome), "reason": view.reason, "stamp": view.stamp}
        for view in results
        if view.outcome in TAKEN and view.view not in before
    }
    if new:
        ref = record_ref(item.delivery)
        known = working.look(ref) or {"createdAt": timestamps.to_datetime(now)}
        record = {
            **known,
            "messageId": item.delivery.message_id,
            "views": {**known.get("views", {}), **new},
            "expireAt": timestamps.to_datetime(max(now, item.delivery.publish_time) + KEPT_US),
        }
        working.put(ref, record)
