"""The engine as its callers see it: a queue and a committer on one store, views and rules."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable

from millpond.core.model import Delivery, Ref, Result
from millpond.core.ports import DeadLetterSink, Store
from millpond.core.route import Router
from millpond.engine.committer import Committer, OnFailedTry
from millpond.engine.queue import Queue
from millpond.engine.rules import EngineRules
from millpond.telemetry.metrics import Metrics


class Reservation:
    """Documents whose messages wait while it is held, so that another part of this process may write them."""

    def __init__(self, refs: frozenset[Ref], committer: Committer) -> None:
        self.refs = refs
        self._committer = committer

    def forget(self, refs: Iterable[Ref]) -> None:
        """These were written under the reservation: the engine reads them before it decides on them."""
        self._committer.forget(refs)


class Engine:
    def __init__(
        self,
        *,
        store: Store,
        router: Router,
        dead_letter_sink: DeadLetterSink,
        rules: EngineRules,
        metrics: Metrics,
        wall_clock: Callable[[], int] = lambda: time.time_ns() // 1_000,
        jitter: random.Random | None = None,
        on_failed_try: OnFailedTry = lambda *_: None,
    ) -> None:
        self.router = router
        self.rules = rules
        self.wall_clock = wall_clock
        self._committer = Committer(
            store=store,
            dead_letter_sink=dead_letter_sink,
            rules=rules,
            metrics=metrics,
            wall_clock=wall_clock,
            jitter=jitter or random.Random(),  # noqa: S311 - spreads retries, no secret
            on_failed_try=lambda error, attempt, messages: on_failed_try(error, attempt, messages + self.waiting),
        )
        self._queue = Queue(
            router=router,
            committer=self._committer,
            rules=rules,
            commits_in_flight_max=store.commits_in_flight_max,
            wall_clock=wall_clock,
        )
        self._reserving = asyncio.Lock()
        # Bound once: this is the path of every message.
        self.submit = self._queue.submit
        self.drain = self._queue.drain
        self.forget = self._committer.forget

    @property
    def waiting(self) -> int:
        """Messages that wait for a batch."""
        return self._queue.waiting

    @property
    def waiting_bytes(self) -> int:
        return self._queue.waiting_bytes

    @property
    def in_line(self) -> int:
        """Messages that wait for room."""
        return self._queue.in_line

    @property
    def accepting(self) -> bool:
        return self._queue.accepting

    async def handle(self, delivery: Delivery, *, replay: bool = False, bury: bool = True) -> Result:
        """What became of the delivery, durably. Raises Overloaded, at once, if there is no room."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def done(result: Result) -> None:
            if not future.done():
                future.set_result(result)

        self.submit(delivery, done, replay=replay, bury=bury)
        return await future

    @contextlib.asynccontextmanager
    async def reserve(self, refs: Iterable[Ref]) -> AsyncIterator[Reservation]:
        """Keep the messages of some documents waiting while another part of this process works on these.

        One reservation is held at a time: the next one waits for it.
        """
        async with self._reserving:
            reservation = Reservation(frozenset(refs), self._committer)
            try:
                await self._queue.keep_waiting(reservation.refs)
                yield reservation
            finally:
                self._queue.let_go()
