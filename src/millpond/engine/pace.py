"""Makes bulk work wait for its turn, so that Firestore is ramped up as Google asks and live traffic goes first.

Bulk work is what writes as fast as it can: a file of messages, replays, rebuilds, moved ids. It takes a `turn`
before each message or page; reads and commits are reported to `read` and `committed`. A turn comes before a message
is submitted and never inside a commit, because the engine gives a message a few seconds only. Live traffic takes no
turn, so it is never delayed; its operations use up the same rate. Owned by the service, on Firestore only, and by
`millpond ingest --url`. How fast it may be is decided in `bulk_rate`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from millpond.engine.bulk_rate import FIRST_RATE, STEP_S, BulkRate, Held

# How much of the allowed rate bulk work keeps while live traffic goes first, so that it ends one day.
_TRICKLE = 0.05
# How often a turn that waits looks again whether live messages wait.
_LOOK_S = 0.02
# The operations of a message are estimated by those of the last thousand messages; before any were counted it is 5,
# which is more than most messages have.
_COUNTED, _SETTLED = 80.0, 16.0
_REMEMBERED = 1_000
_ESTIMATE_MIN, _ESTIMATE_MAX = 1.0, 10.0


class Wording(NamedTuple):
    """What is counted, and how two of the reasons are worded."""

    unit: str = "operations"
    exhausted: str = "Firestore is exhausted"
    latency: str = "commits take longer"


_FIRESTORE = Wording()


class Pace:
    def __init__(
        self,
        *,
        first: float = FIRST_RATE,
        wording: Wording = _FIRESTORE,
        waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        """`waiting`: how many messages wait in the engine, those of bulk work included."""
        self._first = first
        self._wording = wording
        self._waiting = waiting
        # The event loop's, once there is one: a progress bar asks from a thread of its own.
        self._clock: Callable[[], float] = lambda: 0.0
        # Turns come in the order in which they were asked for.
        self._line = asyncio.Lock()
        # None before the first bulk work, and again some minutes after the last.
        self._rate: BulkRate | None = None
        self._messages = self._pages = 0
        self._turned_at = self._trickle_at = 0.0
        self._behind_live = False
        self._counted, self._settled = _COUNTED, _SETTLED

    @contextlib.asynccontextmanager
    async def turn(self, operations: int | None = None) -> AsyncIterator[None]:
        """Wait for the turn of one message, or of a page with so many operations; leave it when that is settled.

        Until then its operations are reserved. What counts in the end is what was read and committed.
        """
        is_page = operations is not None
        async with self._line:
            rate = self._begin()
            await self._wait(rate)
            held = self._estimate() if operations is None else float(operations)
            rate.reserve(held)
            now = self._turned_at = self._clock()
            self._trickle_at = now + held / min(_TRICKLE * rate.allowed, rate.limit)
            self._count(1, is_page=is_page)
        try:
            yield
        finally:
            rate.release(held)
            self._count(-1, is_page=is_page)

    def page(self, most: int) -> int:
        """How many documents a page may have: a fraction of a second's worth, and at most `most`."""
        return min(most, self._begin().page())

    def read(self, documents: int, code: str | None = None) -> None:
        """A read of this process was answered, with this error code if it failed."""
        rate = self._current()
        if rate is not None:
            self._counted += documents
            rate.used(documents, code, self._clock())

    def committed(self, writes: int, took_s: float, code: str | None = None) -> None:
        """A commit of this process was answered, with this error code if it failed."""
        rate = self._current()
        if rate is not None:
            self._counted += writes
            rate.committed(writes, took_s, code, self._clock())

    def settled(self, _: object) -> None:
        """A message of this process was answered, a live one or one of bulk work."""
        self._settled += self._rate is not None

    @property
    def rate(self) -> float | None:
        """Operations a second of this process in the last seconds; None without bulk work."""
        rate = self._rate
        return None if rate is None else rate.speed(self._clock())

    @property
    def reason(self) -> str | None:
        """Why it is not faster, in a few words; None without bulk work."""
        rate = self._rate
        if rate is None:
            return None
        unit = self._wording.unit
        at_most = f"at most {rate.limit:,.0f} {unit}/s"
        match Held.LIVE if self._behind_live else rate.why:
            case Held.LIVE:
                return "live traffic goes first"
            case Held.EXHAUSTED:
                return f"{self._wording.exhausted}: {at_most}"
            case Held.LATENCY:
                return f"{self._wording.latency}: {at_most}"
            case Held.RAMP:
                return f"ramping up: {rate.allowed:,.0f} {unit}/s, half as much again every 5 minutes"

    @property
    def text(self) -> str:
        """Rate and reason, for a progress bar; empty without bulk work."""
        rate, reason = self.rate, self.reason
        return "" if rate is None or reason is None else f"{rate:,.0f} {self._wording.unit}/s, {reason}"

    def _begin(self) -> BulkRate:
        """After minutes without bulk work the store has to be ramped up again."""
        if self._rate is None or self._is_over():
            self._clock = asyncio.get_running_loop().time
            now = self._clock()
            self._rate = BulkRate(self._first, now)
            self._turned_at = self._trickle_at = now
        return self._rate

    def _current(self) -> BulkRate | None:
        """The rate of the bulk work under way; None if there is none."""
        if self._rate is not None and self._is_over():
            self._rate = None
        return self._rate

    def _is_over(self) -> bool:
        return self._messages == self._pages == 0 and self._clock() - self._turned_at > STEP_S

    async def _wait(self, rate: BulkRate) -> None:
        while True:
            now = self._clock()
            due_s = rate.due_s(now)
            # A message of bulk work that has its turn may wait in the engine too.
            live_waits = self._waiting() > self._messages
            self._behind_live = live_waits or rate.is_used_up
            left_s = self._trickle_at - now
            if (due_s == 0 and not live_waits) or left_s <= 0:
                return
            await asyncio.sleep(min(due_s or _LOOK_S, left_s, _LOOK_S))

    def _count(self, n: int, *, is_page: bool) -> None:
        if is_page:
            self._pages += n
        else:
            self._messages += n

    def _estimate(self) -> float:
        """The operations of a message, live ones included: one commit may have messages of both kinds."""
        if self._settled > _REMEMBERED:
            self._counted, self._settled = self._counted / 2, self._settled / 2
        return min(max(self._counted / self._settled, _ESTIMATE_MIN), _ESTIMATE_MAX)


def take_turn(pace: Pace | None, operations: int | None = None) -> contextlib.AbstractAsyncContextManager[None]:
    """The turn of a message, or of a page with so many operations; at once on a store that needs no pace."""
    return contextlib.nullcontext() if pace is None else pace.turn(operations)
