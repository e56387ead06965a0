"""Looks after the store's health: probes it while it fails, says so in the log, and answers whether we are ready.

What messages meet decides (`store_health.py`). Probes are for what messages cannot tell: that a store works again
to which no message is sent any more, and that an idle one is away.
"""

from __future__ import annotations

import asyncio
import contextlib

from millpond.core.collections import PROBE
from millpond.core.errors import StoreError, Unavailable
from millpond.core.ports import StoreWithCatalog
from millpond.stores.health import Call, Reason, StoreHealth
from millpond.telemetry.log import ERROR_CHARS_MAX, Log

LOOK_EVERY_S = 1.0
# How long `/ready` waits for a store that does not answer.
PATIENCE_S = 2.0


class StoreReadiness:
    """`store` must put its calls down in `health`. `local`: a read costs nothing, so it is tried at every look."""

    def __init__(self, store: StoreWithCatalog, health: StoreHealth, log: Log, *, local: bool) -> None:
        self._store = store
        self._health = health
        self._log = log
        self._local = local
        self._probing: asyncio.Task[None] | None = None
        self._trying = Call.READ
        self._said: Reason | None = None

    async def look(self) -> None:
        """Probe if there is anything to learn, and say what has changed. Called every LOOK_EVERY_S."""
        if self._local or self._health.is_failing(Call.READ) or self._health.is_failing(Call.COMMIT):
            await self._probe()
        self._say()

    async def not_ready(self) -> Reason | None:
        """Why no message should be sent here, or None. Asks the store if it has not answered just now."""
        if not self._health.answered_within(LOOK_EVERY_S):
            await self._probe()
        self._say()
        return self._health.not_ready

    async def _probe(self) -> None:
        """One at a time for all callers: on a store that hangs they would pile up."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.get_running_loop().create_task(self._try_calls())
        done, _ = await asyncio.wait((self._probing,), timeout=PATIENCE_S)
        if not done:
            error = Unavailable(f"no answer in {PATIENCE_S:g} s", code="DEADLINE_EXCEEDED")
            self._health.failed(self._trying, error)

    async def _try_calls(self) -> None:
        # What comes of them is in the health.
        with contextlib.suppress(StoreError):
            self._trying = Call.READ
            await self._store.read([PROBE])
            if self._health.is_failing(Call.COMMIT):
                self._trying = Call.COMMIT
                if not await self._store.try_write():
                    self._health.give_second_chance()

    async def close(self) -> None:
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    def _say(self) -> None:
        """A line when the service becomes unready, and one when it is ready again."""
        reason, error = self._health.not_ready, self._health.gone or self._health.error
        if reason == self._said:
            return
        if reason == "store_file_gone":
            self._log.note("CRITICAL", error or "", reason=reason)
        elif reason is not None:
            told = (error or "")[:ERROR_CHARS_MAX]
            self._log.note("ERROR", "the store fails every call: not ready", reason=reason, error=told)
        else:
            self._log.note("NOTICE", "the store answers again: ready")
        self._said = reason
