"""Whether the wall clock can be trusted with deleting: it must have kept step with the monotonic clock for a while.

What has expired is deleted by the wall clock, and a clock that jumps ahead makes everything look expired. The
monotonic clock cannot be set, so if the two part ways, the wall clock was set. Which of its two times was right is
unknown here: it is trusted again when both have agreed for long enough.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from millpond.core import timestamps

# Longer than network time takes to correct a clock (systemd-timesyncd asks every 34 minutes at the latest), and
# nothing against a retention of days.
AGREED_S = 3_600.0
# How far they may drift apart in that time. A leap second or a correction by the network is less.
DRIFT_S = 5.0


class ClockReading(NamedTuple):
    """`now` is the wall clock's time, in microseconds; `jump_s` how far it was set since the last look, else 0."""

    now: int
    trusted: bool
    jump_s: float


class ClockAgreement:
    def __init__(
        self,
        wall_clock: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
        *,
        agreed_s: float = AGREED_S,
        drift_s: float = DRIFT_S,
    ) -> None:
        self._wall_clock = wall_clock
        self._monotonic = monotonic
        self._agreed_s = agreed_s
        self._drift_s = drift_s
        # (when, by how much the wall clock was ahead) of each look that agrees with all after it, in seconds.
        self._looks: deque[tuple[float, float]] = deque()

    def look(self) -> ClockReading:
        """Compare the clocks. A process that has just begun trusts nothing yet."""
        now, at = self._wall_clock(), self._monotonic()
        ahead = now / timestamps.SECOND_US - at
        jump_s = ahead - self._looks[-1][1] if self._looks else 0.0
        # Against every look of the window, not only the last: many small steps are a jump as well.
        while any(abs(ahead - other) > self._drift_s for _, other in self._looks):
            self._looks.popleft()
        self._looks.append((at, ahead))
        while len(self._looks) > 1 and at - self._looks[1][0] >= self._agreed_s:
            self._looks.popleft()
        trusted = at - self._looks[0][0] >= self._agreed_s
        return ClockReading(now, trusted, jump_s if abs(jump_s) > self._drift_s else 0.0)
