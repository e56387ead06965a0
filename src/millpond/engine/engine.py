"""The engine's public API: a queue and a committer for one store, its views and rules.

Called by `ingress`, `service`, `dead_letters` and `reprocess`.
"""

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
from millpond.engine.contention import OtherWriters
from millpond.engine.queue import Queue
from millpond.engine.rules import EngineRules
from millpond.telemetry.metrics import Metrics


class Reservation:
    """Documents whose messages wait while it is held, so that its holder may write them."""

    def __init__(self, refs: frozenset[Ref], committer: Committer) -> None:
        self.refs = refs
        self._committer = committer

    def forget(self, refs: Iterable[Ref]) -> None:
        """These documents were written under the reservation: drop them from the cache."""
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
        jitter = jitter or random.Random()  # noqa: S311 - spreads retries, no secret
        others = OtherWriters()
        self._committer = Committer(
            store=store,
            dead_letter_sink=dead_letter_sink,
            rules=rules,
            metrics=metrics,
            wall_clock=wall_clock,
            jitter=jitter,
            others=others,
            on_failed_try=lambda error, attempt, messages: on_failed_try(error, attempt, messages + self.waiting),
        )
        self._queue = Queue(
            router=router,
            committer=self._committer,
            rules=rules,
            others=others,
            jitter=jitter,
            commits_in_flight_max=store.commits_in_flight_max,
            wall_clock=wall_clock,
        )
        self._reserving = asyncio.Lock()
        # Bound once, because every message calls it.
        self.submit = self._queue.submit
        self.drain = self._queue.drain
        self.forget = self._committer.forget

    @property
    def waiting(self) -> int:
        """Messages that wait for a batch."""
        return self._queue.waiting

    @property
    def held_up(self) -> int:
        """Of them, those that wait for the store, and not for their turn among instances."""
        return self._queue.held_up

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

    async def handle(
        self,
        delivery: Delivery,
        *,
        replay: bool = False,
        bury: bool = True,
        only: frozenset[str] | None = None,
    ) -> Result:
        """The delivery's result, once it is durable or final. Raises Overloaded at once if there is no room."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def done(result: Result) -> None:
            if not future.done():
                future.set_result(result)

        self.submit(delivery, done, replay=replay, bury=bury, only=only)
        return await future

    @contextlib.asynccontextmanager
    async def reserve(self, refs: Iterable[Ref]) -> AsyncIterator[Reservation]:
        """Keep the messages of some documents waiting while the caller writes these documents.

        One reservation is held at a time; the next caller waits.
        """
        async with self._reserving:
            reservation = Reservation(frozenset(refs), self._committer)
            try:
                await self._queue.keep_waiting(reservation.refs)
                yield reservation
            finally:
                self._queue.let_go()
