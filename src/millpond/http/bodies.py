"""One budget for the request bodies in memory, from their first byte until their request is answered.

    up to 64 KiB    counted as it arrives; all of them share a quarter of the budget
    larger          waits until its announced length fits into the other three quarters, and is not read before;
                    the bytes that arrived with its headers count as a small body until then

A large body is granted as a whole, so that it can be completed: bodies that wait for each other's last bytes would
deadlock. Small bodies have their own share, so that a few stalled large uploads never block ordinary messages. A
connection that has waited BODY_WAIT_S is refused with 429; it is refused immediately if the bytes counted without a
grant exceed the whole budget. Called by `limits` and `embedded`. Never reads or closes a connection itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

BODY_BYTES_MAX = 14 * 1024 * 1024
# The time in which a request must be complete.
REQUEST_S_MAX = 20.0
SMALL_BYTES_MAX = 64 * 1024
# A small body is read up to this size in any case: most messages are no larger.
TINY_BYTES_MAX = 8 * 1024
# How long a body may wait for its grant, and how long a large one may take while others wait for theirs.
BODY_WAIT_S = 1.0
LARGE_S_MAX = 2.0


class Reader(Protocol):
    """A connection, as far as the budget is concerned."""

    def hold_reading(self) -> None: ...

    def go_on_reading(self) -> None: ...


class Claim:
    """One request body's share of the budget. The connection may release it more than once."""

    __slots__ = ("_bodies", "_granted_at", "_reader", "_waiting_since", "large", "small")

    def __init__(self, bodies: Bodies, reader: Reader) -> None:
        self._bodies = bodies
        self._reader: Reader | None = reader
        # Bytes that arrived without a grant, and the announced length of a large body, granted or not.
        self.small = 0
        self.large = 0
        self._waiting_since: float | None = None
        self._granted_at: float | None = None

    def announce(self, size: int) -> None:
        """The body will have at most `size` bytes."""
        if size > SMALL_BYTES_MAX and not self.large:
            if self._waiting_since is not None:
                # It waited as a small body, until it was known to be large.
                self._bodies.leave(self)
                self.grant(0.0)
            self.large = size
            self._bodies.ask(self)

    def add(self, size: int) -> None:
        """`size` more bytes of the body have arrived."""
        if self._granted_at is None:
            self.small += size
            self._bodies.small += size

    def wait_if_crowded(self) -> None:
        """Stop reading the rest of a small body for now, if small bodies exceed their share."""
        if self._reader is None or self._waiting_since is not None:
            return
        if self.small > TINY_BYTES_MAX and self._bodies.is_crowded:
            self._bodies.wait(self)

    @property
    def exceeds_everything(self) -> bool:
        """Whether the bytes counted without a grant exceed the whole budget."""
        return self._reader is not None and self.small > 0 and self._bodies.is_overrun

    def release(self) -> None:
        """The request was answered, or its client is gone. The rest of its body is read and dropped."""
        reader, self._reader = self._reader, None
        if reader is not None:
            waits = self._waiting_since is not None
            if waits:
                self._bodies.leave(self)
            self._bodies.give_back(self, granted=self._granted_at is not None)
            if waits:
                reader.go_on_reading()

    def is_overdue(self, now: float) -> bool:
        """Whether its connection must be refused, because it waited too long or blocks other bodies."""
        if self._waiting_since is not None:
            return now - self._waiting_since > BODY_WAIT_S
        since = self._granted_at
        return since is not None and self._bodies.large_ones_wait and now - since > LARGE_S_MAX

    # --- called by the budget -------------------------------------------------------------------------------------

    def hold(self, now: float) -> None:
        self._waiting_since = now
        if self._reader is not None:
            self._reader.hold_reading()

    def grant(self, now: float) -> None:
        waited, self._waiting_since = self._waiting_since is not None, None
        if self.large:
            self._granted_at = now
            self._bodies.small -= self.small
            self.small = 0
        if waited and self._reader is not None:
            self._reader.go_on_reading()


class Bodies:
    """The budget. Every method is called on the event loop's thread."""

    def __init__(self, bytes_max: int, clock: Callable[[], float]) -> None:
        self._bytes_max = bytes_max
        self._small_max = bytes_max // 4
        self._large_max = bytes_max - self._small_max
        self._clock = clock
        self.small = 0
        self._large = 0
        self._large_waiting: deque[Claim] = deque()
        self._small_waiting: deque[Claim] = deque()

    @property
    def held(self) -> int:
        """Bytes in memory, or granted."""
        return self.small + self._large

    @property
    def is_crowded(self) -> bool:
        return self.small > self._small_max

    @property
    def is_overrun(self) -> bool:
        return self.small > self._bytes_max

    @property
    def large_ones_wait(self) -> bool:
        return bool(self._large_waiting)

    def ask(self, claim: Claim) -> None:
        """Grant a large body, now or later."""
        if self._large_waiting or not self._fits(claim):
            self.wait(claim)
        else:
            self._grant_large(claim)

    def wait(self, claim: Claim) -> None:
        self._queue_of(claim).append(claim)
        claim.hold(self._clock())

    def leave(self, claim: Claim) -> None:
        """Remove it from its queue."""
        self._queue_of(claim).remove(claim)

    def give_back(self, claim: Claim, *, granted: bool) -> None:
        self.small -= claim.small
        if granted:
            self._large -= claim.large
        while self._large_waiting and self._fits(self._large_waiting[0]):
            self._grant_large(self._large_waiting.popleft())
        while self._small_waiting and not self.is_crowded:
            self._small_waiting.popleft().grant(self._clock())

    def _grant_large(self, claim: Claim) -> None:
        self._large += claim.large
        claim.grant(self._clock())

    def _queue_of(self, claim: Claim) -> deque[Claim]:
        return self._large_waiting if claim.large else self._small_waiting

    def _fits(self, claim: Claim) -> bool:
        # One is always granted: the budget may be smaller than the largest body.
        return self._large == 0 or self._large + claim.large <= self._large_max


def release_claim(cycle: object, _: object = None) -> None:
    """Release the claim of a request's body, if it has one."""
    claim: Claim | None = getattr(cycle, "claim", None)
    if claim is not None:
        claim.release()
