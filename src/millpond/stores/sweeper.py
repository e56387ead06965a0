"""Deletes expired documents and log entries once a minute, in small transactions. Started by the server.

Does nothing on a store that expires documents by itself, and deletes nothing after a jump of the wall clock.
"""

from __future__ import annotations

import asyncio

from millpond.core import timestamps
from millpond.core.errors import StoreError
from millpond.core.ports import Catalog
from millpond.stores.clock_agreement import AGREED_S, ClockAgreement
from millpond.telemetry.log import Log

SWEEP_EVERY_S = 60.0


class Sweeper:
    def __init__(self, store: Catalog, clocks: ClockAgreement, log: Log, log_ttl_days: float | None) -> None:
        """`log_ttl_days`: how long entries of the event log are kept; None keeps them."""
        self._store = store
        self._clocks = clocks
        self._log = log
        self._log_ttl_days = log_ttl_days

    async def sweep_for_ever(self) -> None:
        self._clocks.look()
        while not self._store.expires_by_itself:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                await self.sweep()
            except StoreError as error:
                self._log.note("WARNING", f"the sweep of expired documents failed: {error}")
            except Exception as bug:  # noqa: BLE001 - the next sweep must still run
                self._log.unexpected(bug)

    async def sweep(self) -> int:
        """Delete expired documents, unless the wall clock jumped lately: then they may only look expired."""
        now, trusted, jump_s = self._clocks.look()
        if jump_s:
            self._log.note(
                "WARNING",
                f"the wall clock jumped by {jump_s:+,.0f} s (it was set, or the machine slept): nothing that has "
                f"expired is deleted until it has been steady for {AGREED_S / 60:.0f} minutes",
                reason="clock_jumped",
            )
        if not trusted:
            return 0
        days = self._log_ttl_days
        before = None if days is None else now - round(days * timestamps.DAY_US)
        total = 0
        while swept := await self._store.sweep(now, before):
            total += swept
            await asyncio.sleep(0)
        return total
