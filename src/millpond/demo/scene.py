"""The demo's market: heartbeats, random-walk prices, bars and trade signals, drawn from a seed.

Yields the simulation's facts and messages, with faults drawn as in the simulation. Sends nothing itself. Called by
`millpond demo`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.sim.facts import Fact, PublishedMessage, draw_flaw, draw_time, publish
from millpond.sim.world_parameters import Producers

# More faults than on an ordinary day.
PRODUCERS = Producers(
    publishing_s=15.0,
    late=0.015,
    republished=0.015,
    poison=0.012,
    equal_times=0.0,
    skewed_clock=0.0,
    refused=0.0,
    view_bug=0.0,
)
# Much less than the time between two facts about one document; otherwise most would be out of order.
_PUBLISHED_AFTER_S = 0.005
_MINUTE_US = 60 * timestamps.SECOND_US
# Minutes of bars that exist at the start, so that a chart can be drawn.
_MINUTES_BEFORE = 45
_SERVICES = (
    *("api-gateway", "auth", "billing", "catalog", "checkout", "feed-handler"),
    *("ledger", "notifications", "order-router", "pricing", "risk-engine", "search"),
)
_REGIONS = ("europe-west1", "us-central1", "asia-east1")
_PIPELINES = ("ticks-nasdaq", "ticks-nyse", "fx-quotes", "fundamentals", "news-sentiment")
_SYMBOLS = {"AAPL": 228.0, "AMZN": 205.0, "GOOG": 182.0, "MSFT": 425.0, "NVDA": 141.0, "QQQ": 505.0, "SPY": 590.0}
_STRATEGIES = ("mean-reversion", "momentum", "pairs")
_LIVES = (("NEW", "ACTIVE", "FILLED"), ("NEW", "ACTIVE", "CANCELLED"), ("NEW", "ACTIVE", "PARTIAL", "FILLED"))
_SIGNALS_MAX = 24


class Scene:
    def __init__(self, seed: int, started: int) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._numbers = itertools.count(1)
        # Ids must be new in every run on any store, so they begin with the start time.
        self._ids = (f"demo-{started // timestamps.SECOND_US}-{number}" for number in itertools.count(1))
        self._prices = dict(_SYMBOLS)
        self._bars: dict[str, dict[str, Any]] = {}
        self._services = {name: self._new_service() for name in _SERVICES}
        self._signals: dict[str, list[str]] = {}
        self._signals_made = 0

    def before(self, now: int) -> Iterator[PublishedMessage]:
        """What happened before the demo begins, without faults."""
        for fact in self._before(now):
            yield PublishedMessage(id=next(self._ids), fact=fact, published_at=now)

    def next(self, now: int) -> Iterator[list[PublishedMessage]]:
        """What happens next: each fact's message and its copies. A copy may be published later."""
        for fact in self._next(now):
            at = draw_time(self._dice, PRODUCERS, now, _PUBLISHED_AFTER_S)
            published = msgspec.structs.replace(fact, at=at, flaw=draw_flaw(self._dice, PRODUCERS, fact.topic))
            yield publish(self._dice, PRODUCERS, self._ids, published, now)

    def _before(self, now: int) -> Iterator[Fact]:
        """Every service and pipeline once, and the bars of the last minutes."""
        for service in _SERVICES:
            yield self._heartbeat(service, now)
        for pipeline in _PIPELINES:
            yield self._pipeline(pipeline, now)
        this_minute = now - now % _MINUTE_US
        for at in range(this_minute - _MINUTES_BEFORE * _MINUTE_US, this_minute, _MINUTE_US):
            for symbol in _SYMBOLS:
                for second in range(0, 60, 10):
                    self._walk(symbol, at + second * timestamps.SECOND_US)
                yield self._bar(symbol, at + _MINUTE_US)

    def _next(self, now: int) -> Iterator[Fact]:
        """Mostly ticks, and now and then a bar with one of them."""
        kind = self._dice.choices(("tick", "service", "pipeline", "signal"), (70, 16, 6, 8))[0]
        if kind == "service":
            yield self._heartbeat(self._dice.choice(_SERVICES), now)
        elif kind == "pipeline":
            yield self._pipeline(self._dice.choice(_PIPELINES), now)
        elif kind == "signal":
            yield self._signal(now)
        else:
            symbol = self._dice.choice(tuple(_SYMBOLS))
            yield self._tick(symbol, now)
            if self._dice.random() < 0.25:
                yield self._bar(symbol, now)

    def _fact(self, topic: str, key: str, at: int, content: dict[str, Any], sequence: int | None = None) -> Fact:
        return Fact(
            number=next(self._numbers),
            topic=topic,
            key=key,
            at=at,
            sequence=sequence,
            event_id=None,
            says=(),
            flaw=None,
            content=content,
        )

    def _new_service(self) -> dict[str, Any]:
        version = f"2.{self._dice.randrange(4, 9)}.{self._dice.randrange(0, 20)}"
        return {"status": "healthy", "version": version, "region": self._dice.choice(_REGIONS)}

    def _heartbeat(self, service: str, now: int) -> Fact:
        state = self._services[service]
        chance = self._dice.random()
        if state["status"] == "healthy":
            state["status"] = "degraded" if chance < 0.04 else "down" if chance < 0.05 else "healthy"
        elif chance < 0.3:
            state["status"] = "healthy"
        return self._fact("services", service, now, dict(state))

    def _pipeline(self, pipeline: str, now: int) -> Fact:
        lag_s = round(self._dice.expovariate(1 / 2.0), 1)
        content = {
            "status": "running" if lag_s < 8 else "lagging",
            "tenant_id": "demo",
            "lagSeconds": lag_s,
            "rowsPerSecond": self._dice.randrange(200, 9_000),
        }
        return self._fact("pipelines", pipeline, now, content)

    def _walk(self, symbol: str, now: int) -> float:
        """The next price, and the bar of its minute with it."""
        price = self._prices[symbol] * (1 + self._dice.gauss(0, 0.0004))
        self._prices[symbol] = price = round(price, 2)
        size = self._dice.randrange(1, 40) * 10
        minute = timestamps.to_text(now - now % _MINUTE_US)
        bar = self._bars.get(symbol)
        if bar is None or bar["ts"] != minute:
            opened = price if bar is None else bar["close"]
            bar = {"timeframe": "1m", "ts": minute, "open": opened, "high": opened, "low": opened, "volume": 0}
            self._bars[symbol] = bar
        bar["close"] = price
        bar["high"], bar["low"] = max(bar["high"], price), min(bar["low"], price)
        bar["volume"] += size
        return price

    def _tick(self, symbol: str, now: int) -> Fact:
        price = self._walk(symbol, now)
        content = {
            "price": price,
            "bid": round(price - 0.01, 2),
            "ask": round(price + 0.01, 2),
            "size": self._dice.randrange(1, 20) * 100,
        }
        return self._fact("ticks", symbol, now, content)

    def _bar(self, symbol: str, now: int) -> Fact:
        """The current state of the bar: each is a revision of the one before."""
        return self._fact("bars", symbol, now, dict(self._bars[symbol]))

    def _signal(self, now: int) -> Fact:
        """The next state of an open signal, or a new one. Later updates name only what they change."""
        living = sorted(self._signals)
        if len(living) >= _SIGNALS_MAX or (living and self._dice.random() < 0.65):
            return self._signal_update(self._dice.choice(living), now)
        self._signals_made += 1
        name = f"sig-{self._signals_made:04d}"
        first, *self._signals[name] = self._dice.choice(_LIVES)
        symbol = self._dice.choice(tuple(_SYMBOLS))
        content = {
            "symbol": symbol,
            "strategyId": self._dice.choice(_STRATEGIES),
            "side": self._dice.choice(("BUY", "SELL")),
            "price": self._prices[symbol],
            "confidence": round(self._dice.uniform(0.5, 0.99), 2),
            "state": first,
        }
        return self._fact("signals", name, now, content, sequence=1)

    def _signal_update(self, name: str, now: int) -> Fact:
        life = self._signals[name]
        sequence = 10 - len(life)
        content = {"state": life.pop(0)}
        if not life:
            del self._signals[name]
        return self._fact("signals", name, now, content, sequence)


def symbols() -> Sequence[str]:
    return tuple(_SYMBOLS)
