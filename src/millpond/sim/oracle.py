"""The oracle: computes what the documents must be by sorting and folding everything that arrived.

It must never import the product's deciding modules (`plan`, `stamp`, `views`, `route`, `receipts`), because it
would share their mistakes; a test checks its imports. A view's documentation defines the fields, and one tuple
defines the winner. Called by the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from millpond.core.timestamps import SECOND_US, to_datetime
from millpond.sim.facts import POISON, REFUSED, START, UNCOUNTABLE, Fact, PublishedMessage, payload_of, value_of

Document = dict[str, Any]
# Sorts: (time, sequence, publication, message id), or with the sequence first.
Rank = tuple[int, int, int, str]
_FUTURE_MAX = 300 * SECOND_US
_TICKS_LATE = 900 * SECOND_US
_TICKS_KEPT = 7 * 86_400 * SECOND_US
_ENV = "sim"
# The collection of the one tally.
TALLIES = "gate_passes"


class FactKind(NamedTuple):
    """How the documents of one collection are derived from facts."""

    topic: str
    collection: str
    id_of: Callable[[PublishedMessage], str]
    # The fields one message sets: all of the document, or its own fields of a merged one.
    fields_of: Callable[[PublishedMessage], Document]
    merged: bool = False
    sequence_first: bool = False
    late_after: int | None = None


def rank(message: PublishedMessage, kind: FactKind) -> Rank:
    """The message's place in the one total order."""
    at = ordered_at(message)
    sequence = -1 if message.fact.sequence is None else message.fact.sequence
    first, second = (sequence, at) if kind.sequence_first else (at, sequence)
    return first, second, message.published_at, message.id


def ordered_at(message: PublishedMessage) -> int:
    return message.published_at if is_clamped(message) else happened(message)


def happened(message: PublishedMessage) -> int:
    return message.published_at if message.fact.at is None else message.fact.at


def is_clamped(message: PublishedMessage) -> bool:
    return happened(message) > message.published_at + _FUTURE_MAX


def is_late(message: PublishedMessage, kind: FactKind) -> bool:
    return kind.late_after is not None and happened(message) < message.published_at - kind.late_after


def views_of(message: PublishedMessage) -> list[str]:
    """Every view of the message's topic. A view has the name of its collection."""
    topic = message.fact.topic
    return [kind.collection for kind in KINDS if kind.topic == topic] + ([TALLIES] if topic == "gates" else [])


def never_takes(message: PublishedMessage, view: str) -> bool:
    """Whether the message is poison to this view, or its document cannot be stored."""
    flaw = message.fact.flaw
    return flaw in POISON or (flaw == REFUSED and view != TALLIES) or (flaw == UNCOUNTABLE and view == TALLIES)


def kinds_of(message: PublishedMessage) -> list[FactKind]:
    """The collections whose documents this message takes part in."""
    return [
        kind
        for kind in KINDS
        if kind.topic == message.fact.topic
        and not is_late(message, kind)
        and not never_takes(message, kind.collection)
    ]


def fold(messages: Iterable[PublishedMessage]) -> dict[str, Document]:
    """Every document's path and content, without `source` and fields that depend on Millpond's clock."""
    documents: dict[str, Document] = {}
    for kind in KINDS:
        ours = [message for message in messages if kind in kinds_of(message)]
        for message in sorted(ours, key=lambda message: rank(message, kind)):
            path = f"{kind.collection}/{kind.id_of(message)}"
            before = documents.get(path, {}) if kind.merged else {}
            documents[path] = {**before, **kind.fields_of(message)}
    return documents


def winners(messages: Iterable[PublishedMessage]) -> dict[str, str]:
    """The message whose stamp each document must carry: the greatest."""
    best: dict[str, tuple[Rank, str]] = {}
    for message in messages:
        for kind in kinds_of(message):
            path = f"{kind.collection}/{kind.id_of(message)}"
            ours = rank(message, kind), message.id
            best[path] = max(best.get(path, ours), ours)
    return {path: message_id for path, (_, message_id) in best.items()}


def tallies(messages: Iterable[PublishedMessage]) -> dict[str, set[int]]:
    """The passes of each gate: each counts once, however many messages carried it."""
    passes: dict[str, set[int]] = {}
    for message in messages:
        if message.fact.topic == "gates" and not never_takes(message, TALLIES):
            passes.setdefault(tally_path(message.fact), set()).add(message.fact.number)
    return passes


def tally_path(fact: Fact) -> str:
    return f"{TALLIES}/{fact.key}"


def _common(message: PublishedMessage, doc_id: str) -> Document:
    fact = message.fact
    fields: Document = {"docId": doc_id, "eventTime": _time(message), "data": payload_of(fact)}
    if fact.event_id is not None:
        fields["eventId"] = fact.event_id
    return fields


def _time(message: PublishedMessage) -> Any:
    return to_datetime(happened(message))


def _service(message: PublishedMessage) -> Document:
    fact, at = message.fact, _time(message)
    fields = {"serviceId": fact.key, "env": _ENV, "status": value_of(fact), "version": f"{fact.number}"}
    return {**fields, "region": "eu", "lastHeartbeatAt": at, "updatedAt": at}


def _pipeline(message: PublishedMessage) -> Document:
    fact, at = message.fact, _time(message)
    fields = {"pipelineId": fact.key, "env": _ENV, "tenantId": None, "status": value_of(fact)}
    return {**fields, "lastHeartbeatAt": at, "updatedAt": at, "data": payload_of(fact)}


def _tick(message: PublishedMessage) -> Document:
    return {"symbol": message.fact.key, "lastTickAt": _time(message), "price": message.fact.number + 0.5}


def _own_id(message: PublishedMessage) -> str:
    return message.fact.event_id or message.id


def _past_tick(message: PublishedMessage) -> Document:
    kept = to_datetime(message.published_at + _TICKS_KEPT)
    fields = {**_common(message, _own_id(message)), "symbol": message.fact.key, "expireAt": kept}
    # The time it shows also orders it, so that time is clamped, too.
    return {**fields, "eventTime": to_datetime(ordered_at(message))}


def _bar_id(message: PublishedMessage) -> str:
    return f"{message.fact.key}__{to_datetime(START).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def _bar(message: PublishedMessage) -> Document:
    """Its own time, `ts`, is the minute; the order is by when it was produced."""
    fact = message.fact
    fields = {**_common(message, _bar_id(message)), "symbol": fact.key, "timeframe": "1m", "ts": to_datetime(START)}
    if fact.at is None:
        # The first of producedAt, publishedAt, timestamp, ts.
        fields["eventTime"] = to_datetime(START)
    else:
        fields["producedAt"] = to_datetime(fact.at)
    return {**fields, "close": fact.number + 0.25}


def _signal(message: PublishedMessage) -> Document:
    fact = message.fact
    said = {name: payload_of(fact)[name] for name in fact.says}
    fields = {**_common(message, fact.key), "signalId": fact.key, **said, "updatedAt": _time(message)}
    # None of the preferred fields holds the time of an update.
    fields["eventTime"] = to_datetime(message.published_at)
    if fact.sequence is not None:
        fields["sequence"] = fact.sequence
    return fields


def _door(message: PublishedMessage) -> Document:
    state = value_of(message.fact)
    return {"deleted": True} if state == "removed" else {"door": message.fact.key, "state": state}


def _gate(message: PublishedMessage) -> Document:
    return {"gate": message.fact.key, "pass": message.fact.number}


def _key(message: PublishedMessage) -> str:
    return message.fact.key


KINDS = (
    FactKind("services", "ops_services", lambda message: f"{_ENV}__{message.fact.key}", _service),
    FactKind("pipelines", "ingest_pipelines", _key, _pipeline),
    FactKind("ticks", "market_ticks_latest", _key, _tick, late_after=_TICKS_LATE),
    FactKind("ticks", "market_ticks", _own_id, _past_tick),
    FactKind("bars", "market_bars_1m", _bar_id, _bar),
    FactKind("signals", "trade_signals", _key, _signal, merged=True, sequence_first=True),
    FactKind("doors", "doors", _key, _door),
    FactKind("gates", "gate_last", _key, _gate),
)
KIND_OF: Mapping[str, FactKind] = {kind.collection: kind for kind in KINDS}
