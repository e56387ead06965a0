"""Messages as a small trading platform would send them: heartbeats, ticks, bars, signals, and what goes wrong.

Everything is of the present, since that is what a dashboard shows, and drawn from a seed.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.common.push import push_body
from tests.common.server import Server

SERVICES = {
    "api-gateway": ("2.14.1", "europe-west1"),
    "billing": ("1.9.0", "europe-west1"),
    "execution": ("4.2.3", "us-east4"),
    "market-data": ("7.0.2", "us-east4"),
    "notifications": ("1.3.8", "europe-west1"),
    "portfolio": ("3.3.0", "europe-west1"),
    "risk-engine": ("5.1.0", "us-east4"),
    "strategy-runner": ("2.0.7", "us-east4"),
}
TROUBLED = {"billing": "degraded", "notifications": "down"}
PIPELINES = ("eod-prices", "news-ingest", "tick-ingest", "trades-export")
PRICES = {"AAPL": 231.4, "BRK.B": 476.2, "GOOG": 188.6, "MSFT": 441.9, "NVDA": 137.3, "QQQ": 519.8, "SPY": 602.1}
STRATEGIES = ("mean-reversion", "momentum-5m", "pairs")
STATES = ("new", "accepted", "working", "filled")


class Message(NamedTuple):
    topic: str | None
    message_id: str
    published: str
    data: Any

    def body(self) -> dict[str, Any]:
        subscription = f"projects/demo/subscriptions/{self.topic or 'inbox'}"
        return push_body(
            self.data,
            message_id=self.message_id,
            published=self.published,
            topic=self.topic,
            subscription=subscription,
        )


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def text_of(at: dt.datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def ago(seconds: float) -> str:
    return text_of(now() - dt.timedelta(seconds=seconds))


def service(name: str, status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"service": name, "status": status, "timestamp": ago(0), **more}


class Platform:
    """Draws messages; the same seed draws the same, but for the time."""

    def __init__(self, seed: int = 1) -> None:
        self._dice = random.Random(seed)
        self._numbers = itertools.count(1)
        self._prices = dict(PRICES)
        self._signals = [0] * 12
        self._sent: list[Message] = []

    def message(self, topic: str | None, data: Any, published: str | None = None) -> Message:
        number = 9_482_016_305_000 + next(self._numbers)
        return Message(topic, str(number), ago(self._dice.random() / 5) if published is None else published, data)

    def board(self) -> Iterator[Message]:
        """A heartbeat of every service and pipeline."""
        for name, (version, region) in SERVICES.items():
            more = {"version": version, "region": region}
            yield self.message("system.events", service(name, TROUBLED.get(name, "ok"), **more))
        for name in PIPELINES:
            status = "lagging" if name == "news-ingest" else "ok"
            beat = {"pipeline_id": name, "status": status, "ts": ago(0), "tenant_id": "working-1"}
            yield self.message("ingest-heartbeat", beat)

    def bars(self, minutes: int = 150) -> Iterator[Message]:
        """The minutes before now of two symbols."""
        start = now().replace(second=0, microsecond=0) - dt.timedelta(minutes=minutes)
        for symbol in ("NVDA", "SPY"):
            price = PRICES[symbol]
            for minute in range(minutes):
                steps = [price]
                for _ in range(5):
                    steps.append(steps[-1] * (1 + self._dice.gauss(0, 0.0005)))
                opened, price = steps[0], steps[-1]
                at = text_of(start + dt.timedelta(minutes=minute))
                rounded = {"open": opened, "high": max(steps), "low": min(steps), "close": price}
                data = {"symbol": symbol, "ts": at, **{name: round(value, 2) for name, value in rounded.items()}}
                yield self.message("market-bars-1m", {**data, "volume": self._dice.randrange(4_000, 60_000)}, at)

    def tick(self) -> Message:
        symbol = self._dice.choice(list(self._prices))
        price = self._prices[symbol] = self._prices[symbol] * (1 + self._dice.gauss(0, 0.0004))
        spread = {"bid": round(price - 0.01, 2), "ask": round(price + 0.01, 2)}
        size = self._dice.randrange(1, 900)
        return self.message(
            "market-ticks", {"symbol": symbol, "ts": ago(0), "price": round(price, 2), **spread, "size": size}
        )

    def signal(self) -> Message:
        number = self._dice.randrange(len(self._signals))
        step = self._signals[number] = min(self._signals[number] + 1, len(STATES))
        symbol = list(PRICES)[number % len(PRICES)]
        known = {
            "signalId": f"sig-{number + 101}",
            "state": STATES[step - 1],
            "sequence": step,
            "updatedAt": ago(0),
        }
        first = {
            "symbol": symbol,
            "side": ("buy", "sell")[number % 2],
            "strategyId": STRATEGIES[number % len(STRATEGIES)],
        }
        more = first if step == 1 else {"confidence": round(self._dice.uniform(0.5, 0.99), 2)}
        return self.message("trade-signals", {**known, **more})

    def poison(self) -> Message:
        return self._dice.choice(
            [
                self.message("market-ticks", {"symbol": ["NVDA"], "price": 187.2, "ts": ago(0)}),
                self.message("trade-signals", {"state": "new", "confidence": 0.8}),
                self.message(None, {"orderRef": "A-771", "qty": 40}),
                self.message("market-bars-1m", {"symbol": "SPY", "open": "n/a", "ts": ago(0)}),
                self.message("ingest-heartbeat", {"status": "ok", "ts": "yesterday"}),
            ]
        )

    def any(self, poison: float = 0.004) -> Message:
        """One message of a usual mix: mostly ticks, some heartbeats, now and then a copy or a late one."""
        draw = self._dice.random()
        if draw < poison:
            return self.poison()
        if draw < 0.10 and self._sent:
            return self._dice.choice(self._sent)
        if draw < 0.16:
            tick = self.tick()
            return tick._replace(data={**tick.data, "ts": ago(40)})
        if draw < 0.18:
            beat = self._dice.choice(list(self.board()))
            return beat._replace(data={**beat.data, "timestamp": ago(90), "ts": ago(90)})
        if draw < 0.22:
            return self.signal()
        message = self._dice.choice(list(self.board())) if draw < 0.34 else self.tick()
        self._sent = [*self._sent[-200:], message]
        return message


def send(server: Server, *messages: Message) -> list[dict[str, Any]]:
    """Push them, one after the other; the answers."""
    answers = []
    for message in messages:
        answer = server.push(message.body())
        assert answer.status == 200, (answer, message)
        answers.append(answer.json)
    return answers


def wave(second: float) -> int:
    """Messages in this second: a load that swells and ebbs."""
    return round(26 + 14 * math.sin(second / 17) + 8 * math.sin(second / 5.3))
