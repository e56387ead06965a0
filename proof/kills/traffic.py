"""Seeded messages for the servers that are killed, each with its expected effect, computed without Millpond's code.

`Effect` holds the fields that a message sets in a document and the message's place in that document's order, as
docs/ordering.md and the view's page describe it. Some messages are copies, late, ahead of time, or poison.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.common.push import push_bytes

SUBSCRIPTION = "projects/local/subscriptions/kills"
LETTER_PREFIX = "dead_letters/kills__"
# Topics whose events leave a receipt.
WITH_RECEIPTS = frozenset({"system.events", "ingest-heartbeat", "market-bars-1m", "trade-signals"})
_ENV = "dev"
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_SPREAD = 600 * _SECOND
# Millpond's defaults.
_SKEW = 300 * _SECOND
_LATE = 900 * _SECOND
_TICKS_KEPT = 7 * 86_400 * _SECOND
_SIGNAL_FIELDS = ("state", "symbol", "action", "reason", "side", "confidence")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Effect(NamedTuple):
    """What one message says about one document. `merges`: field by field, or the document as a whole."""

    path: str
    # Compares as the stamps do: event time or sequence first, then the other, publish time, message id.
    order: tuple[int, int, int, str]
    stamp: str
    content: dict[str, Any]
    source: dict[str, Any]
    merges: bool = False


class Message(NamedTuple):
    """One message as published. `event` is the same for a message and its republished copies."""

    message_id: str
    topic: str
    event: str
    data: bytes
    body: bytes
    effects: tuple[Effect, ...] = ()
    poison: str | None = None


class _Event(NamedTuple):
    """An event that can be republished: the payload, and the effects of a copy."""

    name: str
    topic: str
    payload: dict[str, Any]
    effects: Callable[[str, int], tuple[Effect, ...]]


class Traffic:
    """An endless stream of messages, the same for the same seed and prefix."""

    def __init__(self, seed: int, prefix: str, now: int) -> None:
        self._random = random.Random(f"{seed} {prefix}")
        self._prefix = prefix
        self._now = now
        self._count = 0
        self._recent: list[_Event] = []
        self._makers = (self._service, self._pipeline, self._tick, self._bar, self._signal)

    def next_message(self) -> Message:
        self._count += 1
        if self._random.random() < 0.03:
            return self._poison()
        if self._recent and self._random.random() < 0.2:
            return self._publish(self._random.choice(self._recent))
        event = self._random.choice(self._makers)(self._count)
        self._recent = [*self._recent[-50:], event]
        return self._publish(event)

    def _publish(self, event: _Event) -> Message:
        published = self._now - self._random.randrange(_SPREAD)
        message_id = f"{self._prefix}-{self._count:06d}"
        data = json.dumps(event.payload).encode()
        body = _push_body(message_id, published, event.topic, data)
        return Message(message_id, event.topic, event.name, data, body, event.effects(message_id, published))

    def _poison(self) -> Message:
        message_id = f"{self._prefix}-{self._count:06d}"
        data, topic, reason = self._random.choice(
            (
                (b"{not json %d" % self._count, "", "invalid_json"),
                (b"[%d]" % self._count, "", "not_an_object"),
                (b'{"nothing": %d}' % self._count, "", "unroutable_payload"),
                (b'{"symbol": [%d]}' % self._count, "market-ticks", "invalid_event"),
                (b'{"service": "a", "timestamp": "2026-01-08T12:00:00"}', "system.events", "invalid_event"),
            )
        )
        body = _push_body(message_id, self._now, topic, data)
        return Message(message_id, topic, f"poison-{self._count}", data, body, poison=reason)

    def _time(self) -> int:
        """One of few times, so that ties are common. Sometimes ahead of the clock, sometimes old."""
        shift = self._random.choice((0,) * 16 + (2 * _SPREAD, -4 * _SPREAD))
        return self._now - self._random.randrange(0, 2 * _SPREAD, 5 * _SECOND) + shift

    def _sequence(self) -> int | None:
        return self._random.choice((None, self._random.randrange(5)))

    def _service(self, number: int) -> _Event:
        name, time, sequence = f"s{number % 20}", self._time(), self._sequence()
        payload: dict[str, Any] = {
            "service": name,
            "timestamp": _text(time),
            "status": f"mark-{number}",
            "region": "eu",
        }
        payload |= {} if sequence is None else {"sequence": sequence}
        at = to_datetime(time)
        content = {
            "serviceId": name,
            "env": _ENV,
            "status": f"mark-{number}",
            "lastHeartbeatAt": at,
            "version": "unknown",
            "region": "eu",
            "updatedAt": at,
        }
        return self._latest(number, "system.events", payload, f"ops_services/{_ENV}__{name}", time, content)

    def _pipeline(self, number: int) -> _Event:
        name, time, sequence = f"p{number % 8}", self._time(), self._sequence()
        payload: dict[str, Any] = {"pipeline_id": name, "status": f"mark-{number}", "ts": time / _SECOND}
        payload |= {} if sequence is None else {"sequence": sequence}
        at = to_datetime(time)
        content = {
            "pipelineId": name,
            "env": _ENV,
            "tenantId": None,
            "status": f"mark-{number}",
            "lastHeartbeatAt": at,
            "updatedAt": at,
            "data": payload,
        }
        return self._latest(number, "ingest-heartbeat", payload, f"ingest_pipelines/{name}", time, content)

    def _bar(self, number: int) -> _Event:
        symbol, revised = f"SYM{number % 10}", self._time()
        minute = self._now // _MINUTE * _MINUTE - self._random.randrange(5) * _MINUTE
        payload = {
            "symbol": symbol,
            "ts": _text(minute + 7 * _SECOND),
            "producedAt": _text(revised),
            "close": number,
        }
        doc_id = f"{symbol}__{_text(minute)}"
        content = {
            "docId": doc_id,
            "eventTime": to_datetime(revised),
            "data": payload,
            "producedAt": to_datetime(revised),
            "symbol": symbol,
            "timeframe": "1m",
            "ts": to_datetime(minute),
            "close": number,
        }
        path = f"market_bars_1m/{doc_id}"
        more = {"revisionAt": to_datetime(revised)}
        return self._latest(number, "market-bars-1m", payload, path, revised, content, more)

    def _latest(
        self,
        number: int,
        topic: str,
        payload: dict[str, Any],
        path: str,
        time: int,
        content: dict[str, Any],
        more: dict[str, Any] | None = None,
    ) -> _Event:
        """An event that one document shows as a whole."""

        def effects(message_id: str, published: int) -> tuple[Effect, ...]:
            order = _order(time, payload.get("sequence"), published, message_id)
            return (_effect(path, order, topic, content, more),)

        return _Event(f"{self._prefix}-e{number}", topic, payload, effects)

    def _tick(self, number: int) -> _Event:
        symbol, time, name = f"SYM{number % 10}", self._time(), f"{self._prefix}-t{number}"
        payload = {"symbol": symbol.lower(), "ts": _text(time), "price": number, "eventId": name}
        at = to_datetime(time)
        latest = {"symbol": symbol, "lastTickAt": at, "price": number}
        kept = {"docId": name, "eventId": name, "data": payload, "symbol": symbol}

        def effects(message_id: str, published: int) -> tuple[Effect, ...]:
            order = _order(time, None, published, message_id)
            # The history shows the time that orders it: publish time if the event's own is too far ahead.
            content = {**kept, "eventTime": to_datetime(order[0]), "expireAt": to_datetime(published + _TICKS_KEPT)}
            history = _effect(f"market_ticks/{name}", order, "market-ticks", content, {"order": "eventTime"})
            if time < published - _LATE:
                return (history,)
            return history, _effect(f"market_ticks_latest/{symbol}", order, "market-ticks", latest)

        return _Event(name, "market-ticks", payload, effects)

    def _signal(self, number: int) -> _Event:
        name, time, sequence = f"sig{number % 30}", self._time(), self._sequence()
        named = self._random.sample(_SIGNAL_FIELDS, self._random.randrange(1, 4))
        payload: dict[str, Any] = {"signalId": name, "updatedAt": _text(time)}
        payload |= {field: f"{field}-{number}" for field in named}
        payload |= {} if sequence is None else {"sequence": sequence}
        content = {**payload, "docId": name, "data": payload, "updatedAt": to_datetime(time)}

        def effects(message_id: str, published: int) -> tuple[Effect, ...]:
            order = _order(time, sequence, published, message_id, sequence_first=True)
            fields = {**content, "eventTime": to_datetime(published)}
            return (_effect(f"trade_signals/{name}", order, "trade-signals", fields, merges=True),)

        return _Event(f"{self._prefix}-e{number}", "trade-signals", payload, effects)


def to_datetime(us: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=us)


def _order(
    time: int, sequence: int | None, published: int, message_id: str, *, sequence_first: bool = False
) -> tuple[int, int, int, str]:
    clamped = published if time > published + _SKEW else time
    rank = 0 if sequence is None else sequence + 1
    return (rank, clamped, published, message_id) if sequence_first else (clamped, rank, published, message_id)


def _effect(
    path: str,
    order: tuple[int, int, int, str],
    topic: str,
    content: dict[str, Any],
    more: dict[str, Any] | None = None,
    *,
    merges: bool = False,
) -> Effect:
    first, second, published, message_id = order
    widths = (20, 17) if merges else (17, 20)
    stamp = f"{first:0{widths[0]}d}.{second:0{widths[1]}d}.{published:017d}.{message_id}"
    source = {"topic": topic, "messageId": message_id, "publishedAt": to_datetime(published), "stamp": stamp}
    return Effect(path, order, stamp, content, {**source, **(more or {})}, merges)


def _push_body(message_id: str, published: int, topic: str, data: bytes) -> bytes:
    names = {"message_id": message_id, "published": _text(published), "topic": topic or None}
    return push_bytes(data, subscription=SUBSCRIPTION, **names)


def _text(us: int) -> str:
    return to_datetime(us).isoformat().removesuffix("+00:00") + "Z"
