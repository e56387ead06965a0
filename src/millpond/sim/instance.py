"""One instance of the service, from start to death: the real engine, push endpoint, letters and flow worker.

Only what touches the outside is replaced: the store's connection, the clock, the log's thread, and the source of
tokens and pauses. Created by `fleet.py`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

import msgspec

from millpond import settings as settings_module
from millpond.core import timestamps
from millpond.core.model import Delivery, Ref, Result
from millpond.core.ports import StoreWithCatalog
from millpond.core.route import Router
from millpond.dead_letters.store import StoredLetters
from millpond.engine.engine import Engine
from millpond.flow.service import Flow
from millpond.flow.step import StepFunction
from millpond.ingress.push import PushEndpoint, Respond
from millpond.live.outcomes import Outcomes
from millpond.service.rules import engine_rules, route_rules
from millpond.service.views import load_views
from millpond.settings import Settings
from millpond.sim.store import StoreConnection, Storehouse
from millpond.sim.views import Doors, GateLast, GatePasses
from millpond.sim.virtual_time import Process, VirtualLoop
from millpond.sim.world_parameters import RECEIPT_TTL_DAYS, Swarm
from millpond.telemetry.log import Log
from millpond.telemetry.metrics import Metrics

STEP_TYPE = "SIMULATED"
_HEADERS = [(b"content-type", b"application/json")]
# Called with every answer to a message.
OnAnswer = Callable[[Delivery | None, Result], None]


def settings_of(swarm: Swarm, others: Mapping[str, str] | None = None) -> Settings:
    """Settings of an instance, with `others` instead. STORE is Firestore: events of flow runs come from outside."""
    return settings_module.load(
        {
            "STORE": "firestore",
            "GCP_PROJECT": "sim",
            "ENV": "sim",
            "SYSTEM_EVENTS_TOPIC": "system.events",
            "DEFAULT_REGION": "eu",
            "VIEWS": "millpond.sim.views",
            "CONSUMER_QUEUE_SIZE": str(swarm.queue_size),
            "FIRESTORE_RETRY_MAX_TOTAL_S": str(swarm.retry_total_s),
            "POISON_POLICY": swarm.poison_policy,
            "RECEIPT_TTL_DAYS": str(RECEIPT_TTL_DAYS) if swarm.receipts_expire else "7",
            "RECEIPTS": "tallies" if swarm.receipts_of_tallies_only else "all",
            "VIEW_ERROR_PARK_AFTER_S": "60",
            # Messages that wait for their view to be fixed must not be lost meanwhile.
            "LETTER_TTL_DAYS": "0.01" if swarm.receipts_expire and not swarm.view_bug else "14",
            "FLOW_LEASE_S": str(swarm.flow_lease_s),
            "FLOW_STEPS_AT_ONCE": str(swarm.steps_at_once),
            "EVENT_LOG": "on" if swarm.keeps_log else "off",
            **(others or {}),
        }
    )


class QuietLog(Log):
    """A log without a thread: lines are not written."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def note(self, severity: str, message: str, **fields: Any) -> None:
        """No line is written."""

    def unexpected(self, bug: BaseException) -> None:
        self._loop.call_exception_handler({"message": "unexpected", "exception": bug})


class Instance:
    def __init__(
        self,
        name: str,
        settings: Settings,
        house: Storehouse,
        *,
        dice: random.Random,
        answered: OnAnswer,
        step: StepFunction,
        mended: bool,
    ) -> None:
        self.name = name
        self.process = Process()
        self.context = self.process.context()
        self.store = StoreConnection(house, name)
        self.metrics = Metrics()
        self._loop = house.loop
        self._start = house.start
        self._skew = round(dice.uniform(-1, 1) * house.swarm.clock_skew_s * timestamps.SECOND_US)
        self.stopping = False
        log = QuietLog(house.loop)
        keep = round(settings.letter_ttl_days * timestamps.DAY_US)
        self.letters = StoredLetters(
            self.store,
            keep=keep,
            wall_clock=self.wall_clock,
            part_bytes_max=house.swarm.part_bytes_max,
            new_mark=lambda: f"{dice.getrandbits(64):016x}",
            jitter=dice,
        )
        self._views = load_views(settings)
        if mended:
            self.mend()
        self.engine = Engine(
            store=self.store,
            router=Router(self._views, route_rules(settings)),
            dead_letter_sink=self.letters,
            rules=msgspec.structs.replace(engine_rules(settings), **house.swarm.limits),
            metrics=self.metrics,
            wall_clock=self.wall_clock,
            jitter=dice,
        )
        outcomes = Outcomes(self.wall_clock, log.unexpected)
        outcomes.subscribe(self.metrics.on_outcome)
        outcomes.subscribe(lambda said: answered(said.delivery, said.result))
        self._push = PushEndpoint(self.engine, outcomes)
        self.flow = Flow(
            settings,
            # It has the methods of the port and of the catalog that the service uses.
            cast("StoreWithCatalog", self.store),
            log,
            self.metrics,
            self.wall_clock,
            steps={STEP_TYPE: step},
            owner=name,
            new_token=lambda: f"{name}-{dice.getrandbits(64):016x}",
            jitter=dice,
        )

    def mend(self) -> None:
        """Fix the views' bugs, as if a new version were rolled out without a restart."""
        for view in self._views:
            if isinstance(view, Doors | GateLast | GatePasses):
                view.mended = True

    def wall_clock(self) -> int:
        return self._start + round(self._loop.time() * timestamps.SECOND_US) + self._skew

    def push(self, body: bytes, respond: Respond) -> None:
        """A request has arrived."""
        self._loop.call_soon(self._push.accept, "POST", _HEADERS, body, respond, context=self.context)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run this as part of the instance: it dies with the instance."""
        return self._loop.create_task(work, context=self.context)

    async def replay_letter(self, ref: Ref) -> Result | None:
        return await self.letters.replay(
            ref, lambda delivery, views: self.engine.handle(delivery, replay=True, only=views)
        )

    async def stop(self) -> None:
        """As on SIGTERM: finish or give back work, then end."""
        self.stopping = True
        await asyncio.gather(self.engine.drain(), self.flow.drain())
        self.process.kill()
