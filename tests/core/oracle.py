"""What the documents must say: sort by the tuple, fold. Written from docs/ordering.md, without the code it judges.

The greatest message wins the document of a latest view, and each field of a merged one; a tally takes each event
once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from millpond.core.model import Delivery, Document
from tests.common.pond import NOW, SECOND
from tests.core.histories import DAY_S, PARCEL_LATE_S

_SKEW_S = 300
_KEPT_S = 7 * DAY_S
_TICK_LATE_S = 900


class Message(NamedTuple):
    """A delivery as the oracle reads it: times in seconds."""

    id: str
    published: float
    topic: str
    payload: dict[str, Any]
    # The payload, with what an envelope says where the payload does not.
    said: dict[str, Any]


class Standing(NamedTuple):
    """What is expected of a document: the message its `source` names, and its fields; who wrote each, if merged."""

    message_id: str | None
    fields: Mapping[str, Any]
    holders: Mapping[str, str]


class _Latest(NamedTuple):
    topic: str
    collection: str
    key: Callable[[Message], str]
    time: str
    # What the document says of the event; None where the view does not want it.
    says: Callable[[Message], dict[str, Any] | None]
    late_s: float | None = None


class _Merge(NamedTuple):
    topic: str
    collection: str
    key: str
    time: str
    sequence: str
    names: Sequence[str]
    sequence_first: bool = False
    always_says_something: bool = False


def _minute(message: Message) -> str:
    minutes = int(message.payload["ts"] - NOW / SECOND) // 60
    return f"SPY__2026-01-08T12:{40 + minutes}:00Z"


def _parcel(message: Message) -> dict[str, Any] | None:
    if "skip" in message.payload:
        return None
    return {"deleted": True} if "gone" in message.payload else {"where": message.payload["where"]}


def _named(*names: str) -> Callable[[Message], dict[str, Any]]:
    return lambda message: {name: message.payload[name] for name in names}


_LATEST = (
    _Latest("system.events", "ops_services", lambda m: f"dev__{m.said['service']}", "timestamp", _named("status")),
    _Latest("ingest-heartbeat", "ingest_pipelines", lambda m: m.said["pipeline_id"], "ts", _named("status")),
    _Latest(
        "market-ticks",
        "market_ticks_latest",
        lambda m: m.said["symbol"].upper(),
        "ts",
        _named("price"),
        _TICK_LATE_S,
    ),
    _Latest(
        "market-ticks", "market_ticks", lambda m: m.said.get("eventId", m.id), "ts", lambda m: {"data": m.payload}
    ),
    _Latest("market-bars-1m", "market_bars_1m", _minute, "producedAt", _named("close")),
    _Latest("orders", "last_orders", lambda m: m.said["day"], "ts", _named("amount")),
    _Latest("parcels", "parcels", lambda m: m.said["id"], "ts", _parcel, PARCEL_LATE_S),
)
_MERGES = (
    _Merge(
        "trade-signals", "trade_signals", "signalId", "updatedAt", "sequence", ("state", "price", "confidence"),
        sequence_first=True, always_says_something=True,
    ),
    _Merge("profiles", "profiles", "who", "at", "rev", ("name", "mail", "town")),
)  # fmt: skip
_TALLIED_TOPICS = {"parcels", "orders"}


def fold(history: Iterable[Delivery]) -> dict[str, Standing]:
    """Every document there must be, by path."""
    messages = [_read(delivery) for delivery in history]
    documents: dict[str, Standing] = {}
    for latest in _LATEST:
        documents |= _fold_latest(latest, [m for m in messages if m.topic == latest.topic])
    for merge in _MERGES:
        documents |= _fold_merge(merge, [m for m in messages if m.topic == merge.topic])
    # A tally that cannot count an event takes no other view of it along.
    return documents | _fold_tallies([message for message in messages if not _too_old_to_count(message)])


def picture(document: Document, expected: Standing) -> Standing:
    """A stored document in the oracle's words."""
    watched = {"where", "deleted", "name", "mail", "town", "state", "price", "confidence", *expected.fields}
    source = document["source"]
    holders = {
        name: group["stamp"].split(".", 3)[3]
        for group in source.get("stamps", [])
        for name in group["fields"]
        if name in watched
    }
    fields = {name: value for name, value in document.items() if name in watched}
    return Standing(source["messageId"] if expected.message_id is not None else None, fields, holders)


def count_events(history: Iterable[Delivery], topic: str) -> int:
    """How many logical events of a topic a tally counts."""
    messages = [m for m in map(_read, history) if m.topic == topic and not _too_old_to_count(m)]
    return len({_identity(message) for message in messages})


def _read(delivery: Delivery) -> Message:
    outer = json.loads(delivery.data or b"")
    payload = outer.get("payload", outer)
    topic = outer.get("topic", "ingest-heartbeat")
    return Message(delivery.message_id, delivery.publish_time / SECOND, topic, payload, {**outer, **payload})


def _rank(message: Message, time: str, sequence: str, *, sequence_first: bool = False) -> tuple[Any, ...]:
    happened = message.said.get(time, message.published)
    if happened > message.published + _SKEW_S:
        happened = message.published
    counter = message.said.get(sequence, -1)
    head = (counter, happened) if sequence_first else (happened, counter)
    return (*head, message.published, message.id)


def _fold_latest(view: _Latest, messages: Iterable[Message]) -> dict[str, Standing]:
    documents: dict[str, Standing] = {}
    for message in sorted(messages, key=lambda m: _rank(m, view.time, "seq")):
        says = view.says(message)
        late = message.said.get(view.time, message.published) < message.published - (view.late_s or float("inf"))
        if says is not None and not late:
            documents[f"{view.collection}/{view.key(message)}"] = Standing(message.id, says, {})
    return documents


def _fold_merge(view: _Merge, messages: Iterable[Message]) -> dict[str, Standing]:
    documents: dict[str, Standing] = {}

    def rank(message: Message) -> tuple[Any, ...]:
        return _rank(message, view.time, view.sequence, sequence_first=view.sequence_first)

    for message in sorted(messages, key=rank):
        says = {name: message.payload[name] for name in view.names if name in message.payload}
        if says or view.always_says_something:
            path = f"{view.collection}/{message.payload[view.key]}"
            before = documents.get(path, Standing(None, {}, {}))
            holders = {**before.holders, **dict.fromkeys(says, message.id)}
            documents[path] = Standing(message.id, {**before.fields, **says}, holders)
    return documents


def _fold_tallies(messages: Iterable[Message]) -> dict[str, Standing]:
    counted = {(m.topic, _identity(m)): m for m in messages if m.topic in _TALLIED_TOPICS}
    documents: dict[str, Standing] = {}
    for message in counted.values():
        said = message.payload
        if message.topic == "orders":
            path, adds = f"sales/{said['day']}", {"count": 1, "sum": said["amount"]}
        else:
            path, adds = f"parcel_scans/{said['id']}", {"scans": 1}
        before = documents[path].fields if path in documents else {}
        documents[path] = Standing(None, {name: before.get(name, 0) + n for name, n in adds.items()}, {})
    return documents


def _identity(message: Message) -> tuple[Any, ...]:
    """Equal for a message and its republished copies."""
    said = message.said
    if "eventId" in said:
        return (said["eventId"], said.get("ts"), said.get("seq"))
    return (json.dumps(said, sort_keys=True), said.get("ts", message.id))


def _too_old_to_count(message: Message) -> bool:
    """A tally cannot tell any more, and poison in one view is applied in none."""
    oldest = NOW / SECOND - _KEPT_S
    return message.topic in _TALLIED_TOPICS and message.said.get("ts", message.published) < oldest
