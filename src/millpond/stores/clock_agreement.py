"""Whether the wall clock may be trusted to delete expired documents: it must agree with the monotonic clock.

After a jump ahead of the wall clock every document looks expired. The monotonic clock cannot be set, so if the two
diverge, the wall clock was set. Which of its two times was right is unknown, so it is trusted again only after both
have agreed for AGREED_S. Called by the sweeper.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from millpond.core import timestamps

# Longer than network time takes to correct a clock (systemd-timesyncd polls at least every 34 minutes), and short
# compared with a retention of days.
AGREED_S = 3_600.0
# How far the clocks may diverge in that time. A leap second or a correction by network time is less.
DRIFT_S = 5.0


class ClockReading(NamedTuple):
    """`now` is the wall clock's time, in microseconds; `jump_s` how far it jumped since the last one, else 0."""

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
        # (monotonic time, wall clock minus it), in seconds, of each reading that agrees with all later ones.
        self._looks: deque[tuple[float, float]] = deque()

    def look(self) -> ClockReading:
        """Compare the clocks. A new process does not trust the wall clock until AGREED_S have passed."""
        now, at = self._wall_clock(), self._monotonic()
        ahead = now / timestamps.SECOND_US - at
        jump_s = ahead - self._looks[-1][1] if self._looks else 0.0
        # Compared with every reading of the window, not only the last: many small steps add up to a jump.
        while any(abs(ahead - other) > self._drift_s for _, other in self._looks):
            self._looks.popleft()
        self._looks.append((at, ahead))
        while len(self._looks) > 1 and at - self._looks[1][0] >= self._agreed_s:
            self._looks.popleft()
        trusted = at - self._looks[0][0] >= self._agreed_s
        return ClockReading(now, trusted, jump_s if abs(jump_s) > self._drift_s else 0.0)
