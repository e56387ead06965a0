"""Receipts: one document per logical event, with its outcome in each view. Pure; called by `plan`.

`Latest` and `Merge` documents are right without receipts: there a receipt only distinguishes a duplicate from a
stale event. `Tally` documents depend on them to count each event once.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from millpond.core import timestamps
from millpond.core.event_identity import content_mark
from millpond.core.model import Document, Outcome, Ref
from millpond.core.view import Tally

if TYPE_CHECKING:
    from millpond.core.item import Item, Target
    from millpond.core.plan import Verdict
    from millpond.core.working_set import WorkingSet

_COUNTS = frozenset({Outcome.APPLIED, Outcome.STALE})


class Receipts(msgspec.Struct, frozen=True):
    """How long receipts are kept, and how far clocks may differ, in microseconds."""

    keep: int = 7 * timestamps.DAY_US
    clock_skew: int = 300 * timestamps.SECOND_US

    def counted_from(self, now: int) -> int:
        """The event time from which on every counted event still has a receipt that has not expired.

        A receipt is valid until at least `event time + keep`; the skew covers another instance's faster clock.
        """
        return now - self.keep + self.clock_skew

    def known(self, target: Target, working: WorkingSet, now: int) -> Document | None:
        """The receipt that shows that this view has already processed this event, or None."""
        if target.receipt is None:
            return None
        receipt = working.look(target.receipt)
        if receipt is None or not self._alive(receipt, now):
            return None
        views = receipt.get("views")
        if not isinstance(views, dict):
            # `ops_dedupe/{messageId}` as an earlier consumer wrote it: it names no view and counts for all views.
            return receipt
        entry = views.get(target.view.name)
        return receipt if entry is not None and entry["outcome"] in _COUNTS else None

    def record(
        self, item: Item, decided: Sequence[tuple[Target, Verdict]], working: WorkingSet, now: int
    ) -> str | None:
        """Put a receipt for each logical key of the item that lacks one; returns the path of the first."""
        first: Ref | None = None
        for target, verdict in decided:
            ref = target.receipt
            if ref is None or target.settled is not None:
                continue
            if first is None:
                first = ref
            # A duplicate already has its receipt; writing it again would only cause a conflict.
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
        """The receipt with this view's entry added; None if there is nothing to add."""
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
            if current.get("messageId") != item.delivery.message_id:
                # Another copy of the event made the receipt. If it comes again, it is no redelivery for this view.
                entry["messageId"] = item.delivery.message_id
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
        """Whether it has not expired. TTL deletion lags by up to a day, so an expired receipt may be read."""
        expires = receipt.get("expireAt")
        return not isinstance(expires, dt.datetime) or timestamps.from_datetime(expires) > now


def settled_by(receipt: Document, view: str) -> str | None:
    """The id of the message that the view took. Earlier builds kept only the message that made the receipt."""
    views = receipt.get("views")
    taken = views[view].get("messageId") if isinstance(views, dict) else None
    return taken or receipt.get("messageId")
