"""Tails: each sends one reader the outcomes it asked for. Subscribes to outcomes; owned by the monitor.

Outcomes that the reader is too slow for are counted and dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from millpond.concurrency import PerSecond
from millpond.core import timestamps
from millpond.core.ack import Answered
from millpond.core.errors import explained
from millpond.core.model import Result
from millpond.live.mailbox import Mailbox, frame
from millpond.telemetry.message_line import ERROR_CHARS_MAX, TEXT_CHARS_MAX

TAIL_PER_S_MAX = 500


class Wanted(NamedTuple):
    """The filter of a tail: for each kind any of these values; an empty set matches everything.

    An outcome matches the message's, or that of one of its (named) views: if one view applied the event, the
    message is applied although another view found it stale.
    """

    topics: frozenset[str] = frozenset()
    views: frozenset[str] = frozenset()
    outcomes: frozenset[str] = frozenset()

    def matches(self, result: Result) -> bool:
        if self.topics and result.topic not in self.topics:
            return False
        views = [view for view in result.views if not self.views or view.view in self.views]
        if self.views and not views:
            return False
        if not self.outcomes or any(view.outcome in self.outcomes for view in views):
            return True
        return not self.views and result.outcome in self.outcomes


class Tail:
    """One reader of outcomes: at most TAIL_PER_S_MAX a second; the others are counted."""

    def __init__(self, wanted: Wanted, clock: Callable[[], float] = time.monotonic) -> None:
        self.mailbox = Mailbox()
        self._wanted = wanted
        self._pace = PerSecond(TAIL_PER_S_MAX, clock)

    def wants(self, result: Result) -> bool:
        return self._wanted.matches(result)

    def has_time(self) -> bool:
        """Whether another outcome may be sent in this second. Counts it as sent or skipped."""
        return self._pace.allow()

    def show(self, content: bytes) -> None:
        if not self.mailbox.put(content):
            self._pace.skipped += 1

    def take_skipped(self) -> bytes:
        """A frame with the number of outcomes skipped since the last one; empty if there were none."""
        skipped = self._pace.take_skipped()
        return frame("skipped", {"n": skipped}) if skipped else b""


class Tails:
    """All readers of outcomes."""

    def __init__(self) -> None:
        self._tails: list[Tail] = []

    @property
    def any(self) -> bool:
        return bool(self._tails)

    def open(self, wanted: Wanted) -> Tail:
        tail = Tail(wanted)
        self._tails = [*self._tails, tail]
        return tail

    def close(self, tail: Tail) -> None:
        self._tails = [other for other in self._tails if other is not tail]

    def end(self) -> None:
        for tail in self._tails:
            tail.mailbox.end()

    def on_outcome(self, answered: Answered) -> None:
        content = b""
        for tail in self._tails:
            if tail.wants(answered.result) and tail.has_time():
                # Encoded once for all readers.
                content = content or frame("outcome", outcome_shown(answered))
                tail.show(content)


def outcome_shown(answered: Answered) -> dict[str, Any]:
    """The outcome of a message, in the form that tails get."""
    delivery, result = answered.delivery, answered.result
    event, error = result.event, result.error
    return {
        "at": timestamps.to_text(answered.at),
        "messageId": delivery.message_id if delivery is not None else "",
        "eventId": event.event_id[:TEXT_CHARS_MAX] if event is not None and event.event_id is not None else None,
        "topic": result.topic,
        "subscription": delivery.subscription[:TEXT_CHARS_MAX] if delivery is not None else "",
        "publishTime": timestamps.to_text(delivery.publish_time) if delivery is not None else None,
        "deliveryAttempt": delivery.attempt if delivery is not None else None,
        "outcome": result.outcome,
        "reason": result.reason,
        "latencyMs": int(answered.latency_s * 1e6) / 1e3,
        "views": [
            {"view": view.view, "doc": view.doc, "outcome": view.outcome, "reason": view.reason}
            for view in result.views
        ],
        "error": explained(error)[:ERROR_CHARS_MAX] if error is not None else None,
    }
