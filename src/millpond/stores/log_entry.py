"""The body of an event-log entry as bytes, and which entries a replay replaces. Pure; every store uses it."""

from __future__ import annotations

import msgspec

from millpond.core.model import Delivery, LogEntry, Outcome, Result, ViewResult

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
            [(v.view, v.doc, v.outcome, v.reason, v.stamp, v.winner) for v in result.views],
        )
    )


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
    results = [ViewResult(v[0], v[1], Outcome(v[2]), *v[3:]) for v in views]
    result = Result(Outcome(outcome), reason, topic, results, buried=outcome == Outcome.POISON)
    return LogEntry(delivery=delivery, topic=topic, event_id=event_id, arrived_at=arrived_at, result=result)


def gives_way(earlier: LogEntry, replayed: LogEntry) -> bool:
    """Whether `earlier` is the entry of the burial of the replayed message: the replay's entry then replaces it.

    The id alone is not enough, because messages of two topics may share it. Entries with the same id and the same
    topic or subscription are of one message. A message without a subscription that was buried before its topic was
    known is identified by its data, unless that was too large for the log.
    """
    before, now = earlier.delivery, replayed.delivery
    if earlier.result.outcome is not Outcome.POISON or before.message_id != now.message_id:
        return False
    if earlier.topic == replayed.topic:
        return True
    if before.subscription or now.subscription:
        return before.subscription == now.subscription
    return not earlier.topic and before.data in {None, now.data}
