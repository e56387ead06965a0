"""What happens in the demo's world: services beat, prices walk, bars close, signals live and end. Seeded.

It only tells what happened, in order and each once. What becomes of that on its way is `mishaps`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from millpond.core import timestamps

MINUTE_US = 60 * timestamps.SECOND_US
# Minutes of bars that are there at the start, so that a chart has something to draw.
MINUTES_BEFORE = 45
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


class Happening(NamedTuple):
    """Something that happened, as its producer describes it."""

    topic: str
    payload: dict[str, Any]
    # What it is about: what comes later about the same thing may overtake it.
    about: str


class Scene:
    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._prices = dict(_SYMBOLS)
        self._sequences = dict.fromkeys(_SYMBOLS, 0)
        self._bars: dict[str, dict[str, Any]] = {}
        self._services = {name: self._new_service() for name in _SERVICES}
        self._signals: dict[str, list[str]] = {}
        self._signals_made = 0

    def before(self, now: int) -> Iterator[Happening]:
        """What had happened when the demo begins: every service and pipeline once, and bars of the last while."""
        for service in _SERVICES:
            yield self._heartbeat(service, now)
        for pipeline in _PIPELINES:
            yield self._pipeline(pipeline, now)
        this_minute = now - now % MINUTE_US
        for at in range(this_minute - MINUTES_BEFORE * MINUTE_US, this_minute, MINUTE_US):
            for symbol in _SYMBOLS:
                for second in range(0, 60, 10):
                    self._walk(symbol, at + second * timestamps.SECOND_US)
                yield self._bar(symbol, at + MINUTE_US)

    def next(self, now: int) -> list[Happening]:
        """The next thing that happens: mostly ticks, and now and then a bar with one of them."""
        kind = self._dice.choices(("tick", "service", "pipeline", "signal"), (70, 16, 6, 8))[0]
        if kind == "service":
            return [self._heartbeat(self._dice.choice(_SERVICES), now)]
        if kind == "pipeline":
            return [self._pipeline(self._dice.choice(_PIPELINES), now)]
        if kind == "signal":
            return [self._signal(now)]
        symbol = self._dice.choice(tuple(_SYMBOLS))
        tick = self._tick(symbol, now)
        return [tick, self._bar(symbol, now)] if self._dice.random() < 0.25 else [tick]

    def _new_service(self) -> dict[str, Any]:
        version = f"2.{self._dice.randrange(4, 9)}.{self._dice.randrange(0, 20)}"
        return {"status": "healthy", "version": version, "region": self._dice.choice(_REGIONS)}

    def _heartbeat(self, service: str, now: int) -> Happening:
        state = self._services[service]
        chance = self._dice.random()
        if state["status"] == "healthy":
            state["status"] = "degraded" if chance < 0.04 else "down" if chance < 0.05 else "healthy"
        elif chance < 0.3:
            state["status"] = "healthy"
        payload = {"service": service, **state, "timestamp": timestamps.to_text(now)}
        return Happening("system.events", payload, f"service {service}")

    def _pipeline(self, pipeline: str, now: int) -> Happening:
        lag_s = round(self._dice.expovariate(1 / 2.0), 1)
        payload = {
            "pipeline_id": pipeline,
            "status": "running" if lag_s < 8 else "lagging",
            "tenant_id": "demo",
            "lagSeconds": lag_s,
            "rowsPerSecond": self._dice.randrange(200, 9_000),
            "ts": timestamps.to_text(now),
        }
        return Happening("ingest-heartbeat", payload, f"pipeline {pipeline}")

    def _walk(self, symbol: str, now: int) -> float:
        """The next price, and the bar of its minute with it."""
        price = self._prices[symbol] * (1 + self._dice.gauss(0, 0.0004))
        self._prices[symbol] = price = round(price, 2)
        size = self._dice.randrange(1, 40) * 10
        minute = now - now % MINUTE_US
        bar = self._bars.get(symbol)
        if bar is None or bar["minute"] != minute:
            opened = price if bar is None else bar["close"]
            bar = {"minute": minute, "open": opened, "high": opened, "low": opened, "volume": 0}
            self._bars[symbol] = bar
        bar["close"] = price
        bar["high"], bar["low"] = max(bar["high"], price), min(bar["low"], price)
        bar["volume"] += size
        return price

    def _tick(self, symbol: str, now: int) -> Happening:
        price = self._walk(symbol, now)
        self._sequences[symbol] += 1
        payload = {
            "symbol": symbol,
            "price": price,
            "bid": round(price - 0.01, 2),
            "ask": round(price + 0.01, 2),
            "size": self._dice.randrange(1, 20) * 100,
            "ts": timestamps.to_text(now),
        }
        return Happening("market-ticks", payload, f"tick {symbol}")

    def _bar(self, symbol: str, now: int) -> Happening:
        """The bar as it stands: each is a revision of the one before."""
        bar = self._bars[symbol]
        payload = {
            "symbol": symbol,
            "timeframe": "1m",
            "ts": timestamps.to_text(bar["minute"]),
            **{name: bar[name] for name in ("open", "high", "low", "close", "volume")},
            "producedAt": timestamps.to_text(now),
        }
        return Happening("market-bars-1m", payload, f"bar {symbol} {bar['minute']}")

    def _signal(self, now: int) -> Happening:
        """The next state of a signal that lives, or a new one. Later updates name only what they change."""
        living = sorted(name for name, life in self._signals.items() if life)
        if len(living) >= _SIGNALS_MAX or (living and self._dice.random() < 0.65):
            return self._signal_update(self._dice.choice(living), now)
        self._signals_made += 1
        name = f"sig-{self._signals_made:04d}"
        first, *rest = self._dice.choice(_LIVES)
        self._signals[name] = rest
        symbol = self._dice.choice(tuple(_SYMBOLS))
        payload = {
            "signalId": name,
            "symbol": symbol,
            "strategyId": self._dice.choice(_STRATEGIES),
            "side": self._dice.choice(("BUY", "SELL")),
            "price": self._prices[symbol],
            "confidence": round(self._dice.uniform(0.5, 0.99), 2),
            "state": first,
            "sequence": 1,
            "updatedAt": timestamps.to_text(now),
        }
        return Happening("trade-signals", payload, f"signal {name}")

    def _signal_update(self, name: str, now: int) -> Happening:
        life = self._signals[name]
        sequence = 10 - len(life)
        payload = {
            "signalId": name,
            "state": life.pop(0),
            "sequence": sequence,
            "updatedAt": timestamps.to_text(now),
        }
        if not life:
            del self._signals[name]
        return Happening("trade-signals", payload, f"signal {name}")


def symbols() -> Sequence[str]:
    return tuple(_SYMBOLS)
