"""Views with one fault each, as users write them, and what the check must say about them."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import random
import secrets
import time
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from millpond import Document, Event, InvalidEvent, Latest, Merge, Tally


class _Orders(Latest):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "at"


class _OrderFields(Merge):
    topics = ("orders",)
    collection = "orders"
    key = "orderId"
    time = "at"


class _OrderTotals(Tally):
    topics = ("orders",)
    collection = "order_totals"
    key = "orderId"
    time = "at"


class ReadsClock(_Orders):
    def document(self, event: Event) -> Document:
        return {"status": event.get("status"), "seenAt": dt.datetime.now(dt.UTC)}


class ReadsClockOfDay(_Orders):
    """The same all day long: only what it reads shows it."""

    def document(self, event: Event) -> Document:
        return {"status": event.get("status"), "isOld": time.strftime("%Y") > "2020"}


class ReadsClockForTime(_Orders):
    def time_of(self, event: Event) -> int | None:  # noqa: ARG002
        return time.time_ns() // 1_000

    def document(self, event: Event) -> Document:
        return {"status": event.get("status")}


class ReadsEnvironment(_Orders):
    def document(self, event: Event) -> Document:
        return {"status": event.get("status"), "region": os.environ.get("REGION", "eu")}


class ReadsFile(_Orders):
    def document(self, event: Event) -> Document:
        with open(__file__, encoding="utf-8") as file:  # noqa: PTH123 - as users write it
            return {"status": event.get("status"), "line": file.readline()}


class ReadsRandomness(_Orders):
    def document(self, event: Event) -> Document:
        return {"status": event.get("status"), "bucket": random.choice(["a", "b"])}


class ReadsSecrets(_OrderFields):
    def fields(self, event: Event) -> Document:
        return {"status": event.get("status"), "token": secrets.token_hex(4)}


class HashesText(_Orders):
    """Equal in one process, and different in the next."""

    def document(self, event: Event) -> Document:
        return {"status": event.get("status"), "shard": hash(event.require("orderId")) % 16}


class RandomGenerator(_Orders):
    """No function of `random` is called: its generator is seeded by the operating system."""

    def document(self, event: Event) -> Document:
        return {"status": event.get("status"), "id": random.Random().getrandbits(40)}


class RandomKey(_Orders):
    def key_of(self, event: Event) -> Sequence[str]:  # noqa: ARG002
        return (str(uuid.uuid4()),)

    def document(self, event: Event) -> Document:
        return {"status": event.get("status")}


class MessageIdKey(_Orders):
    def key_of(self, event: Event) -> Sequence[str]:
        return (event.require("orderId"), event.message_id)

    def document(self, event: Event) -> Document:
        return {"status": event.get("status")}


class PublishTimeKey(_OrderFields):
    def key_of(self, event: Event) -> Sequence[str]:
        return (event.require("orderId"), str(event.publish_time // 10_000_000))

    def fields(self, event: Event) -> Document:
        return {"status": event.get("status")}


class PublishTimeAsTime(_OrderTotals):
    def time_of(self, event: Event) -> int | None:
        return event.publish_time

    def fold(self, event: Event, current: Document) -> Document:  # noqa: ARG002
        return {"orders": current.get("orders", 0) + 1}


class MessageIdTime(_OrderTotals):
    def time_of(self, event: Event) -> int | None:
        return (event.time("at") or 0) + len(event.message_id)

    def fold(self, event: Event, current: Document) -> Document:  # noqa: ARG002
        return {"orders": current.get("orders", 0) + 1}


class ChangesEvent(_Orders):
    def document(self, event: Event) -> Document:
        return {"status": event.payload.pop("status", None), **event.payload}


class ChangesNested(_OrderTotals):
    """The first fold puts the event's own list into the document, and appends to it."""

    def fold(self, event: Event, current: Document) -> Document:
        lines = current.setdefault("lines", event.get("lines", []))
        lines.append(event.get("status"))
        lines.sort()
        return current


class CountsCalls(_Orders):
    def __init__(self) -> None:
        self.calls = 0

    def document(self, event: Event) -> Document:
        self.calls += 1
        return {"status": event.get("status"), "version": self.calls}


class RemembersLast(_Orders):
    """Alone, each event gets the same answer twice: the state is that of the other orders."""

    def __init__(self) -> None:
        self.highest = 0

    def document(self, event: Event) -> Document:
        self.highest = max(self.highest, int(event.get("cents", 0)))
        return {"status": event.get("status"), "highest": self.highest}


class DefaultList(_OrderTotals):
    def fold(self, event: Event, current: Document, seen: list[str] = []) -> Document:  # noqa: ARG002, B006
        seen.append(event.require("status"))
        return {"states": sorted(seen)}


_EMPTY: Document = {"states": []}


class SharedTemplate(_OrderTotals):
    """A list made once, in the module, and changed in place."""

    def fold(self, event: Event, current: Document) -> Document:
        document = {**_EMPTY, **current}
        document["states"].append(event.require("status"))
        document["states"].sort()
        return document


class KeepsDocument(_Orders):
    """Returns the same object each time, to which Millpond adds the source."""

    def __init__(self) -> None:
        self.document_of: dict[str, Document] = {}

    def document(self, event: Event) -> Document:
        return self.document_of.setdefault(event.require("status"), {"status": event.require("status")})


class LastStatus(_OrderTotals):
    def fold(self, event: Event, current: Document) -> Document:
        return {"orders": current.get("orders", 0) + 1, "last": event.get("status")}


class RefusesSecond(_OrderTotals):
    """Which event is poison depends on which came first."""

    def fold(self, event: Event, current: Document) -> Document:
        if current:
            raise InvalidEvent("the order is paid already")
        return {"paid": event.get("status")}


class AddsFloats(_OrderTotals):
    def fold(self, event: Event, current: Document) -> Document:
        return {"sum": current.get("sum", 0.0) + event.get("price")}


class CountsCopies(_OrderTotals):
    def fold(self, event: Event, current: Document) -> Document:
        return {"messages": sorted([*current.get("messages", []), event.message_id])}


class ReturnsSet(_Orders):
    def document(self, event: Event) -> Document:
        return {"tags": set(event.get("lines", []))}


class ReturnsDecimal(_OrderFields):
    def fields(self, event: Event) -> Document:
        return {"price": Decimal(str(event.get("price")))}


class ReturnsNaiveTime(_Orders):
    def document(self, event: Event) -> Document:
        return {"at": dt.datetime.fromisoformat(event.require("at")).replace(tzinfo=None)}


class ReturnsNestedLists(_Orders):
    def document(self, event: Event) -> Document:
        return {"rows": [event.get("lines", []), []]}


class ReturnsBigInteger(_OrderTotals):
    def fold(self, event: Event, current: Document) -> Document:  # noqa: ARG002
        return {"digest": int(hashlib.sha256(str(event.payload).encode()).hexdigest(), 16)}


class ReturnsNumberKeys(_Orders):
    def document(self, event: Event) -> Document:
        return {"byCents": {event.get("cents", 0): event.get("status")}}


class ReturnsTooMuch(_Orders):
    def document(self, event: Event) -> Document:
        return {"text": str(event.get("status")) * 400_000}


class ReturnsList(_Orders):
    def document(self, event: Event) -> Any:
        return [event.get("status")]


class ReturnsDatetime(_Orders):
    def time_of(self, event: Event) -> Any:
        return dt.datetime.fromisoformat(event.require("at"))

    def document(self, event: Event) -> Document:
        return {"status": event.get("status")}


class GrowsTooBig(_OrderTotals):
    """Each fold alone can be stored; two together cannot."""

    def fold(self, event: Event, current: Document) -> Document:
        text = str(event.require("status")) * 150_000
        return {"texts": sorted([*current.get("texts", []), text])}


class RaisesKeyError(_Orders):
    def document(self, event: Event) -> Document:
        return {"coupon": event.payload["coupon"].upper()}


class RaisesInKey(_Orders):
    def key_of(self, event: Event) -> Sequence[str]:
        return (event.payload["lines"][0],)

    def document(self, event: Event) -> Document:
        return {"status": event.get("status")}


class RaisesLater(_OrderTotals):
    """Only the second event of a document meets the list that the first one left."""

    def fold(self, event: Event, current: Document) -> Document:
        return {
            "states": current.get("states", []) + ([event.get("status")] if not current else event.get("status"))
        }


class CoarseTime(_Orders):
    """Its times are days: two updates of one day have one stamp."""

    time = "day"

    def document(self, event: Event) -> Document:
        return {"status": event.get("status")}


class CoarseFields(_OrderFields):
    time = "day"

    def fields(self, event: Event) -> Document:
        return {"status": event.get("status")}


class OneIdentity(_OrderTotals):
    """All updates of an order have the order's id as their eventId, and its day as their time."""

    time = "day"

    def fold(self, event: Event, current: Document) -> Document:
        return {"cents": current.get("cents", 0) + event.get("cents", 0)}


class RefusesEverything(_Orders):
    def document(self, event: Event) -> Document:
        return {"status": event.require("state")}


def _order(number: int, order: str, status: str, **more: Any) -> dict[str, Any]:
    return {
        "orderId": order,
        "at": f"2026-01-08T12:00:0{number}Z",
        "day": "2026-01-08T00:00:00Z",
        "status": status,
        "cents": 10 * number,
        "price": number / 10,
        **more,
    }


ORDERS = [
    _order(1, "o-1", "new", lines=["pen"]),
    _order(2, "o-2", "new", lines=["ink", "pen"]),
    _order(3, "o-1", "paid", lines=["pen"]),
    _order(4, "o-2", "paid", lines=["pad"]),
    _order(5, "o-1", "sent"),
    _order(6, "o-1", "received", lines=[]),
]
WITH_IDS = [{**order, "eventId": order["orderId"]} for order in ORDERS]


class Faulty(NamedTuple):
    view: type[Latest | Merge | Tally]
    cause: str
    # Part of the headline.
    says: str
    events: list[dict[str, Any]] = ORDERS


FAULTY = [
    Faulty(ReadsClock, "reads_clock", "document() reads the clock: datetime.now() at faulty.py:"),
    Faulty(ReadsClockOfDay, "reads_clock", "document() reads the clock: time.strftime() at faulty.py:"),
    Faulty(ReadsClockForTime, "reads_clock", "the time differs between a message and its redelivery"),
    Faulty(ReadsEnvironment, "reads_environment", "document() reads the environment: os.environ at faulty.py:"),
    Faulty(ReadsFile, "reads_environment", "document() reads the environment: open() at faulty.py:"),
    Faulty(ReadsRandomness, "reads_randomness", "document() reads randomness: random at faulty.py:"),
    Faulty(ReadsSecrets, "reads_randomness", "fields() reads randomness: "),
    Faulty(HashesText, "reads_randomness", "document() reads randomness: hash() at faulty.py:"),
    Faulty(RandomGenerator, "gives_two_answers", "document() gives two answers to one event"),
    Faulty(RandomKey, "reads_randomness", "the key differs between a message and its redelivery"),
    Faulty(MessageIdKey, "key_differs", "key_of() differs between a message and its republished copy"),
    Faulty(PublishTimeKey, "key_differs", "key_of() differs between a message and its republished copy"),
    Faulty(
        PublishTimeAsTime, "time_differs", "time_of() differs between a message and its republished copy", WITH_IDS
    ),
    Faulty(MessageIdTime, "time_differs", "time_of() differs between a message and its republished copy"),
    Faulty(ChangesEvent, "changes_event", "document() changes its event"),
    Faulty(ChangesNested, "changes_event", "fold() changes its event"),
    Faulty(CountsCalls, "keeps_state", "document() keeps state between calls: it changes self.calls"),
    Faulty(RemembersLast, "keeps_state", "document() keeps state between calls: it changes self.highest"),
    Faulty(DefaultList, "keeps_state", "it changes a default argument of fold()"),
    Faulty(SharedTemplate, "keeps_state", "it changes _EMPTY"),
    Faulty(KeepsDocument, "keeps_state", "document() returns an object that it keeps"),
    Faulty(LastStatus, "depends_on_order", "fold() depends on the order of events"),
    Faulty(RefusesSecond, "depends_on_order", "fold() depends on the order of events"),
    Faulty(AddsFloats, "rounds_floats", "fold() depends on the order of events: it adds floats"),
    Faulty(CountsCopies, "copy_differs", "fold() differs between a message and its republished copy"),
    Faulty(ReturnsSet, "unstorable", "set is not a type a document can hold"),
    Faulty(ReturnsDecimal, "unstorable", "Decimal is not a type a document can hold"),
    Faulty(ReturnsNaiveTime, "unstorable", "a time has no zone"),
    Faulty(ReturnsNestedLists, "unstorable", "a list stands directly inside a list"),
    Faulty(ReturnsBigInteger, "unstorable", "an integer is over 64 bits"),
    Faulty(ReturnsNumberKeys, "unstorable", "a field name is int, not text"),
    Faulty(ReturnsTooMuch, "unstorable", "over the 1048576 a document may have"),
    Faulty(ReturnsList, "unstorable", "document() returns list, not a dict"),
    Faulty(ReturnsDatetime, "raises", "time_of() returns datetime, not microseconds"),
    Faulty(GrowsTooBig, "unstorable", "fold() returns what no store holds"),
    Faulty(RaisesKeyError, "raises", "document() raises KeyError: 'coupon' at faulty.py:"),
    Faulty(RaisesInKey, "raises", "key_of() raises KeyError: 'lines' at faulty.py:"),
    Faulty(RaisesLater, "raises", "fold() raises TypeError"),
    Faulty(CoarseTime, "one_stamp", "events #1 and #3 have one stamp: the same time, for orders/o-1"),
    Faulty(CoarseFields, "one_stamp", "events #1 and #3 have one stamp: the same time, for orders/o-1"),
    Faulty(OneIdentity, "one_identity", "events #1 and #3 have one identity", WITH_IDS),
    Faulty(
        RefusesEverything,
        "nothing_applied",
        "no event was applied: 6 poison; the first poison is: state is missing",
    ),
]
