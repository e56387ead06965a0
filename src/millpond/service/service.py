"""The running service: store, views, engine, dead letters, flow runs, log, metrics and live data.

The server, embedded ponds, the commands that use a store directly, and the tests build it. It contains no logic of
its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO

from millpond.core import timestamps
from millpond.core.ack import settle_file, settle_pull
from millpond.core.collections import LETTERS
from millpond.core.errors import Overloaded
from millpond.core.model import Delivery, Outcome, Ref, Result
from millpond.core.ports import DeadLetterSink, StoreWithCatalog
from millpond.core.route import Router
from millpond.core.view import View
from millpond.dead_letters.correction import Edit
from millpond.dead_letters.replay import Replays
from millpond.dead_letters.store import StoredLetters
from millpond.engine.cache import TRUSTED_FOR_S
from millpond.engine.engine import Engine
from millpond.engine.pace import Pace, take_turn
from millpond.engine.rules import EngineRules
from millpond.flow.service import Flow
from millpond.gcp.emulators import FIRESTORE_EMULATOR_VARIABLE, find_emulator
from millpond.live.day import Day
from millpond.live.monitor import Monitor
from millpond.live.outcomes import Outcomes
from millpond.live.readiness import StoreReadiness
from millpond.reprocess.jobs import Opening, Rebuilds
from millpond.reprocess.move_ids import Mover
from millpond.reprocess.preview import Preview, ReplayPreview, preview_letters
from millpond.reprocess.rebuild import RebuildRun
from millpond.service.rules import engine_rules, route_rules
from millpond.service.steps import load_configured_steps
from millpond.service.stores import open_dead_letter_sink
from millpond.service.views import load_views
from millpond.settings import FIRESTORE, Settings
from millpond.stores.clock_agreement import ClockAgreement
from millpond.stores.health import StoreHealth
from millpond.stores.observed import ObservedStore
from millpond.stores.operations import BilledStore
from millpond.stores.sweeper import Sweeper
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics


def _is_paced(settings: Settings) -> bool:
    """Whether bulk work ramps up by Google's rule. An embedded store or an emulator takes as much as it can."""
    if settings.bulk_pace != "auto" or settings.store != FIRESTORE:
        return settings.bulk_pace == "on"
    return find_emulator(FIRESTORE_EMULATOR_VARIABLE) is None


class Service:
    def __init__(
        self,
        settings: Settings,
        store: StoreWithCatalog,
        log_output: BinaryIO | logging.Logger,
        wall_clock: Callable[[], int] = lambda: time.time_ns() // 1_000,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        views: Sequence[View] | None = None,
        dead_letter_sink: DeadLetterSink | None = None,
        rules: EngineRules | None = None,
    ) -> None:
        """`views`, `dead_letter_sink` and `rules` replace those of the settings."""
        self.settings = settings
        self.store = store
        self._wall_clock = wall_clock
        self.metrics = Metrics()
        self.log = Log(log_output, env=settings.env, metrics=self.metrics)
        self.outcomes = Outcomes(wall_clock, self.log.unexpected)
        self.outcomes.subscribe(self.metrics.on_outcome)
        self.outcomes.subscribe(self.log.on_outcome)
        self.views = load_views(settings) if views is None else list(views)
        self.metrics.expect_views(view.name for view in self.views)
        health = StoreHealth()
        self.pace = Pace(waiting=self._held_up) if _is_paced(settings) else None
        observed = ObservedStore(store, health, self.pace)
        self._observed = observed
        if self.pace is not None:
            self.outcomes.subscribe(self.pace.settled)
        self._readiness = StoreReadiness(observed, health, self.log, local=settings.store != FIRESTORE)
        keep = round(settings.letter_ttl_days * timestamps.DAY_US)
        self.letters = StoredLetters(observed, keep=keep, wall_clock=wall_clock)
        self._dead_letter_sink = dead_letter_sink or open_dead_letter_sink(settings, self.letters)
        self.engine = Engine(
            store=observed,
            router=Router(self.views, route_rules(settings)),
            dead_letter_sink=self._dead_letter_sink,
            rules=engine_rules(settings) if rules is None else rules,
            metrics=self.metrics,
            wall_clock=wall_clock,
            on_failed_try=self.log.failed_try,
        )
        self.engine.router.topics.check()
        replays = Replays(self.engine, self.letters, self.outcomes, self.pace)
        self.replay_letter = replays.replay_letter
        self.replay_delivery = replays.replay_delivery
        self.rebuilds = Rebuilds(self.rebuild, self.log)
        self.mover = Mover(observed, self.views, self.engine.forget, self.pace)
        steps = load_configured_steps(settings)
        self.flow = Flow(settings, observed, self.log, self.metrics, wall_clock, steps=steps)
        self.sweeper = Sweeper(store, ClockAgreement(wall_clock, monotonic), self.log, settings.event_log_ttl_days)
        self._sweeping: asyncio.Task[None] | None = None
        self._watch_gauges()
        self.day = Day(
            store,
            self.log,
            instance=secrets.token_hex(4) if settings.store == FIRESTORE else "local",
            bounds=self.metrics.message_seconds.bounds,
            wall_clock=wall_clock,
            kept=settings.history,
            operations=store.operations if isinstance(store, BilledStore) else None,
        )
        self.monitor = Monitor(
            metrics=self.metrics,
            store=observed,
            log=self.log,
            outcomes=self.outcomes,
            waiting=lambda: self.engine.waiting,
            health=health,
            readiness=self._readiness,
            day=self.day,
        )

    def _watch_gauges(self) -> None:
        for name, text, value in (
            ("millpond_flow_steps_running", "Steps being worked on.", lambda: self.flow.worker.running),
            ("millpond_waiting_messages", "Messages in the waiting room.", lambda: self.engine.waiting),
            ("millpond_messages_in_line", "Messages waiting for room.", lambda: self.engine.in_line),
        ):
            self.metrics.watch(name, text, value)

    def start(self) -> None:
        """Start the background work, on the running event loop: live data, flow runs, deletion of what has expired.

        `close` ends it. Commands that use a store directly do not need it.
        """
        self._sweeping = asyncio.get_running_loop().create_task(self.sweeper.sweep_for_ever())
        self.monitor.start()
        self.flow.start()
        self.log.note("INFO", "ready", views=[view.name for view in self.views], steps=sorted(self.flow.steps))

    async def handle(self, delivery: Delivery) -> Result:
        """The result of a message that the caller delivers. If there is no room, waits for it as a push does."""
        began = time.perf_counter()
        answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def done(result: Result) -> None:
            if not answered.done():
                answered.set_result(result)
            self.outcomes.publish(delivery, result, settle_pull(result), time.perf_counter() - began)

        try:
            self.engine.submit(delivery, done, wait=True)
        except Overloaded as error:
            done(Result(Outcome.RETRY, error.reason, error=error))
        return await answered

    async def handle_line(self, delivery: Delivery) -> Result:
        """The result of a message that was read from a file. Raises Overloaded if there is no room."""
        async with take_turn(self.pace):
            began = time.perf_counter()
            result = await self.engine.handle(delivery)
            self.outcomes.publish(delivery, result, settle_file(result), time.perf_counter() - began)
        return result

    def _held_up(self) -> int:
        return self.engine.held_up + self.engine.in_line

    def rebuild(self, view_name: str) -> Opening | None:
        """The rebuild of a view, not opened yet; None if no such view is loaded."""
        view = next((view for view in self.views if view.name == view_name), None)
        if view is None:
            return None
        # An embedded store has no other instances. On Firestore they may act on what they read until they give up.
        shared = self.settings.store == FIRESTORE
        settle_s = self.engine.rules.retry_total_max_s + TRUSTED_FOR_S if shared else 0.0
        return RebuildRun.open(self.engine, self._observed, view, others_settle_s=settle_s, pace=self.pace)

    async def preview_replay(self, letter_ids: Sequence[str]) -> ReplayPreview:
        """The results that replaying these letters in this order would have. Nothing is written."""
        rules = self.engine.rules
        in_full = rules.view_errors_in_full
        preview = Preview(self.store, self.engine.router, rules.receipts, view_errors_in_full=in_full)
        shown = await preview_letters(preview, self.letters, letter_ids, self._wall_clock())
        return ReplayPreview(shown, preview.changes())

    async def edit_letter(self, letter_id: str, edit: Edit) -> bool:
        """Correct a letter's payload; False if there is no such letter. Raises EditRefused and InvalidEvent."""
        found = await self.letters.edit(Ref(LETTERS, letter_id), edit)
        if found:
            text = "a dead letter was edited" if edit.data is not None else "a dead letter's original was put back"
            self.log.note("NOTICE", text, letter=letter_id, by=edit.by.strip())
        return found

    async def not_ready(self) -> str | None:
        """Why the service is not ready for messages, or None."""
        return await self._readiness.not_ready() if self.engine.accepting else "shutting_down"

    async def drain(self) -> None:
        """Accept no more messages; finish those accepted, or answer them RETRY."""
        await self.rebuilds.drop()
        await asyncio.gather(self.engine.drain(), self.flow.drain())

    async def close(self) -> None:
        """Drain, end the background work, and close the store. Each part is closed even if another one fails."""
        async with contextlib.AsyncExitStack() as last:
            last.callback(self.log.close)
            last.push_async_callback(self.store.close)
            last.push_async_callback(self._dead_letter_sink.close)
            last.push_async_callback(self.flow.close)
            last.push_async_callback(self.monitor.close)
            last.callback(self.outcomes.flush)
            last.push_async_callback(self._stop_sweeping)
            await self.drain()

    async def _stop_sweeping(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
