"""The rate of one stretch of bulk work: Google's rule, what the store's answers make of it, and what is left of it.

Pure: every call is given the time, in seconds of any clock. Owned by `pace`, which waits.
"""

from __future__ import annotations

import enum
import math

from millpond.engine.decay import CommitTimes, Decaying

# Google's rule, in steps as its own client libraries have it: 500 operations a second, and every 5 minutes half as
# much again. An operation is a document that is read or written. After 18 steps, an hour and a half, it allows
# 740,000 a second.
FIRST_RATE = 500.0
STEP_S = 300.0
STEP_FACTOR = 1.5
_STEPS_MAX = 18
# The store is used to a rate only if it was given that rate. So the next step takes 5 minutes in which this share
# of the present one was used, by bulk work and live traffic together.
_STEP_USE = 0.7
# Operations come in groups, so that messages still share commits: a commit costs one log document however many
# messages it has. A store that counts the operations of any second meets at most a second's worth and one group
# more: together 98 % of the rule. The rest is for calls that arrive a little early.
SHARE = 0.93
_GROUP_SHARE = 0.05
_GROUP_MAX = 250
# A page of documents that are read and written one page after the other: five are a second's worth. Smaller ones
# would cost more, because a rebuild reads the end of the log for each.
_PAGE_SHARE = 0.2
OPERATIONS_PER_DOCUMENT = 2
# Bulk work that finds so many seconds' worth of operations missing knows that live traffic has used them.
_LIVE_DEBT_S = 0.5
# What is left of the rate after a refusal, or when commits take longer.
_SLOWER = 0.7
# A slower rate comes back by so much in each second: fast, but with care near the rate that was too much.
_BACK_FAST, _BACK_SLOWLY = 1.1, 1.01
_NEAR_FROM, _NEAR_TO = 0.9, 1.1
EXHAUSTED = "RESOURCE_EXHAUSTED"


class Held(enum.StrEnum):
    """Why bulk work is not faster."""

    RAMP = "ramp"
    EXHAUSTED = "exhausted"
    LATENCY = "latency"
    LIVE = "live"


# How long a slower rate has to show its effect before the store's next complaint counts.
_EFFECT_S = {Held.EXHAUSTED: 1.0, Held.LATENCY: 5.0}
# The least rate it is slowed down to: operations a second, or a share of the allowed ones.
_EXHAUSTED_MIN = 10.0
_LATENCY_MIN_SHARE = 0.2


class BulkRate:
    def __init__(self, first: float, now: float) -> None:
        self._first = first
        self._advanced_at = now
        # Steps of the rule so far; when the last one began, and how many operations it has had.
        self._steps = 0
        self._step_at = now
        self._step_used = 0
        self.why = Held.RAMP
        self._cap = math.inf
        self._too_much = 0.0
        self._slowed_at = -math.inf
        self._left = self.group()
        # Operations of the turns under way; and those of them that were not made yet, as far as is known.
        self._taken = self._reserved = 0.0
        # Whether the group at the head goes on: it began with all its operations, and some are left.
        self._open = True
        self._speed = Decaying(now)
        self._times = CommitTimes()

    @property
    def allowed(self) -> float:
        """Operations a second by Google's rule."""
        return self._first * STEP_FACTOR**self._steps

    @property
    def limit(self) -> float:
        """Operations a second that bulk work aims at."""
        return min(self.allowed * SHARE, self._cap)

    def group(self) -> float:
        """How many operations come together."""
        return min(max(self.limit / SHARE * _GROUP_SHARE, 1.0), _GROUP_MAX)

    def page(self) -> int:
        """How many documents a page may have, each read and written."""
        return max(int(self.limit / SHARE * _PAGE_SHARE / OPERATIONS_PER_DOCUMENT), 1)

    def speed(self, now: float) -> float:
        """Operations a second of the last few seconds."""
        return self._speed.at(now)

    def due_s(self, now: float) -> float:
        """After how many seconds the next group begins; 0 if one goes on."""
        self._advance(now)
        free = self._left - self._reserved
        missing = self.group() - free
        self._open = missing <= 0 or (self._open and free > 0)
        return 0.0 if self._open else max(missing / self.limit, 0.001)

    @property
    def is_used_up(self) -> bool:
        """Whether so much is missing that live traffic must have used it.

        While the store is exhausted the rate is so small that one page of bulk work is as much.
        """
        return self.why is not Held.EXHAUSTED and self._left < -_LIVE_DEBT_S * self.limit

    def reserve(self, operations: float) -> None:
        self._taken += operations
        self._reserved += operations

    def release(self, operations: float) -> None:
        self._taken -= operations
        self._reserved = min(self._reserved, self._taken)

    def used(self, operations: int, code: str | None, now: float) -> None:
        """A call for so many documents was answered, with this error code if it failed."""
        self._advance(now)
        self._step_used += operations
        # Live traffic may use more than the rate. Bulk work does not have to make up for that.
        self._left = max(self._left - operations, -max(self.limit, operations))
        self._reserved = max(self._reserved - operations, 0.0)
        self._speed.add(operations, now)
        if code == EXHAUSTED:
            self._slow_down(Held.EXHAUSTED, _EXHAUSTED_MIN, now)

    def committed(self, writes: int, took_s: float, code: str | None, now: float) -> None:
        """A commit was answered."""
        self.used(writes, code, now)
        self._times.add(took_s, now)
        if code != EXHAUSTED and self._times.have_grown:
            self._slow_down(Held.LATENCY, _LATENCY_MIN_SHARE * self.allowed, now)

    def _slow_down(self, why: Held, least: float, now: float) -> None:
        if now - self._slowed_at < _EFFECT_S[why]:
            return
        self._slowed_at = now
        self._too_much = self.limit
        self._cap = max(self._too_much * _SLOWER, min(least, self._too_much))
        self._left = min(self._left, 0.0)
        self.why = why

    def _advance(self, now: float) -> None:
        """Let time pass: what is left grows, and a slower rate comes back."""
        passed_s, self._advanced_at = now - self._advanced_at, now
        if now - self._step_at >= STEP_S:
            is_used = self._step_used >= _STEP_USE * self.allowed * STEP_S
            self._steps = min(self._steps + is_used, _STEPS_MAX)
            self._step_at, self._step_used = now, 0
        if self._cap >= self.allowed * SHARE:
            self._cap, self.why = math.inf, Held.RAMP
        elif not self._times.have_grown:
            is_near = _NEAR_FROM <= self._cap / self._too_much < _NEAR_TO
            self._cap *= (_BACK_SLOWLY if is_near else _BACK_FAST) ** passed_s
        # Not more than one group in advance, beside the turns that were taken.
        most = self.group() + self._reserved
        self._left = min(self._left + self.limit * passed_s, most)
