"""Messages that a host publishes in its own process: arguments → Delivery, checked. Called by `Pond`.

Raises UsageError for everything that is wrong with the call, before anything is stored. What is wrong with an event
itself is decided by the views, as for any other message.
"""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.core.decode import checked_message_id
from millpond.core.errors import MalformedEnvelope, UsageError
from millpond.core.model import Delivery

# 1973. What is less was given in seconds or milliseconds.
_MICROSECONDS_MIN = 10**14


def new_delivery(
    topic: str,
    payload: Mapping[str, Any],
    *,
    publish_time: int,
    event_id: str | None,
    attributes: Mapping[str, str] | None,
    message_id: str | None,
) -> Delivery:
    if not isinstance(topic, str) or not topic.strip():
        raise UsageError(f"topic must be text that is not empty, not {topic!r:.80}")
    given = dict(attributes or {})
    if given.get("topic", topic) != topic:
        raise UsageError(f'attributes["topic"] names another topic than the first argument, {topic!r:.80}')
    delivery = Delivery(
        message_id=f"pond-{uuid.uuid4().hex}" if message_id is None else message_id,
        publish_time=publish_time,
        data=_encode(_with_event_id(payload, event_id)),
        attributes={**given, "topic": topic},
    )
    check_delivery(delivery)
    return delivery


def check_delivery(delivery: object) -> None:
    """Raise UsageError unless every field has its type: a host builds deliveries by hand."""
    if not isinstance(delivery, Delivery):
        raise UsageError(f"handle() takes a Delivery, not {type(delivery).__name__}")
    if not isinstance(delivery.message_id, str) or not delivery.message_id.strip():
        raise UsageError("message_id must be text that is not empty")
    try:
        checked_message_id(delivery.message_id)
    except MalformedEnvelope as error:
        raise UsageError(str(error)) from None
    if (
        type(delivery.publish_time) is not int
        or not _MICROSECONDS_MIN <= delivery.publish_time <= timestamps.LATEST_US
    ):
        raise UsageError("publish_time must be whole microseconds since 1970")
    if not isinstance(delivery.data, bytes | None):
        raise UsageError(f"data must be bytes, not {type(delivery.data).__name__}")
    texts = {**delivery.attributes} if isinstance(delivery.attributes, dict) else {None: None}
    if not all(isinstance(text, str) for pair in texts.items() for text in pair):
        raise UsageError("attributes must be a dict of text to text")


def micros(publish_time: dt.datetime) -> int:
    if not isinstance(publish_time, dt.datetime) or publish_time.tzinfo is None:
        raise UsageError("publish_time must be a datetime with a time zone")
    return timestamps.from_datetime(publish_time)


def _with_event_id(payload: Mapping[str, Any], event_id: str | None) -> dict[str, Any]:
    if not isinstance(payload, Mapping):
        raise UsageError(f"payload must be a dict, which becomes a JSON object, not {type(payload).__name__}")
    if event_id is None:
        return dict(payload)
    if payload.get("eventId", event_id) != event_id:
        raise UsageError("the payload has another eventId than the argument event_id")
    return {**payload, "eventId": event_id}


def _encode(payload: dict[str, Any]) -> bytes:
    try:
        # Not msgspec, which writes NaN as null. Times, UUIDs, decimals and dataclasses become text or objects.
        return json.dumps(payload, default=msgspec.to_builtins, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise UsageError(f"the payload cannot be written as JSON: {error!s:.200}") from None
