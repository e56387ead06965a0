"""Seeded traffic for every built-in view and a tally, and the documents it must end in, without Millpond's help.

Each event carries a mark that no other event has, and is noted as a `Fact`: which field of which document it sets,
and its place in the order. The greatest fact about a field is what the document must say, whatever arrived when.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from typing import Any, NamedTuple

from tests.common.push import push_bytes

_SECOND = 1_000_000
_SPREAD_S = 600
# Millpond's defaults: further ahead counts as publish time, later than that is ignored by the latest ticks.
_SKEW_S = 300
_LATE_S = 900


class Message(NamedTuple):
    message_id: str
    published: int
    topic: str
    data: dict[str, Any]

    def encoded(self) -> bytes:
        """As Pub/Sub pushes it."""
        published = _text(self.published)
        return push_bytes(self.data, message_id=self.message_id, published=published, topic=self.topic)


class Fact(NamedTuple):
    """`value` stands under `field` of the document at `path`, unless a greater fact says otherwise."""

    path: str
    field: tuple[str, ...]
    order: tuple[Any, ...]
    value: Any


class Traffic:
    """`events` events, a third of them published again later, by a producer that did not hear of its success."""

    def __init__(self, seed: int, now: int, events: int) -> None:
        self._random = random.Random(seed)
        self._now = now
        self.messages: list[Message] = []
        self.facts: list[Fact] = []
        # By document of the tally: how many fills, and their quantity.
        self.fills: Counter[str] = Counter()
        self.quantity: Counter[str] = Counter()
        makers = (self._service, self._pipeline, self._tick, self._bar, self._signal, self._fill)
        for number in range(events):
            makers[number % len(makers)](number)

    def deliveries(self) -> list[Message]:
        """At least once each, in no order."""
        copies = [message for message in self.messages for _ in range(self._random.choice((1, 1, 1, 2, 3)))]
        self._random.shuffle(copies)
        return copies

    def expected(self) -> dict[tuple[str, tuple[str, ...]], Any]:
        greatest: dict[tuple[str, tuple[str, ...]], Fact] = {}
        for fact in self.facts:
            known = greatest.get(fact[:2])
            if known is None or fact.order > known.order:
                greatest[fact[:2]] = fact
        return {place: fact.value for place, fact in greatest.items()}

    def _publish(self, topic: str, data: dict[str, Any]) -> list[tuple[str, int]]:
        """Once, or twice; (message id, publish time) of each."""
        published = self._now - self._random.randrange(_SPREAD_S) * _SECOND
        ids = []
        for _ in range(self._random.choice((1, 1, 2))):
            message_id = f"{len(self.messages) + 1:05d}"
            self.messages.append(Message(message_id, published, topic, data))
            ids.append((message_id, published))
            published += self._random.randrange(1, 60) * _SECOND
        return ids

    def _time(self) -> int:
        """Whole seconds, from few: ties are common. Now and then a clock runs ahead, or an event is old."""
        ahead_s = self._random.choice((0, 0, 0, 0, 0, 0, 0, 0, 2 * _SPREAD_S, -4 * _SPREAD_S))
        return self._now - self._random.randrange(0, 2 * _SPREAD_S, 5) * _SECOND + ahead_s * _SECOND

    def _sequence(self) -> int | None:
        return self._random.choice((None, self._random.randrange(5)))

    def _state(self, path: str, fields: dict[tuple[str, ...], Any], order: tuple[Any, ...]) -> None:
        self.facts += [Fact(path, field, order, value) for field, value in fields.items()]

    def _service(self, number: int) -> None:
        name, time = f"s{number % 5}", self._time()
        data = {"service": name, "timestamp": _text(time), "status": f"mark-{number}"}
        for message_id, published in self._publish("system.events", data):
            order = (_clamped(time, published), -1, published, message_id)
            self._state(f"ops_services/test__{name}", {("status",): f"mark-{number}"}, order)

    def _pipeline(self, number: int) -> None:
        name, time, sequence = f"p{number % 3}", self._time(), self._sequence()
        payload: dict[str, Any] = {"pipeline_id": name, "status": f"mark-{number}"}
        if sequence is not None:
            payload["sequence"] = sequence
        data = {"event_type": "ingest.heartbeat", "ts": time / _SECOND, "agent_name": "a", "payload": payload}
        for message_id, published in self._publish("ingest-heartbeat", data):
            order = (_clamped(time, published), -1 if sequence is None else sequence, published, message_id)
            self._state(f"ingest_pipelines/{name}", {("status",): f"mark-{number}"}, order)

    def _tick(self, number: int) -> None:
        symbol, time = f"SYM{number % 4}", self._time()
        data = {"symbol": symbol.lower(), "ts": _text(time), "price": number, "eventId": f"tick-{number}"}
        for message_id, published in self._publish("market-ticks", data):
            order = (_clamped(time, published), -1, published, message_id)
            self._state(f"market_ticks/tick-{number}", {("data", "price"): number}, order)
            if time >= published - _LATE_S * _SECOND:
                self._state(f"market_ticks_latest/{symbol}", {("price",): number}, order)

    def _bar(self, number: int) -> None:
        symbol, revised = f"SYM{number % 2}", self._time()
        minute = self._now // (60 * _SECOND) * 60 * _SECOND - self._random.randrange(3) * 60 * _SECOND
        data = {"symbol": symbol, "ts": _text(minute + 7 * _SECOND), "producedAt": _text(revised), "close": number}
        for message_id, published in self._publish("market-bars-1m", data):
            order = (_clamped(revised, published), -1, published, message_id)
            self._state(f"market_bars_1m/{symbol}__{_text(minute)}", {("close",): number}, order)

    def _signal(self, number: int) -> None:
        name, time, sequence = f"sig{number % 6}", self._time(), self._sequence()
        named = self._random.sample(("state", "symbol", "action", "reason"), self._random.randrange(1, 4))
        data: dict[str, Any] = {"signalId": name, "updatedAt": _text(time)}
        data |= {field: f"{field}-{number}" for field in named}
        if sequence is not None:
            data["sequence"] = sequence
        for message_id, published in self._publish("trade-signals", data):
            rank = -1 if sequence is None else sequence
            order = (rank, _clamped(time, published), published, message_id)
            fields: dict[tuple[str, ...], Any] = {(field,): f"{field}-{number}" for field in named}
            self._state(f"trade_signals/{name}", fields, order)

    def _fill(self, number: int) -> None:
        day = f"d{number % 2}"
        data = {"day": day, "quantity": number + 1, "filledAt": _text(self._time()), "fill": f"mark-{number}"}
        self._publish("fills", data)
        self.fills[f"fills_by_day/{day}"] += 1
        self.quantity[f"fills_by_day/{day}"] += number + 1


def _clamped(time: int, published: int) -> int:
    return published if time > published + _SKEW_S * _SECOND else time


def _text(us: int) -> str:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us)
    return moment.isoformat().removesuffix("+00:00") + "Z"
