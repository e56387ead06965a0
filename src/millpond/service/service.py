"""One place where the parts become a running service: store, views, engine, letters, log, metrics.

The server, the commands that work on a store directly, and the tests all build it here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from millpond.core import timestamps
from millpond.core.ack import settle_replay
from millpond.core.errors import StoreError, missing_extra
from millpond.core.model import Delivery, Ref, Result
from millpond.core.ports import StoreWithCatalog
from millpond.core.route import Router
from millpond.dead_letters.store import COLLECTION, StoredLetters
from millpond.engine.committer import CACHE_TRUST_S
from millpond.engine.queue import DeadLetterSink, Engine
from millpond.flow.service import Flow
from millpond.live.monitor import Monitor
from millpond.live.readiness import StoreReadiness
from millpond.reprocess.jobs import Opening, Rebuilds
from millpond.reprocess.move_ids import Mover
from millpond.reprocess.preview import Preview, preview_letters
from millpond.reprocess.rebuild import Rebuild
from millpond.settings import FIRESTORE, Settings
from millpond.stores.clock_agreement import AGREED_S, ClockAgreement
from millpond.stores.health import StoreHealth
from millpond.stores.memory import MemoryStore
from millpond.stores.observed import ObservedStore
from millpond.stores.sqlite.store import SqliteStore
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics
from millpond.views import load_views

SWEEP_EVERY_S = 60.0


def open_store(settings: Settings, *, read_only: bool = False) -> StoreWithCatalog:
    if settings.store == FIRESTORE:
        return _open_firestore(settings)
    path = settings.store_path
    if path is None:
        return MemoryStore(keeps_log=settings.event_log)
    return SqliteStore(path, keeps_log=settings.event_log, read_only=read_only)


def _open_firestore(settings: Settings) -> StoreWithCatalog:
    """Imported only here: an embedded store needs none of Google's libraries, nor the second they take to load."""
    try:
        from millpond.stores.firestore.store import FirestoreStore  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise missing_extra("STORE", FIRESTORE, error) from None
    days = settings.event_log_ttl_days
    return FirestoreStore(
        project=settings.gcp_project,
        database=settings.firestore_database,
        prefix=settings.firestore_collection_prefix,
        deadline_s=settings.firestore_rpc_deadline_s,
        keeps_log=settings.event_log,
        log_keep=None if days is None else round(days * timestamps.DAY_US),
    )


def _find_dead_letter_sink(settings: Settings, letters: StoredLetters) -> DeadLetterSink:
    if settings.dlq_topic is None:
        return letters
    try:
        from millpond.dead_letters.pubsub import PublishedLetters  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        raise missing_extra("DLQ_TOPIC", settings.dlq_topic, error) from None
    return PublishedLetters(
        topic=settings.dlq_topic,
        project=settings.gcp_project,
        deadline_s=settings.dlq_publish_deadline_s,
        otherwise=letters,
    )


class Service:
    def __init__(
        self,
        settings: Settings,
        store: StoreWithCatalog,
        log_stream: BinaryIO,
        wall_clock: Callable[[], int] = lambda: time.time_ns() // 1_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.store = store
        self.metrics = Metrics()
        self.log = Log(log_stream, env=settings.env, metrics=self.metrics)
        self.views = load_views(settings)
        self._wall_clock = wall_clock
        self._clocks = ClockAgreement(wall_clock, monotonic)
        keep = round(settings.letter_ttl_days * timestamps.DAY_US)
        health = StoreHealth()
        observed = ObservedStore(store, health)
        self._store_readiness = StoreReadiness(observed, health, self.log, local=settings.store != FIRESTORE)
        self.letters = StoredLetters(observed, keep=keep, wall_clock=wall_clock)
        self._dead_letter_sink = _find_dead_letter_sink(settings, self.letters)
        self.engine = Engine(
            store=observed,
            router=Router(self.views, settings.route_rules()),
            dead_letter_sink=self._dead_letter_sink,
            rules=settings.engine_rules(),
            metrics=self.metrics,
            wall_clock=wall_clock,
            on_failed_try=self.log.failed_try,
        )
        self.engine.router.topics.check()
        self.metrics.expect_views(view.name for view in self.views)
        self.rebuilds = Rebuilds(self.rebuild, self.log)
        self.mover = Mover(store, self.views, self.engine.forget)
        self.flow = Flow(settings, observed, self.log, self.metrics, wall_clock)
        self.metrics.watch(
            "millpond_flow_steps_running", "Steps being worked on.", lambda: self.flow.worker.running
        )
        self.metrics.watch(
            "millpond_waiting_messages", "Messages in the waiting room.", lambda: self.engine.waiting
        )
        self.metrics.watch(
            "millpond_messages_in_line",
            "Messages waiting for room.",
            lambda: len(self.engine.line),
        )
        self.monitor = Monitor(
            metrics=self.metrics,
            store=observed,
            log=self.log,
            waiting=lambda: self.engine.waiting,
            health=health,
            store_readiness=self._store_readiness,
        )

    def rebuild(self, view_name: str) -> Opening | None:
        """The rebuild of a view, to be opened; None where no such view is loaded."""
        view = next((view for view in self.views if view.name == view_name), None)
        if view is None:
            return None
        # An embedded store has no other instances; elsewhere they act on what they read for as long as they try.
        shared = self.settings.store == FIRESTORE
        settle_s = self.engine.rules.retry_total_max_s + CACHE_TRUST_S if shared else 0.0
        return Rebuild.open(self.engine, self.store, view, others_settle_s=settle_s)

    async def preview_replay(self, letter_ids: Sequence[str]) -> dict[str, Any]:
        """What replaying these letters, in this order, would lead to. Nothing is written."""
        preview = Preview(self.store, self.engine.router, self.engine.rules.receipts)
        told = await preview_letters(preview, self.letters, letter_ids, self._wall_clock())
        return {"letters": told, "changes": preview.changes()}

    async def replay_letter(self, letter_id: str) -> Result | None:
        """Send a letter's message through the engine again, as it was; None where there is no such letter."""
        return await self.letters.replay(Ref(COLLECTION, letter_id), self._replay)

    async def replay_delivery(self, delivery: Delivery) -> Result:
        """Send a message again that lies elsewhere, and stays there until this succeeds: nothing is buried."""
        return await self._replay(delivery, bury=False)

    async def _replay(self, delivery: Delivery, *, bury: bool = True) -> Result:
        began = time.perf_counter()
        result = await self.engine.handle(delivery, replay=True, bury=bury)
        latency_s = time.perf_counter() - began
        self.log.message(delivery, result, settle_replay(result), latency_s, self._wall_clock())
        return result

    async def not_ready(self) -> str | None:
        """Why no message should be sent here, or None."""
        return await self._store_readiness.not_ready() if self.engine.accepting else "shutting_down"

    async def sweep_for_ever(self) -> None:
        """Delete what has expired, in small bites, once a minute, if the store does not do it itself."""
        self._clocks.look()
        while not self.store.expires_by_itself:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                await self.sweep()
            except StoreError as error:
                self.log.note("WARNING", f"the sweep of expired documents failed: {error}")
            except Exception as bug:  # noqa: BLE001 - the next sweep must come all the same
                self.log.unexpected(bug)

    async def sweep(self) -> int:
        """Delete what has expired, unless the wall clock was set lately: then everything may only look expired."""
        now, trusted, jump_s = self._clocks.look()
        if jump_s:
            self.log.note(
                "WARNING",
                f"the wall clock jumped by {jump_s:+,.0f} s (it was set, or the machine slept): nothing that has "
                f"expired is deleted until it has been steady for {AGREED_S / 60:.0f} minutes",
                reason="clock_jumped",
            )
        if not trusted:
            return 0
        days = self.settings.event_log_ttl_days
        before = None if days is None else now - round(days * timestamps.DAY_US)
        total = 0
        while swept := await self.store.sweep(now, before):
            total += swept
            await asyncio.sleep(0)
        return total

    async def drain(self) -> None:
        """Take nothing more, and finish what was accepted, or give it back."""
        await self.rebuilds.drop()
        await asyncio.gather(self.engine.drain(), self.flow.drain())

    async def close(self) -> None:
        await self.drain()
        await self.monitor.close()
        await self.flow.close()
        await self._dead_letter_sink.close()
        await self.store.close()
        self.log.close()
