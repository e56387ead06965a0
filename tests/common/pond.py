"""A pond in memory: the pure pipeline, one message at a time or in batches, as plain functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from millpond import Event, Tally
from millpond import settings as settings_module
from millpond.core.item import Item
from millpond.core.model import Delivery, Document, Put, Ref, Result, Snapshot
from millpond.core.plan import needs_of, plan
from millpond.core.route import Router
from millpond.core.view import View
from millpond.service.rules import engine_rules, route_rules
from millpond.service.views import load_views

NOW = 1_767_876_000_000_000  # 2026-01-08T12:40:00Z
SECOND = 1_000_000


def delivery(payload: Any, message_id: str = "1", publish_s: float = 0, **more: Any) -> Delivery:
    """A message published `publish_s` seconds after NOW, carrying `payload` as JSON."""
    return Delivery(
        message_id=message_id,
        publish_time=NOW + round(publish_s * SECOND),
        data=json.dumps(payload).encode(),
        attributes=more.get("attributes", {}),
        subscription=more.get("subscription", "projects/p/subscriptions/s"),
        attempt=more.get("attempt"),
    )


def at(seconds: float) -> float:
    """An epoch time, in seconds, relative to NOW."""
    return NOW / SECOND + seconds


def tick(message_id: str, publish_s: float, ts: float, price: float, **more: Any) -> Delivery:
    payload = {"topic": "market-ticks", "symbol": "SPY", "ts": at(ts), "price": price, **more}
    return delivery(payload, message_id, publish_s)


def signal(message_id: str, publish_s: float, **fields: Any) -> Delivery:
    return delivery({"topic": "trade-signals", "signalId": "s1", **fields}, message_id, publish_s)


def service(message_id: str, publish_s: float, status: str, ts: float) -> Delivery:
    return delivery({"service": "api", "timestamp": at(ts), "status": status}, message_id, publish_s)


def order(message_id: str, amount: int, ts: float, publish_s: float = 0) -> Delivery:
    return delivery({"topic": "orders", "day": "d1", "amount": amount, "ts": at(ts)}, message_id, publish_s)


class Orders(Tally):
    """Counts and sums the orders of a day."""

    topics = ("orders",)
    collection = "sales"
    key = "day"
    time = "ts"

    def fold(self, event: Event, current: Document) -> Document:
        return {"count": current.get("count", 0) + 1, "sum": current.get("sum", 0) + event.require("amount")}


def named(views: Iterable[View]) -> list[View]:
    """The views, each with the name that loading it would give it."""
    chosen = list(views)
    for view in chosen:
        view.name = view.name or view.collection
    return chosen


class Pond:
    """Documents in a dict; `versions` grow store-wide, as on every store."""

    def __init__(self, views: Sequence[View] | None = None, **environment: str) -> None:
        self.settings = settings_module.load(environment)
        chosen = load_views(self.settings) if views is None else named(views)
        self.router = Router(chosen, route_rules(self.settings))
        self.receipts = engine_rules(self.settings).receipts
        self.documents: dict[Ref, Snapshot] = {}
        self.now = NOW
        self._version = 0

    def route(self, message: Delivery) -> Item:
        return self.router.route(message, self.now)

    def send(self, *messages: Delivery) -> list[Result]:
        """Fold the messages in as one batch."""
        items = [self.route(message) for message in messages]
        for item in items:
            if item.fault is not None:
                raise item.fault
        refs = {ref for item in items for ref in needs_of(item).all}
        snapshots = {ref: self.documents.get(ref, Snapshot(ref, None, None)) for ref in refs}
        planned = plan(items, snapshots, self.now, self.receipts)
        for write in planned.writes:
            assert isinstance(write, Put)
            assert write.base == snapshots[write.ref].version
            self._version += 1
            self.documents[write.ref] = Snapshot(write.ref, self._version, write.data)
        return planned.results

    def put(self, path: str, document: Document) -> None:
        """A document that another writer wrote."""
        collection, _, key = path.rpartition("/")
        self._version += 1
        ref = Ref(collection, key)
        self.documents[ref] = Snapshot(ref, self._version, document)

    def get(self, path: str) -> Document:
        collection, _, key = path.rpartition("/")
        data = self.documents[Ref(collection, key)].data
        assert data is not None
        return data

    def state(self) -> Mapping[str, Document]:
        """Everything but receipts and our own clock."""
        return {
            ref.path: {k: v for k, v in sorted((found.data or {}).items()) if k != "ingestedAt"}
            for ref, found in sorted(self.documents.items())
            if ref.collection != "ops_dedupe"
        }
