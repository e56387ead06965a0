"""Firestore's clock, learnt from the times in its answers. Owned by `Connection`.

Segments of the event log are named by it, and read by it: the clocks of instances may differ by minutes.
"""

from __future__ import annotations

import time
from typing import Any

from millpond.core import timestamps
from millpond.stores.firestore.values import get_time

# How far the estimate may be wrong. Smaller differences of clocks are not corrected.
ERROR_US = 1 * timestamps.SECOND_US


class FirestoreClock:
    def __init__(self) -> None:
        # Firestore's time less ours. None before the first answer.
        self._offset_us: int | None = None

    @property
    def is_known(self) -> bool:
        return self._offset_us is not None

    @property
    def offset_us(self) -> int:
        return self._offset_us or 0

    def now_us(self) -> int:
        return time.time_ns() // 1_000 + self.offset_us

    def learn(self, theirs: Any, sent_ns: int) -> None:
        """Firestore's time was `theirs`, a Timestamp, at some moment between our `sent_ns` and now."""
        self.learn_us(get_time(theirs) // 1_000, sent_ns // 1_000, time.time_ns() // 1_000)

    def learn_us(self, theirs_us: int, sent_us: int, answered_us: int) -> None:
        # 0 is no time: another emulator may leave it out. A slow answer is better than none.
        if theirs_us > 0 and (not self.is_known or 0 <= answered_us - sent_us <= ERROR_US):
            offset = theirs_us - (sent_us + answered_us) // 2
            self._offset_us = offset if abs(offset) > ERROR_US else 0
