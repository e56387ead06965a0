"""The health of the store: which calls fail, since when, and whether the service is ready. No I/O.

Fed by every read and commit (`stores/observed.py`) and by probes (`live/readiness.py`); read by `/ready`, the
dashboard's alerts and `/metrics`. Reads and commits are recorded separately: on a full disk every read succeeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from typing import Literal

import msgspec

from millpond.core.errors import StoreError, StoreFileGone

# One failed call is not an outage: the service is not ready only after calls have failed for this long without a
# success in between. `alerts.json` has the same bound.
FAILING_S = 3.0
# If a store answers reads and has no `try_write`, failed commits are forgotten so long after the last one.
SECOND_CHANCE_S = 15.0

Reason = Literal["store_failing", "store_file_gone"]


class Call(StrEnum):
    READ = "read"
    COMMIT = "commit"


class Outage(msgspec.Struct):
    """Failed calls without a success in between. The error is kept as text: an exception would keep its frames."""

    since: float
    last: float
    error: str


class StoreHealth:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._outages: dict[Call, Outage] = {}
        self._answered_at: float | None = None
        # The error text, once the store's file was found to be gone.
        self.gone: str | None = None

    def succeeded(self, call: Call) -> None:
        self._answered_at = self._clock()
        self._outages.pop(call, None)

    def failed(self, call: Call, error: StoreError) -> None:
        text = str(error)
        if isinstance(error, StoreFileGone):
            self.gone = text
        now = self._clock()
        outage = self._outages.setdefault(call, Outage(now, now, text))
        outage.last, outage.error = now, text

    def give_second_chance(self) -> None:
        """Forget failed commits older than SECOND_CHANCE_S; the next commit shows whether the store works."""
        outage = self._outages.get(Call.COMMIT)
        if outage is not None and self._clock() - outage.last >= SECOND_CHANCE_S:
            del self._outages[Call.COMMIT]

    def is_failing(self, call: Call) -> bool:
        """Whether the last call of this kind failed."""
        return call in self._outages

    def answered_within(self, seconds: float) -> bool:
        return self._answered_at is not None and self._clock() - self._answered_at < seconds

    @property
    def failing_s(self) -> float:
        """From the first to the last of the calls that failed in a row; 0 if the last ones succeeded.

        Not up to the present: one call that failed an hour ago, with none after it, is no outage of an hour.
        """
        return max((outage.last - outage.since for outage in self._outages.values()), default=0.0)

    @property
    def error(self) -> str | None:
        """The error text of the last failed call."""
        return max(self._outages.values(), key=lambda outage: outage.last).error if self._outages else None

    @property
    def not_ready(self) -> Reason | None:
        """Why the service is not ready, or None. A store that has never answered is failing at once."""
        if self.gone is not None:
            return "store_file_gone"
        never = self._answered_at is None and bool(self._outages)
        return "store_failing" if never or self.failing_s >= FAILING_S else None
