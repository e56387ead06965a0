"""Whether the service is ready: probes the store while it fails, and logs changes. For the monitor and `/ready`.

The calls of messages decide (`stores/health.py`). Probes find what messages cannot show: that a store works again
while no message is sent to this instance, and that the store of an idle service is away.
"""

from __future__ import annotations

import asyncio
import contextlib

from millpond.core.collections import PROBE
from millpond.core.errors import StoreError, Unavailable
from millpond.core.ports import StoreWithCatalog
from millpond.stores.health import Call, Reason, StoreHealth
from millpond.telemetry.log import Log
from millpond.telemetry.message_line import ERROR_CHARS_MAX

LOOK_EVERY_S = 1.0
# How long `/ready` waits for a store that does not answer.
PATIENCE_S = 2.0


class StoreReadiness:
    """`store` must record its calls in `health`. `local`: a read is cheap, so every look probes the store."""

    def __init__(self, store: StoreWithCatalog, health: StoreHealth, log: Log, *, local: bool) -> None:
        self._store = store
        self._health = health
        self._log = log
        self._local = local
        self._probing: asyncio.Task[None] | None = None
        self._trying = Call.READ
        self._said: Reason | None = None

    async def look(self) -> None:
        """Probe the store if it is local or failing, and log a change. Called every LOOK_EVERY_S."""
        if self._local or self._health.is_failing(Call.READ) or self._health.is_failing(Call.COMMIT):
            await self._probe()
        self._say()

    async def not_ready(self) -> Reason | None:
        """Why the service is not ready, or None. Probes the store unless it has answered within LOOK_EVERY_S."""
        if not self._health.answered_within(LOOK_EVERY_S):
            await self._probe()
        self._say()
        return self._health.not_ready

    async def _probe(self) -> None:
        """Run one probe at a time for all callers: on a store that hangs, probes would accumulate."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.get_running_loop().create_task(self._try_calls())
        done, _ = await asyncio.wait((self._probing,), timeout=PATIENCE_S)
        if not done:
            error = Unavailable(f"no answer in {PATIENCE_S:g} s", code="DEADLINE_EXCEEDED")
            self._health.failed(self._trying, error)

    async def _try_calls(self) -> None:
        # The health has their outcome.
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
        """Log when the service becomes unready, and when it is ready again."""
        reason, error = self._health.not_ready, self._health.gone or self._health.error
        if reason == self._said:
            return
        if reason == "store_file_gone":
            self._log.note("CRITICAL", error or "", reason=reason)
        elif reason is not None:
            text = (error or "")[:ERROR_CHARS_MAX]
            self._log.note("ERROR", "the store fails every call: not ready", reason=reason, error=text)
        else:
            self._log.note("NOTICE", "the store answers again: ready")
        self._said = reason
