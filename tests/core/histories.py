"""Histories: messages of every view, crowded on purpose, and the ways they can arrive.

Two keys, a handful of times and sequences: ties, equal timestamps, republished copies, one eventId for different
contents, clocks that run ahead, late events and partial updates are the rule here, not the exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from millpond import DELETE, Event, Latest, Merge, Tally
from millpond.core.model import Delivery, Document
from millpond.core.view import View
from tests.common.pond import Orders, at, delivery

DAY_S = 86_400
PARCEL_LATE_S = 600
# Seconds from NOW. The skew is 300 s, so 301 is believed of a message published at 1, and not at 0.
# -2,000 is late for ticks and parcels, eight days too old for a tally.
_TIMES = st.sampled_from((0, 0, 1, 5, 301, 90_000, -2_000, -8 * DAY_S))
_PUBLISHED = st.sampled_from((0, 1, 2, 3, 400))
# As text "10" is before "9", and "1" a beginning of "10".
_MESSAGE_IDS = ("1", "10", "9", "a", "B", "1.5", "é", "z", "00", "2", "y-1", "x", "w", "v", "u", "t")
_SEQUENCES = st.sampled_from((None, None, 0, 1, 2, 10))
_VALUES = st.integers(1, 3)
_EVENT_IDS = st.sampled_from((None, None, "e1", "e2"))


class Parcels(Latest):
    """A user's view: where each parcel is, until it is gone."""

    topics = ("parcels",)
    collection = "parcels"
    key = "id"
    time = "ts"
    sequence = "seq"
    late_after_s = PARCEL_LATE_S
    ingested_at = True

    def document(self, event: Event) -> Any:
        if event.get("skip"):
            return None
        return DELETE if event.get("gone") else {"where": event.require("where")}


class ParcelScans(Tally):
    """Feeds on the same events as `Parcels` and shares their receipts; counts those a parcel view does not want."""

    topics = ("parcels",)
    collection = "parcel_scans"
    key = "id"
    time = "ts"
    sequence = "seq"

    def fold(self, event: Event, current: Document) -> Document:
        current["scans"] = current.get("scans", 0) + bool(event.payload)
        return current


class Profiles(Merge):
    """A user's merge view, the order of whose updates is told by time first."""

    topics = ("profiles",)
    collection = "profiles"
    key = "who"
    time = "at"
    sequence = "rev"
    retention_days = 3

    def fields(self, event: Event) -> Document:
        return {name: event.payload[name] for name in ("name", "mail", "town") if name in event.payload}


class LastOrders(Latest):
    """Feeds on the same events as the tally `Orders`: what is poison there must not show here."""

    topics = ("orders",)
    collection = "last_orders"
    key = "day"
    time = "ts"

    def document(self, event: Event) -> Document:
        return {"amount": event.require("amount")}


def user_views() -> list[View]:
    return [Parcels(), ParcelScans(), Profiles(), LastOrders(), Orders()]


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _payloads(topic: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Payloads of a topic; a field that draws None is left out."""
    return st.fixed_dictionaries({"topic": st.just(topic), **fields}).map(_without_none)


def _or_none(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


_TIME = _TIMES.map(at)
_MAYBE_TIME = _or_none(_TIME)
_SERVICES = _payloads(
    "system.events",
    service=st.sampled_from(("api", "web")),
    timestamp=_MAYBE_TIME,
    status=_VALUES.map(str),
    seq=_SEQUENCES,
    eventId=_EVENT_IDS,
)
_TICKS = _payloads(
    "market-ticks", symbol=st.sampled_from(("SPY", "spy", "QQQ")), ts=_TIME, price=_VALUES, seq=_SEQUENCES,
    eventId=_EVENT_IDS,
)  # fmt: skip
_BARS = _payloads(
    "market-bars-1m", symbol=st.just("SPY"), ts=st.sampled_from((0, 59, 60)).map(at), producedAt=_MAYBE_TIME,
    close=_VALUES, seq=_SEQUENCES, eventId=_EVENT_IDS,
)  # fmt: skip
_SIGNALS = _payloads(
    "trade-signals", signalId=st.sampled_from(("s1", "s2")), updatedAt=_MAYBE_TIME,
    state=_or_none(_VALUES.map(str)), price=_or_none(_VALUES), confidence=_or_none(_VALUES),
    sequence=_SEQUENCES, eventId=_EVENT_IDS,
)  # fmt: skip
_PROFILES = _payloads(
    "profiles", who=st.sampled_from(("ann", "bob")), at=_MAYBE_TIME, name=_or_none(_VALUES), mail=_or_none(_VALUES),
    town=_or_none(_VALUES), rev=_SEQUENCES, eventId=_EVENT_IDS,
)  # fmt: skip
_ORDERS = _payloads("orders", day=st.sampled_from(("d1", "d2")), amount=_VALUES, ts=_MAYBE_TIME)


@st.composite
def _parcels(draw: st.DrawFn) -> dict[str, Any]:
    """A tally counts the first copy, so copies must agree on the parcel: each has an eventId of its own."""
    parcel = draw(st.sampled_from(("p1", "p2")))
    said: dict[str, Any] = draw(
        st.sampled_from(({"where": "depot"}, {"where": "door"}, {"gone": True}, {"skip": True}))
    )
    named = draw(st.sampled_from((None, f"{parcel}-e")))
    times = {"ts": draw(_MAYBE_TIME), "seq": draw(_SEQUENCES)}
    return _without_none({"topic": "parcels", "id": parcel, **said, **times, "eventId": named})


@st.composite
def _heartbeats(draw: st.DrawFn) -> dict[str, Any]:
    """In an envelope, whose time is the event's."""
    inner = {
        "pipeline_id": draw(st.sampled_from(("in", "out"))),
        "status": str(draw(_VALUES)),
        "seq": draw(_SEQUENCES),
    }
    outer = {"event_type": "ingest.heartbeat", "ts": draw(_MAYBE_TIME), "payload": _without_none(inner)}
    return _without_none({**outer, "eventId": draw(_EVENT_IDS)})


KINDS: Mapping[str, st.SearchStrategy[dict[str, Any]]] = {
    "services": _SERVICES,
    "heartbeats": _heartbeats(),
    "ticks": _TICKS,
    "bars": _BARS,
    "signals": _SIGNALS,
    "profiles": _PROFILES,
    "orders": _ORDERS,
    "parcels": _parcels(),
}


@st.composite
def histories(draw: st.DrawFn, kind: str | None = None) -> list[Delivery]:
    """Different messages: each payload published once or more, each time under another id."""
    # One or two kinds at a time: more would seldom meet in a document.
    kinds = draw(st.lists(st.sampled_from(tuple(KINDS)), min_size=1, max_size=2)) if kind is None else [kind]
    payloads = draw(st.lists(st.one_of([KINDS[name] for name in kinds]), min_size=2, max_size=7))
    sent = payloads + draw(st.lists(st.sampled_from(payloads), max_size=4))
    ids = draw(st.permutations(_MESSAGE_IDS))
    return [delivery(payload, message_id, draw(_PUBLISHED)) for payload, message_id in zip(sent, ids, strict=False)]


class Batch(NamedTuple):
    """Messages that are planned together, and how far the planner's clock is ahead, in seconds."""

    messages: Sequence[Delivery]
    clock_s: int


@st.composite
def arrivals(draw: st.DrawFn, history: Sequence[Delivery]) -> list[Batch]:
    """The history as it may arrive: every message at least once, in any order, in any batches, at any time."""
    again = draw(st.lists(st.sampled_from(history), max_size=5))
    arriving = draw(st.permutations([*history, *again]))
    batches: list[Batch] = []
    while arriving:
        size = draw(st.integers(1, len(arriving)))
        # Instances' clocks differ, and an outage is long. The bound of a tally lies a day away from every event.
        batches.append(Batch(arriving[:size], draw(st.sampled_from((0, 0, 1, 700, 3_600, -60)))))
        arriving = arriving[size:]
    return batches


@st.composite
def histories_with_arrivals(
    draw: st.DrawFn, ways: int = 1, kind: str | None = None
) -> tuple[list[Delivery], list[list[Batch]]]:
    history = draw(histories(kind))
    return history, [draw(arrivals(history)) for _ in range(ways)]
