"""The body of an event-log entry as bytes, and how a later delivery completes an entry. Pure; every store uses it.

The log has each message once. Its entry is open while a view says retry or poison: a redelivery or a replay may
settle that view later. The entry then keeps its first arrival and every view that took the event. If an operator
corrected the payload before a replay, it keeps both payloads: that of the delivery, and the corrected one for the
views that were asked with it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from millpond.core.model import OUTCOME_RANK, Delivery, LogEntry, Outcome, Result, ViewResult

# Outcomes that a later delivery or a replay may change.
OPEN = (Outcome.RETRY, Outcome.POISON)
_VIEW_FIELDS = 6
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def encode_body(entry: LogEntry) -> bytes:
    delivery, result = entry.delivery, entry.result
    return _encode(
        (
            delivery.publish_time,
            delivery.data,
            delivery.attributes,
            delivery.subscription,
            delivery.ordering_key,
            delivery.attempt,
            delivery.data_fault,
            result.reason,
            _corrected_views(entry)
            if entry.corrected
            else [(v.view, v.doc, v.outcome, v.reason, v.stamp, v.winner) for v in result.views],
        )
    )


def _corrected_views(entry: LogEntry) -> list[tuple[Any, ...]]:
    """The views, each with the corrected payload it was asked with, or the number of the view that holds the same.

    An earlier build ignores it, and reads the entry as if the payload had not been corrected.
    """
    places: dict[bytes, int] = {}
    encoded = []
    for number, v in enumerate(entry.result.views):
        payload = entry.corrected.get(v.view)
        fields = (v.view, v.doc, v.outcome, v.reason, v.stamp, v.winner)
        encoded.append(fields if payload is None else (*fields, places.get(payload, payload)))
        if payload is not None:
            places.setdefault(payload, number)
    return encoded


def _corrected(views: list[Any]) -> dict[str, bytes]:
    found = {}
    for view in views:
        if len(view) > _VIEW_FIELDS:
            payload = view[_VIEW_FIELDS]
            found[view[0]] = views[payload][_VIEW_FIELDS] if isinstance(payload, int) else payload
    return found


def decode_entry(
    message_id: str, topic: str, event_id: str | None, arrived_at: int, outcome: str, body: bytes
) -> LogEntry:
    published, data, attributes, subscription, ordering_key, attempt, fault, reason, views = _decode(body)
    delivery = Delivery(
        message_id=message_id,
        publish_time=published,
        data=data,
        attributes=attributes,
        subscription=subscription,
        ordering_key=ordering_key,
        attempt=attempt,
        data_fault=fault,
    )
    results = [ViewResult(v[0], v[1], Outcome(v[2]), *v[3:_VIEW_FIELDS]) for v in views]
    result = Result(Outcome(outcome), reason, topic, results, buried=outcome == Outcome.POISON)
    return LogEntry(
        delivery=delivery,
        topic=topic,
        event_id=event_id,
        arrived_at=arrived_at,
        result=result,
        corrected=_corrected(views),
    )


def without_data(entry: LogEntry) -> LogEntry:
    """The entry for a list: data may have megabytes."""
    return msgspec.structs.replace(entry, delivery=msgspec.structs.replace(entry.delivery, data=None), corrected={})


def completed(earlier: LogEntry, later: LogEntry) -> LogEntry | None:
    """`earlier` with the views that `later` settles, or knows in addition; None if there are none."""
    if earlier.result.outcome not in OPEN:
        return None
    if not earlier.result.views:
        # It was poison before any view was asked.
        better = later.result.views or _is_upgrade(earlier.result.outcome, later.result.outcome)
        return msgspec.structs.replace(later, arrived_at=earlier.arrived_at) if better else None
    views = {view.view: view for view in earlier.result.views}
    changed = [
        view
        for view in later.result.views
        if view.view not in views or _is_upgrade(views[view.view].outcome, view.outcome)
    ]
    if not changed:
        return None
    views.update((view.view, view) for view in changed)
    names = {view.view for view in changed}
    corrected = {name: data for name, data in earlier.corrected.items() if name not in names}
    corrected |= {name: data for name, data in later.corrected.items() if name in names}
    top = min(views.values(), key=lambda view: OUTCOME_RANK[view.outcome])
    buried = top.outcome is Outcome.POISON
    result = Result(top.outcome, top.reason, later.topic, list(views.values()), buried=buried)
    # If the log could not hold the data, it must not look as if the views had been asked with the data of `later`.
    delivery = later.delivery if earlier.delivery.data is not None else earlier.delivery
    return msgspec.structs.replace(
        later, delivery=delivery, arrived_at=earlier.arrived_at, result=result, corrected=corrected
    )


def _is_upgrade(before: Outcome, after: Outcome) -> bool:
    """Retry gives way to any other outcome, poison to any that settles the view."""
    return after not in OPEN if before is Outcome.POISON else before is Outcome.RETRY and before is not after


def is_same_message(earlier: LogEntry, replayed: LogEntry) -> bool:
    """Whether `earlier` is an entry of the replayed message.

    The id alone is not enough, because messages of two topics may share it. Entries with the same id and the same
    topic or subscription are of one message. A message without a subscription that was buried before its topic was
    known is identified by its data, unless that was too large for the log.
    """
    before, now = earlier.delivery, replayed.delivery
    if before.message_id != now.message_id:
        return False
    if earlier.topic == replayed.topic:
        return True
    if before.subscription or now.subscription:
        return before.subscription == now.subscription
    return not earlier.topic and before.data in {None, now.data}
