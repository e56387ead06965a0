"""The rate of one stretch of bulk work: Google's rule, what the store's answers make of it, and what is left of it.

Pure: every call is given the time, in seconds of any clock. Owned by `pace`, which waits.
"""

from __future__ import annotations

import enum
import math

from millpond.engine.decay import CommitTimes, Decaying

# Google's rule, in steps as its own client libraries have it: 500 writes a second, and every 5 minutes half as
# much again. After 18 steps, an hour and a half, it allows 740,000 a second.
FIRST_RATE = 500.0
STEP_S = 300.0
STEP_FACTOR = 1.5
_STEPS_MAX = 18
# Writes come in groups, so that messages still share commits: a commit costs one log document however many messages
# it has. A store that counts the writes of any second meets at most a second's worth and one group more: together
# 98 % of the rule. The rest is for commits that arrive a little early.
SHARE = 0.93
_GROUP_SHARE = 0.05
_GROUP_MAX = 250
# A page of documents that are written one page after the other: five are a second's worth. Smaller ones would cost
# more reads, because a rebuild reads the end of the log for each.
_PAGE_SHARE = 0.2
# Bulk work that finds so many seconds' worth of writes missing knows that live traffic has used them.
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
# The least rate it is slowed down to: writes a second, or a share of the allowed ones.
_EXHAUSTED_MIN = 10.0
_LATENCY_MIN_SHARE = 0.2


class BulkRate:
    def __init__(self, first: float, now: float) -> None:
        self._first = first
        self._began = self._advanced_at = now
        self.why = Held.RAMP
        self._cap = math.inf
        self._too_much = 0.0
        self._slowed_at = -math.inf
        self._left = self.group(now)
        # Writes of the turns under way; and those of them that were not committed yet, as far as is known.
        self._taken = self._reserved = 0.0
        # Whether the group at the head goes on: it began with all its writes, and some are left.
        self._open = True
        self._speed = Decaying(now)
        self._times = CommitTimes()

    def allowed(self, now: float) -> float:
        """Writes a second by Google's rule."""
        return self._first * STEP_FACTOR ** min(int((now - self._began) / STEP_S), _STEPS_MAX)

    def limit(self, now: float) -> float:
        """Writes a second that bulk work aims at."""
        return min(self.allowed(now) * SHARE, self._cap)

    def group(self, now: float) -> float:
        """How many writes come together."""
        return min(max(self.limit(now) / SHARE * _GROUP_SHARE, 1.0), _GROUP_MAX)

    def page(self, now: float) -> int:
        """How many writes one commit of a page may have."""
        return max(int(self.limit(now) / SHARE * _PAGE_SHARE), 1)

    def speed(self, now: float) -> float:
        """Writes a second of the last few seconds."""
        return self._speed.at(now)

    def due_s(self, now: float) -> float:
        """After how many seconds the next group begins; 0 if one goes on."""
        self._advance(now)
        free = self._left - self._reserved
        missing = self.group(now) - free
        self._open = missing <= 0 or (self._open and free > 0)
        return 0.0 if self._open else max(missing / self.limit(now), 0.001)

    def is_used_up(self, now: float) -> bool:
        """Whether so much is missing that live traffic must have used it."""
        return self._left < -_LIVE_DEBT_S * self.limit(now)

    def reserve(self, writes: float) -> None:
        self._taken += writes
        self._reserved += writes

    def release(self, writes: float) -> None:
        self._taken -= writes
        self._reserved = min(self._reserved, self._taken)

    def committed(self, writes: int, took_s: float, code: str | None, now: float) -> None:
        """A commit was answered, with this error code if it failed."""
        self._advance(now)
        # Live traffic may use more than the rate. Bulk work does not have to make up for that.
        self._left = max(self._left - writes, -max(self.limit(now), writes))
        self._reserved = max(self._reserved - writes, 0.0)
        self._speed.add(writes, now)
        self._times.add(took_s, now)
        if code == EXHAUSTED:
            self._slow_down(Held.EXHAUSTED, _EXHAUSTED_MIN, now)
        elif self._times.have_grown:
            self._slow_down(Held.LATENCY, _LATENCY_MIN_SHARE * self.allowed(now), now)

    def _slow_down(self, why: Held, least: float, now: float) -> None:
        if now - self._slowed_at < _EFFECT_S[why]:
            return
        self._slowed_at = now
        self._too_much = self.limit(now)
        self._cap = max(self._too_much * _SLOWER, min(least, self._too_much))
        self._left = min(self._left, 0.0)
        self.why = why

    def _advance(self, now: float) -> None:
        """Let time pass: what is left grows, and a slower rate comes back."""
        passed_s, self._advanced_at = now - self._advanced_at, now
        allowed = self.allowed(now)
        if self._cap >= allowed * SHARE:
            self._cap, self.why = math.inf, Held.RAMP
        elif not self._times.have_grown:
            is_near = _NEAR_FROM <= self._cap / self._too_much < _NEAR_TO
            self._cap *= (_BACK_SLOWLY if is_near else _BACK_FAST) ** passed_s
        # Not more than one group in advance, beside the turns that were taken.
        most = self.group(now) + self._reserved
        self._left = min(self._left + self.limit(now) * passed_s, most)
