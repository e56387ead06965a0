"""Publishes the outcome of every message. The log, the metrics and open pages subscribe.

Push, pull, files and replays publish here after the message was answered. Subscribers are called on the event loop,
in the order they subscribed, one event-loop iteration later: no sender waits for them. A subscriber must be fast
and must never block. If one raises, the error is reported and the others are still called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from millpond.core.ack import Answered, Settlement
from millpond.core.model import Delivery, Result

Subscriber = Callable[[Answered], None]


class Outcomes:
    def __init__(self, wall_clock: Callable[[], int], on_error: Callable[[BaseException], None]) -> None:
        self._wall_clock = wall_clock
        self._on_error = on_error
        self._subscribers: tuple[Subscriber, ...] = ()
        self._waiting: list[Answered] = []
        # When the first of them was answered.
        self._at = 0

    @property
    def subscribers(self) -> tuple[Subscriber, ...]:
        return self._subscribers

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers = (*self._subscribers, subscriber)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Has no effect if it is not subscribed."""
        self._subscribers = tuple(other for other in self._subscribers if other != subscriber)

    def publish(
        self,
        delivery: Delivery | None,
        result: Result,
        settlement: Settlement,
        latency_s: float,
        *,
        counts: bool = True,
    ) -> None:
        """Publish an answered message. `counts` is False for a replay, and for a request without a message."""
        if not self._waiting:
            # One reading of the clock for all messages of this event-loop iteration.
            self._at = self._wall_clock()
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(Answered(delivery, result, settlement, latency_s, self._at, counts))

    def flush(self) -> None:
        """Call the subscribers with everything published so far."""
        waiting, self._waiting = self._waiting, []
        subscribers = self._subscribers
        for answered in waiting:
            for subscriber in subscribers:
                try:
                    subscriber(answered)
                except Exception as bug:  # noqa: BLE001 - one subscriber's bug must not reach the others
                    self._on_error(bug)
