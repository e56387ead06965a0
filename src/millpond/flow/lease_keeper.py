"""Renews the lease of a claimed step while its function runs. Started by `step_work`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from millpond.core.errors import StoreError
from millpond.flow.transitions import Refused

# Fractions of the lease: when it is renewed, and how soon again after a failed renewal.
_RENEW_AFTER = 1 / 3
_RETRY_AFTER = 1 / 20


class LeaseKeeper:
    """Renews a claim until it is cancelled, and knows whether the claim still holds."""

    def __init__(
        self,
        renew: Callable[[], Awaitable[Refused | None]],
        lease_s: float,
        claimed_at: int,
        wall_clock: Callable[[], int],
    ) -> None:
        self._renew = renew
        self._lease_s = lease_s
        self._wall_clock = wall_clock
        self._until = claimed_at + round(lease_s * 1e6)
        self._refusal: Refused | None = None

    @property
    def is_lost(self) -> bool:
        """Also True once the lease is over and was not renewed: another worker may have the step."""
        return self._refusal is not None or self._wall_clock() >= self._until

    async def keep(self) -> str:
        """Returns only when the claim was taken over, with the reason."""
        pause = _RENEW_AFTER
        while True:
            await asyncio.sleep(self._lease_s * pause)
            asked_at = self._wall_clock()
            try:
                self._refusal = await self._renew()
            except StoreError:
                # The store may answer the next time. The finalise checks who has the step.
                pause = _RETRY_AFTER
                continue
            pause = _RENEW_AFTER
            if self._refusal is not None:
                return self._refusal.text
            self._until = asked_at + round(self._lease_s * 1e6)
