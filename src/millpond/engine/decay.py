"""Measures that forget: a rate, and whether commits take longer than they used to. Pure. For `bulk_rate`."""

from __future__ import annotations

import math

_RATE_S = 3.0
# A rate of a shorter time says nothing.
_RATE_S_MIN = 0.5
_RECENT_S = 1.0
# What is usual follows shorter times within seconds and longer ones within minutes: a store that is slow for an
# hour is the usual one in the end, and one that is slow for a minute is not.
_SHORTER_S, _LONGER_S = 2.0, 600.0
# Twice the usual time, and a few milliseconds that are noise.
_GROWN, _NOISE_S = 2.0, 0.02
# One commit alone says little, however long the pause before it.
_WEIGHT_MAX = 0.2
# So many commits say what is usual.
_ENOUGH = 20


class Decaying:
    """Events a second over the last few seconds."""

    def __init__(self, now: float) -> None:
        self._began = self._at = now
        self._value = 0.0

    def add(self, n: int, now: float) -> None:
        self._value = self._decayed(now) + n / _RATE_S
        self._at = now

    def at(self, now: float) -> float:
        # In the first seconds the sum covers less than its time.
        full = 1.0 - math.exp(-max(now - self._began, _RATE_S_MIN) / _RATE_S)
        return self._decayed(now) / full

    def _decayed(self, now: float) -> float:
        return self._value * math.exp(-(now - self._at) / _RATE_S)


class CommitTimes:
    """How long commits took lately, and how long they usually take."""

    def __init__(self) -> None:
        self._recent = self._usual = 0.0
        self._seen = 0
        self._at = 0.0

    def add(self, took_s: float, now: float) -> None:
        passed_s, self._at = now - self._at, now
        self._seen += 1
        if self._seen <= _ENOUGH:
            self._usual += (took_s - self._usual) / self._seen
            self._recent = self._usual
            return
        self._recent += (took_s - self._recent) * _weight(passed_s, _RECENT_S)
        follows_s = _SHORTER_S if self._recent < self._usual else _LONGER_S
        self._usual += (self._recent - self._usual) * _weight(passed_s, follows_s)

    @property
    def have_grown(self) -> bool:
        return self._recent > self._usual * _GROWN + _NOISE_S


def _weight(passed_s: float, follows_s: float) -> float:
    return min(1.0 - math.exp(-passed_s / follows_s), _WEIGHT_MAX)
