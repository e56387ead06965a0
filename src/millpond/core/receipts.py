"""Receipts: the ledger's record of what became of an event. Pure.

One document per logical event serves both tiers of deduplication. Last-write-wins documents never need it (a
receipt only tells a duplicate from a stale event there); a tally rests on it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from millpond.core import timestamps
from millpond.core.document import canonical_json
from millpond.core.hashing import base32_sha256
from millpond.core.model import Document, Event, Outcome, Ref
from millpond.core.view import Tally

if TYPE_CHECKING:
    from millpond.core.plan import Verdict, WorkingSet
    from millpond.core.route import Item, Target

_COUNTS = frozenset({Outcome.APPLIED, Outcome.STALE})


def content_mark(event: Event) -> str:
    """What the event says, as 52 characters: copies that claim to be one event by their eventId may differ."""
    return base32_sha256(canonical_json(event.payload))


class Receipts(msgspec.Struct, frozen=True):
    """How long receipts are kept, and how far clocks may lie apart, in microseconds."""

    keep: int = 7 * timestamps.DAY_US
    clock_skew: int = 300 * timestamps.SECOND_US

    def counted_from(self, now: int) -> int:
        """Events from here on are sure to have a living receipt if they were ever counted.

        A receipt lives until at least `event time + keep`; the skew covers another instance's faster clock.
        """
        return now - self.keep + self.clock_skew

    def known(self, target: Target, working: WorkingSet, now: int) -> Document | None:
        """The receipt that says this view has already had this event."""
        if target.receipt is None:
            return None
        receipt = working.look(target.receipt)
        if receipt is None or not self._alive(receipt, now):
            return None
        views = receipt.get("views")
        if not isinstance(views, dict):
            # `ops_dedupe/{messageId}` as an earlier consumer wrote it: it names no views and stands for all.
            return receipt
        entry = views.get(target.view.name)
        return receipt if entry is not None and entry["outcome"] in _COUNTS else None

    def record(self, item: Item, verdicts: Sequence[Verdict], working: WorkingSet, now: int) -> str | None:
        """Put a receipt for each logical key of the item that lacks one; returns the path of the first."""
        first: Ref | None = None
        for target, verdict in zip(item.targets, verdicts, strict=True):
            ref = target.receipt
            if ref is None or target.settled is not None:
                continue
            if first is None:
                first = ref
            # A duplicate has its receipt already; trying to write it again would only make a conflict.
            if verdict.outcome in _COUNTS:
                current = working.look(ref)
                if current is not None and not self._alive(current, now):
                    current = None
                receipt = self._with_view(item, target, verdict, current, now)
                if receipt is not None:
                    working.put(ref, receipt, checked=True)
        return first.path if first is not None else None

    def _with_view(
        self, item: Item, target: Target, verdict: Verdict, current: Document | None, now: int
    ) -> Document | None:
        """The receipt with this view's entry; None where it already says all it can."""
        views = {} if current is None else current.get("views")
        if not isinstance(views, dict) or target.view.name in views:
            return None
        outcome = str(verdict.outcome)
        entry = {
            "document": target.path,
            "outcome": outcome,
            "reason": verdict.reason,
            "stamp": target.stamp,
            "winner": verdict.winner,
        }
        if isinstance(target.view, Tally) and item.event is not None and item.event.event_id is not None:
            entry["content"] = content_mark(item.event)
        if current is not None:
            top = {"outcome": outcome, "reason": verdict.reason} if verdict.outcome is Outcome.APPLIED else {}
            return {**current, **top, "views": {**views, target.view.name: entry}}
        return {
            "messageId": item.delivery.message_id,
            "topic": item.topic,
            "outcome": outcome,
            "reason": verdict.reason,
            "views": {target.view.name: entry},
            "createdAt": timestamps.to_datetime(now),
            "expireAt": timestamps.to_datetime(max(now, target.event_time) + self.keep),
        }

    def _alive(self, receipt: Document, now: int) -> bool:
        """TTL deletion lags by up to a day, so the date is compared here too."""
        expires = receipt.get("expireAt")
        return not isinstance(expires, dt.datetime) or timestamps.from_datetime(expires) > now
