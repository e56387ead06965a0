"""Views as users write them, with nothing wrong: no check may accuse one, whatever its seed."""

from __future__ import annotations

import functools
import importlib
import logging
import random
import time as clock
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from millpond import (
    DELETE,
    Document,
    Event,
    InvalidEvent,
    Latest,
    Merge,
    Tally,
    View,
    adopted_stamp,
    hash_of,
    representable,
    to_datetime,
)
from millpond import settings as settings_module
from millpond.service.views import built_in_views

# Written without types, as a user does.
Parcels = importlib.import_module("examples.parcels").Parcels
Passages = importlib.import_module("examples.turnstiles").Passages

_log = logging.getLogger(__name__)


class Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key: str | Sequence[str] = "orderId"
    time: str | tuple[str, ...] = "at"

    def document(self, event: Event) -> Document | None:
        return {"orderId": event.require("orderId"), "status": event.get("status")}


class WholePayload(Orders):
    """Returns the event's own dict."""

    def document(self, event: Event) -> Document:
        return event.payload


class Deleting(Orders):
    def document(self, event: Event) -> Any:
        return DELETE if event.get("status") == "sent" else {"status": event.get("status")}


class Wanting(Orders):
    """Events without an order have no document."""

    def wants(self, event: Event) -> bool:
        return bool(event.get("orderId") != "o-2")


class Filtering(Orders):
    def document(self, event: Event) -> Document | None:
        return None if event.get("status") == "new" else {"status": event.get("status")}


class Refusing(Orders):
    def document(self, event: Event) -> Document:
        if event.get("status") == "paid":
            raise InvalidEvent("paid is no longer a state")
        return {"status": event.require("status")}


class Composed(Orders):
    key = ("orderId", "status")

    def document(self, event: Event) -> Document:
        return {"cents": event.get("cents")}


class KeyOf(Orders):
    single_key = True

    def key_of(self, event: Event) -> Sequence[str]:
        return (str(event.require("orderId")).upper(),)


class Sequenced(Orders):
    """Days for times, and a counter that breaks their ties."""

    time = "day"
    sequence = "seq"


class SequenceFirst(Orders):
    sequence = ("version", "seq")
    sequence_first = True


class ByPublishTime(Orders):
    """No time of its own: the order is that of publication."""

    time = ()


class OrPublishTime(Orders):
    """The same as None: events without a time of their own are ordered by publish time."""

    def time_of(self, event: Event) -> int | None:
        return event.time("seen") or event.publish_time


class Late(Orders):
    late_after_s = 2.5


class Retained(Orders):
    retention_days = 1.5
    ingested_at = True


class NoReceipts(Orders):
    receipts = False


class OnePerEvent(Orders):
    one_per_event = True

    def key_of(self, event: Event) -> Sequence[str]:
        return (event.message_id,)


class HashedKey(Orders):
    def key_of(self, event: Event) -> Sequence[str]:
        return (hash_of({"order": event.get("orderId"), "status": event.get("status")}),)


class ByDay(Orders):
    """A collection for each order, below its own."""

    def collection_of(self, event: Event) -> str:
        return f"orders/{event.require('orderId')}/states"

    def key_of(self, event: Event) -> Sequence[str]:
        return (event.require("status"),)


class Nested(Orders):
    def document(self, event: Event) -> Document:
        return {
            "when": {"at": to_datetime(event.time("at") or event.publish_time)},
            "lines": [{"name": name, "first": not at} for at, name in enumerate(event.get("lines", []))],
            "raw": representable([[event.get("cents")]]),
            "bytes": b"\x00",
        }


class Provenance(Orders):
    """Publish time and message id may be in the document: the greatest copy wins whole."""

    def document(self, event: Event) -> Document:
        return {"by": event.message_id, "published": to_datetime(event.publish_time), "topic": event.topic}


class Adopting(Orders):
    def adopt(self, document: Document) -> str | None:
        return adopted_stamp(document, ("at",), max_future_skew=300_000_000)


class Enveloped(Orders):
    """Reads the envelope and the attributes."""

    time = ("envelope.ts", "at")

    def document(self, event: Event) -> Document:
        return {"agent": event.envelope.get("agent_name"), "status": event.text("status"), **event.attributes}


class Shaped(Orders):
    """Found by its fields, as well as by its topic."""

    def matches(self, payload: Mapping[str, Any]) -> bool:
        return "orderId" in payload


class Logging(Orders):
    """The log and a stopwatch read the clock; the document does not."""

    def document(self, event: Event) -> Document:
        began = clock.perf_counter()
        _log.warning("an order: %s", event.get("orderId"))
        self.took_s = clock.perf_counter() - began
        return {"status": event.get("status")}


@functools.lru_cache(maxsize=100)
def _spelt(status: str) -> str:
    return status.capitalize()


class Caching(Orders):
    """Remembers what it computed, and gives the same answers with and without."""

    def __init__(self) -> None:
        self._lengths: dict[str, int] = {}

    def document(self, event: Event) -> Document:
        status = str(event.get("status"))
        length = self._lengths.setdefault(status, len(status))
        return {"status": _spelt(status), "length": length, "labels": _LABELS}


_LABELS = {"kind": "order", "tags": ["a", "b"]}


class SeededDraw(Orders):
    """A draw that is a function of the event: every instance draws the same."""

    def document(self, event: Event) -> Document:
        return {"bucket": random.Random(event.require("orderId")).randrange(10)}


class Zoned(Orders):
    """Converts times that the event gives; reads no clock."""

    def document(self, event: Event) -> Document:
        at = (event.time("at") or 0) // 1_000_000
        return {"year": clock.gmtime(at).tm_year, "text": clock.strftime("%H:%M", clock.gmtime(at))}


class Fields(Merge):
    topics = ("orders",)
    collection = "order_fields"
    key = "orderId"
    time = "at"

    def fields(self, event: Event) -> Document | None:
        return {name: event.payload[name] for name in ("status", "cents", "lines") if name in event.payload}


class DisjointFields(Fields):
    """Two events of one time set different fields."""

    time = "day"

    def fields(self, event: Event) -> Document:
        return {f"was_{event.require('status')}": event.get("cents")}


class RetainedFields(Fields):
    retention_days = 30
    ingested_at = True

    def fields(self, event: Event) -> Document | None:
        return None if event.get("status") == "new" else {"status": event.get("status")}


class Counts(Tally):
    topics = ("orders",)
    collection = "order_counts"
    key = "orderId"
    time: str | tuple[str, ...] = "at"

    def fold(self, event: Event, current: Document) -> Document:
        return {"orders": current.get("orders", 0) + 1, "cents": current.get("cents", 0) + event.get("cents", 0)}


class CountsInPlace(Counts):
    """Changes the document it is given, as it may."""

    def fold(self, event: Event, current: Document) -> Document:
        current["orders"] = current.get("orders", 0) + 1
        lines = current.setdefault("lines", [])
        lines.extend(event.get("lines", []))
        lines.sort()
        return current


class Extremes(Counts):
    def fold(self, event: Event, current: Document) -> Document:
        cents = event.get("cents", 0)
        return {
            "least": min(current.get("least", cents), cents),
            "most": max(current.get("most", cents), cents),
            "last": max(current.get("last", ""), event.require("at")),
        }


class SortedUnion(Counts):
    def fold(self, event: Event, current: Document) -> Document:
        return {"lines": sorted({*current.get("lines", []), *event.get("lines", [])})}


class DecimalText(Counts):
    """Prices as text lose no digits, in any order."""

    def fold(self, event: Event, current: Document) -> Document:
        return {"sum": str(Decimal(current.get("sum", "0")) + Decimal(str(event.get("price", 0))))}


class ByStatus(Counts):
    key = "status"

    def fold(self, event: Event, current: Document) -> Document:
        by_day = current.setdefault("days", {})
        by_day[event.require("day")[:10]] = by_day.get(event.require("day")[:10], 0) + 1
        return current


class ExactFloats(Counts):
    """Halves and quarters add up without rounding."""

    def fold(self, event: Event, current: Document) -> Document:
        return {"half": current.get("half", 0.0) + event.get("cents", 0) / 2}


class CountsSome(Counts):
    def wants(self, event: Event) -> bool:
        return bool(event.get("status") != "new")

    def fold(self, event: Event, current: Document) -> Document:
        if event.get("status") == "sent":
            raise InvalidEvent("sent is not counted")
        return {"orders": current.get("orders", 0) + 1}


class CountsMessages(Counts):
    """No time of its own and no event id: each message counts."""

    time = ()


def _order(number: int, order: str, status: str, **more: Any) -> dict[str, Any]:
    return {
        "orderId": order,
        "at": f"2026-01-08T12:00:0{number}Z",
        "day": "2026-01-08T00:00:00Z",
        "seq": number,
        "status": status,
        "cents": 10 * number,
        "price": f"{number}.10",
        **more,
    }


ORDERS = [
    _order(3, "o-1", "paid", lines=["pen"], version=7),
    _order(1, "o-1", "new", lines=["pen", "pad"]),
    _order(2, "o-2", "new", lines=["ink"], version=2),
    _order(4, "o-2", "paid", eventId="e-4"),
    _order(5, "o-1", "sent", lines=[], version=3, eventId="e-5"),
    _order(5, "o-3", "sent"),
    _order(1, "o-1", "new", lines=["pen", "pad"]),
]
ENVELOPES = [
    {
        "event_type": "order.changed",
        "ts": order["at"],
        "agent_name": f"agent-{at}",
        "payload": {name: value for name, value in order.items() if name != "at"},
    }
    for at, order in enumerate(ORDERS[:6])
]
_TIMES = [f"2026-01-08T12:00:0{second}Z" for second in range(6)]
SCANS = [
    {"parcelId": "P7", "depot": depot, "scannedAt": at} for depot, at in zip(("Oslo", "Lyon"), _TIMES, strict=False)
]
SCANS += [
    {"parcelId": "P7", "status": "delivered", "scannedAt": _TIMES[3]},
    {"parcelId": "P8", "scannedAt": _TIMES[4]},
]
PASSAGES = [{"station": "S1", "day": "2026-01-08", "passedAt": at, "people": 2} for at in _TIMES]
TICKS = [{"symbol": f"K{at % 2}", "ts": time, "price": at + 0.5, "seq": at} for at, time in enumerate(_TIMES)]
TICKS += [{"symbol": "K1", "ts": _TIMES[0], "price": 0.1, "eventId": "t-1"}, {"price": 4, "ts": _TIMES[1]}]
BARS = [{"symbol": "K0", "ts": _TIMES[0], "close": at, "producedAt": time} for at, time in enumerate(_TIMES)]
SERVICES = [{"service": "api", "timestamp": at, "severity": "INFO", "version": at} for at in _TIMES]
BEATS = [{"pipeline_id": "p", "ts": at, "status": at} for at in _TIMES]
SIGNALS: list[dict[str, Any]] = [
    {"signalId": "s", "updatedAt": _TIMES[0], "state": "open"},
    {"signalId": "s", "updatedAt": _TIMES[1], "confidence": 0.3, "sequence": 4},
    {"signalId": "s", "updatedAt": _TIMES[2], "state": "closed", "version": "1.2.0"},
    {"symbol": "K0", "side": "buy", "decisionAt": _TIMES[3]},
    {"symbol": "K0", "side": "sell", "decisionAt": _TIMES[3], "updatedAt": _TIMES[4]},
]
_OF_TOPIC: dict[str, list[dict[str, Any]]] = {
    "system.events": SERVICES,
    "ingest-heartbeat": BEATS,
    "market-ticks": TICKS,
    "market-bars-1m": BARS,
    "trade-signals": SIGNALS,
}


class Healthy(NamedTuple):
    view: View
    events: list[dict[str, Any]]


def _mine() -> list[Healthy]:
    kinds = [kind for kind in list(globals().values()) if isinstance(kind, type) and kind.__module__ == __name__]
    views = [kind() for kind in kinds if issubclass(kind, View)]
    return [Healthy(view, ENVELOPES if isinstance(view, Enveloped) else ORDERS) for view in views]


def _built_in() -> list[Healthy]:
    settings = {"STORE": "memory", "SYSTEM_EVENTS_TOPIC": "system.events"}
    by_event = {"BARS_ID": "event", "SIGNALS_ID": "event"}
    views = [
        *built_in_views(settings_module.load(settings)),
        *built_in_views(settings_module.load(settings | by_event)),
    ]
    found = [Healthy(view, _OF_TOPIC[view.topics[0]]) for view in views]
    return [
        Healthy(view, [{**event, "eventId": f"e{at}"} for at, event in enumerate(events)] if at_event else events)
        for at, (view, events) in enumerate(found)
        for at_event in [at >= len(found) // 2]
    ]


HEALTHY = [*_mine(), Healthy(Parcels(), SCANS), Healthy(Passages(), PASSAGES), *_built_in()]
