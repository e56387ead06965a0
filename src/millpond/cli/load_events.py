"""Events for the load tester: valid, each one unique, spread over a hundred documents of the topic's view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from millpond.cli.messages import encode_push, now_us
from millpond.core import timestamps
from millpond.core.model import Delivery
from millpond.settings import Settings

DOCUMENTS = 100
Payload = dict[str, Any]


def _system_event(number: int, at: str) -> Payload:
    service = f"load-{number % DOCUMENTS:03d}"
    return {"service": service, "status": "ok", "version": "1.0.0", "region": "local", "timestamp": at}


def _heartbeat(number: int, at: str) -> Payload:
    return {"pipeline_id": f"load-{number % DOCUMENTS:03d}", "status": "ok", "ts": at}


def _tick(number: int, at: str) -> Payload:
    price = 100 + number % 500 / 100
    return {"symbol": _symbol(number), "price": price, "bid": price, "ask": price, "size": 1, "timestamp": at}


def _bar(number: int, at: str) -> Payload:
    prices = {"open": 100.0, "high": 101.0, "low": 99.0, "close": 100.5, "volume": number}
    return {"symbol": _symbol(number), "ts": at, "timeframe": "1m", "producedAt": at, **prices}


def _signal(number: int, at: str) -> Payload:
    return {
        "signalId": f"load-{number % DOCUMENTS:03d}",
        "strategyId": "load",
        "symbol": _symbol(number),
        "action": "buy" if number % 2 else "sell",
        "confidence": 0.5,
        "decisionAt": at,
    }


def _symbol(number: int) -> str:
    return f"LOAD{number % DOCUMENTS:03d}"


def makers(settings: Settings) -> dict[str, Callable[[int, str], Payload]]:
    """Topic → how one of its events looks."""
    return {
        settings.system_events_topic: _system_event,
        "ingest-heartbeat": _heartbeat,
        "market-ticks": _tick,
        "market-bars-1m": _bar,
        "trade-signals": _signal,
    }


class Events:
    """The push bodies of one run. `run` keeps two runs against one store apart."""

    def __init__(self, make: Callable[[int, str], Payload], topic: str, subscription: str, run: str) -> None:
        self._make = make
        self._topic = topic
        self._subscription = subscription
        self._run = run

    def body(self, number: int) -> bytes:
        at = now_us()
        message_id = f"load-{self._run}-{number}"
        payload = {**self._make(number, timestamps.to_text(at)), "eventId": message_id}
        return encode_push(
            Delivery(
                message_id=message_id,
                publish_time=at,
                data=msgspec.json.encode(payload),
                attributes={"topic": self._topic},
                subscription=self._subscription,
            )
        )
