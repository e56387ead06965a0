"""Runs the live data of one service, from start to stop: samples, counts, evaluates alerts, sends to open pages.

`service` owns it; `http` opens pages and tails. Every frame is computed and encoded once for all pages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from millpond.alerts.evaluate import AlertState
from millpond.core import timestamps
from millpond.core.ports import Catalog
from millpond.live.alerting import Alerting
from millpond.live.changes import Changes
from millpond.live.day import SAVE_EVERY_S, Day
from millpond.live.document_counts import DocumentCounts
from millpond.live.history import STEP_S, History, shown_step
from millpond.live.mailbox import Mailbox, frame
from millpond.live.outcomes import Outcomes
from millpond.live.readiness import LOOK_EVERY_S, StoreReadiness
from millpond.live.sparklines import PriceHistory
from millpond.live.tails import Tail, Tails, Wanted
from millpond.stores.health import StoreHealth
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics

CHANGED_EVERY_S = 1.0
TOTALS_LOOKED_AT_EVERY_S = 1.0

# Evaluates the alerts on the history.
Alerts = Callable[[History], Sequence[AlertState]]


class Monitor:
    def __init__(
        self,
        *,
        metrics: Metrics,
        store: Catalog,
        log: Log,
        outcomes: Outcomes,
        waiting: Callable[[], int],
        health: StoreHealth | None = None,
        readiness: StoreReadiness | None = None,
        alerts: Alerts | None = None,
        day: Day | None = None,
    ) -> None:
        health = StoreHealth() if health is None else health
        self.history = History(metrics, waiting, lambda: health.failing_s)
        self._readiness = readiness
        self._day = day
        self.sparklines = PriceHistory()
        self.changes = Changes()
        self.tails = Tails()
        self.totals = DocumentCounts(store, log, self._set_letters)
        self.started_at = timestamps.to_text(time.time_ns() // 1_000)
        self._log = log
        self._outcomes = outcomes
        self._evaluate = alerts or Alerting()
        self._alerts: Sequence[AlertState] = []
        self._pages: list[Mailbox] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._asking: set[asyncio.Task[None]] = set()
        self._stopped = False
        metrics.watch("millpond_letters", "Letters lying in the store.", lambda: self.history.letters)
        metrics.watch(
            "millpond_store_failing_seconds",
            "For how long every read, or every commit, of the store has failed; 0 while they succeed.",
            lambda: health.failing_s,
        )

    def _set_letters(self, letters: int) -> None:
        self.history.letters = letters

    # --- from start to stop ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the periodic tasks; must be called on the event loop."""
        loop = asyncio.get_running_loop()
        self._alerts = self._evaluate(self.history)
        self._tasks = [
            loop.create_task(self._every(STEP_S, self._sample)),
            loop.create_task(self._every(CHANGED_EVERY_S, self._tell_changes)),
            loop.create_task(self._every(TOTALS_LOOKED_AT_EVERY_S, self._tell_totals)),
        ]
        if self._readiness is not None:
            self._tasks.append(loop.create_task(self._every(LOOK_EVERY_S, self._readiness.look)))
        if self._day is not None:
            self._tasks.append(loop.create_task(self._every(SAVE_EVERY_S, self._day.save)))
        self._choose_subscribers()

    def stop(self) -> None:
        """End every stream at once. Sampling goes on until `close`: metrics can still be read."""
        self._stopped = True
        for mailbox in self._pages:
            mailbox.end()
        self.tails.end()

    async def close(self) -> None:
        self.stop()
        tasks = [*self._tasks, *self._asking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._readiness is not None:
            await self._readiness.close()
        if self._day is not None:
            await self._day.close()

    async def _every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        """Call `act` every `seconds`, without drift. After a long pause, missed calls are skipped."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        while True:
            await asyncio.sleep(due - loop.time())
            try:
                await act()
            except Exception as bug:  # noqa: BLE001 - the next call must still come
                self._log.unexpected(bug)
            due = max(due + seconds, loop.time())

    # --- pages and tails ------------------------------------------------------------------------------------------

    def open_page(self) -> Mailbox:
        """A mailbox that gets every frame from now on."""
        if not self._pages:
            # Changes from before the first page opened are of no use to it.
            self.changes.take()
        mailbox = Mailbox()
        self._pages.append(mailbox)
        self._choose_subscribers()
        if self._stopped:
            mailbox.end()
        else:
            # Not awaited: a store that hangs must delay neither the first frames nor the shutdown.
            task = asyncio.get_running_loop().create_task(self._tell_totals_to(mailbox))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return mailbox

    def close_page(self, mailbox: Mailbox) -> None:
        self._pages.remove(mailbox)
        self._choose_subscribers()

    def open_tail(self, wanted: Wanted) -> Tail:
        tail = self.tails.open(wanted)
        self._choose_subscribers()
        if self._stopped:
            tail.mailbox.end()
        return tail

    def close_tail(self, tail: Tail) -> None:
        self.tails.close(tail)
        self._choose_subscribers()

    def alerts_frame(self) -> bytes:
        return frame("alerts", {"alerts": self._alerts})

    async def _sample(self) -> None:
        step = self.history.sample(time.time())
        if self._day is not None:
            self._day.add(step)
        self._tell(frame("sample", shown_step(step)))
        before, self._alerts = self._alerts, self._evaluate(self.history)
        # A page names the view that fires, so it is told of another one too.
        if _headlines(before) != _headlines(self._alerts):
            self._tell(self.alerts_frame())

    async def _tell_changes(self) -> None:
        changes = self.changes.take()
        if changes is not None:
            self._tell(frame("changed", changes))

    async def _tell_totals(self) -> None:
        if not self.totals.is_due:
            return
        if not self._pages:
            await self.totals.count_letters()
            return
        totals = await self.totals.latest()
        if totals is not None:
            self._tell(frame("totals", totals))

    async def _tell_totals_to(self, mailbox: Mailbox) -> None:
        try:
            totals = await self.totals.latest()
        except Exception as bug:  # noqa: BLE001 - the page gets the totals later
            self._log.unexpected(bug)
            return
        if totals is not None:
            mailbox.put(frame("totals", totals))

    def _tell(self, content: bytes) -> None:
        for mailbox in self._pages:
            if not mailbox.put(content):
                # The reader is too far behind. With a new stream it gets the whole history, without gaps.
                mailbox.end()

    def _choose_subscribers(self) -> None:
        """Subscribe only what an open page or tail needs; sparklines are always subscribed."""
        wanted = [(self.sparklines.on_outcome, True), (self.changes.on_outcome, bool(self._pages))]
        for subscriber, wants in (*wanted, (self.tails.on_outcome, self.tails.any)):
            self._outcomes.unsubscribe(subscriber)
            if wants:
                self._outcomes.subscribe(subscriber)


def _headlines(alerts: Sequence[AlertState]) -> list[tuple[str, str | None, str]]:
    """What a page shows of each: while all is well, no figure of it."""
    return [(alert.state, alert.view, "" if alert.state == "ok" else alert.text) for alert in alerts]
