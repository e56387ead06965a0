"""A fleet in virtual time: N real engines on one memory store behind a network with latencies. No processor time.

Everything between `Engine.submit` and the store port is the product's own code. Only the network and the store's
service times are made up, and the clock: so a fleet of a hundred instances takes seconds, and a seed repeats it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, cast

import msgspec

from benchmarks.client import percentile
from benchmarks.cloud_messages import Message, fold
from benchmarks.fleet_messages import Load, delivery_of
from benchmarks.fleet_results import FleetRun, Wire
from millpond import settings as settings_module
from millpond.core import timestamps
from millpond.core.errors import Overloaded
from millpond.core.model import Committed, Conflict, LogEntry, Ref, Result, Snapshot, Write
from millpond.core.ports import DeadLetterSink
from millpond.core.route import Router
from millpond.engine.engine import Engine
from millpond.service.rules import engine_rules, route_rules
from millpond.service.views import load_views
from millpond.sim.store import now, unnamed
from millpond.sim.virtual_time import WORLD, VirtualLoop
from millpond.stores.memory import MemoryStore
from millpond.telemetry.metrics import Metrics

T = TypeVar("T")
# The service times of the store: for a call, and for each document in it.
_READ_S, _READ_EACH_S = 0.001, 0.000_01
_COMMIT_S, _COMMIT_EACH_S = 0.004, 0.000_03
# How much one way of the network varies, and the mean of what is added to it now and then.
_SPREAD = 0.1
_TAIL_S = 0.001
_REDELIVERED_S = 0.1
_FIRST_AT_ONCE = 100
_TIME_MAX_S = 600.0


class _Network:
    """The store that the fleet shares, the latencies in front of it, and the counts on the wire."""

    def __init__(self, loop: VirtualLoop, rtt_s: float, seed: int) -> None:
        self.store = MemoryStore(keeps_log=False)
        self.wire = Wire()
        self._loop = loop
        self._rtt_s = rtt_s
        self._dice = random.Random(f"{seed}/network")

    async def call(self, serve: Callable[[], T], service_s: float) -> T:
        answer: asyncio.Future[T] = self._loop.create_future()

        def arrive() -> None:
            result = serve()
            self._loop.call_later(self._way_s(), settle, result, context=WORLD)

        def settle(result: T) -> None:
            if not answer.done():
                answer.set_result(result)

        self._loop.call_later(self._way_s() + service_s, arrive, context=WORLD)
        return await answer

    def _way_s(self) -> float:
        return self._rtt_s / 2 * self._dice.uniform(1 - _SPREAD, 1 + _SPREAD) + self._dice.expovariate(1 / _TAIL_S)


class _Connection:
    """The store port of one instance. As Firestore, it does not say which document was in conflict."""

    commits_in_flight_max = 8
    keeps_log = True

    def __init__(self, network: _Network) -> None:
        self._network = network

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        network = self._network
        network.wire.read_calls += 1
        network.wire.reads += len(refs)
        return await network.call(lambda: now(network.store.read(refs)), _READ_S + _READ_EACH_S * len(refs))

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        del log
        network = self._network
        network.wire.commit_calls += 1

        def serve() -> Committed | Conflict:
            committed = now(network.store.commit(writes))
            if isinstance(committed, Conflict):
                network.wire.refused += 1
            else:
                # And one document of the event log.
                network.wire.writes += len(writes) + 1
            return committed

        committed = await network.call(serve, _COMMIT_S + _COMMIT_EACH_S * len(writes))
        return unnamed(committed, writes) if isinstance(committed, Conflict) else committed


class VirtualFleet:
    def __init__(self, load: Load) -> None:
        self.load = load
        self._loop = VirtualLoop(load.seed, self._fail)  # type: ignore[abstract]
        self._network = _Network(self._loop, load.rtt_s, load.seed)
        self._dice = random.Random(f"{load.seed}/clients")
        self._latencies: list[float] = []
        self._nacked = 0
        self._bugs: list[str] = []
        self._open = 0
        self._settings = settings_module.load(load.settings("virtual"))
        self._engines = [self._engine(number) for number in range(load.instances)]

    def _engine(self, number: int) -> Engine:
        views = load_views(self._settings)
        return Engine(
            store=_Connection(self._network),
            router=Router(views, route_rules(self._settings)),
            dead_letter_sink=cast("DeadLetterSink", None),
            rules=engine_rules(self._settings),
            metrics=Metrics(),
            wall_clock=self._wall_clock,
            jitter=random.Random(f"{self.load.seed}/{number}"),
        )

    def _wall_clock(self) -> int:
        return self.load.began_us + round(self._loop.time() * timestamps.SECOND_US)

    def run(self) -> FleetRun:
        load = self.load
        lead, sent = load.messages()
        self._send_all(load.first(), _FIRST_AT_ONCE, None)
        self._send_all(lead, load.in_flight or _FIRST_AT_ONCE, None)
        before, began = msgspec.structs.replace(self._network.wire), self._loop.time()
        self._latencies.clear()
        self._nacked = 0
        self._send_all(sent, load.in_flight, load.rate)
        seconds = self._loop.time() - began
        ordered = sorted(self._latencies)
        found = FleetRun(
            load=load,
            seconds=seconds,
            acknowledged=len(ordered),
            p50_ms=percentile(ordered, 0.50) * 1_000,
            p99_ms=percentile(ordered, 0.99) * 1_000,
            wire=self._network.wire.since(before),
            nacked=self._nacked,
            faults=self._find_faults([*lead, *sent]),
        )
        self._loop.close()
        return found

    def _send_all(self, messages: Sequence[Message], in_flight: int | None, rate: float | None) -> None:
        self._open = len(messages)
        if rate is not None:
            at = self._loop.time()
            for message in messages:
                at += self._dice.expovariate(rate)
                self._loop.call_at(at, self._send, message, at, lambda: None, context=WORLD)
        else:
            rest: Iterator[Message] = iter(messages)

            def next_one() -> None:
                message = next(rest, None)
                if message is not None:
                    self._send(message, self._loop.time(), next_one)

            for _ in range(in_flight or 1):
                self._loop.call_soon(next_one, context=WORLD)
        self._loop.run_until(lambda: self._open == 0, self._loop.time() + _TIME_MAX_S)

    def _send(self, message: Message, began: float, done: Callable[[], None]) -> None:
        engine = self._engines[self.load.route(message, self._dice)]

        def answered(result: Result) -> None:
            if not result.settled:
                again()
                return
            self._latencies.append(self._loop.time() - began)
            self._open -= 1
            done()

        def again() -> None:
            self._nacked += 1
            self._loop.call_later(_REDELIVERED_S, self._send, message, began, done, context=WORLD)

        try:
            engine.submit(delivery_of(message), answered, wait=True)
        except Overloaded:
            again()

    def _find_faults(self, sent: Sequence[Message]) -> list[str]:
        found = {s.ref.id: s.data for s in now(self._network.store.list_documents("ops_services", 10**9, None))}
        faults = list(self._bugs)
        for name, winner in fold(sent).items():
            document: dict[str, Any] = found.get(name) or {}
            if document.get("source", {}).get("messageId") != winner.message_id:
                faults.append(f"{name} is not the newest event")
        receipts = now(self._network.store.count_documents("ops_dedupe")) - len(self.load.first())
        if receipts != len(sent):
            faults.append(f"{receipts} receipts of {len(sent)} messages")
        return faults

    def _fail(self, error: BaseException | str) -> None:
        """A bug in a callback or a task of an engine: the run cannot be trusted."""
        self._bugs.append(f"{error!r}")
