"""Encodes messages as Pub/Sub would push them. Called by the commands that send messages."""

from __future__ import annotations

import base64
import time
import uuid

import msgspec

from millpond.core import timestamps
from millpond.core.model import Delivery

_encode = msgspec.json.Encoder().encode


def now_us() -> int:
    return time.time_ns() // 1_000


def new_message_id() -> str:
    return f"cli-{uuid.uuid4().hex}"


def encode_push(delivery: Delivery) -> bytes:
    """The standard push body that decodes to this delivery."""
    message: dict[str, object] = {
        "messageId": delivery.message_id,
        "publishTime": timestamps.to_text(delivery.publish_time),
    }
    if delivery.data is not None:
        # Data that was not base64 is sent unchanged, so that the server finds the same fault.
        sent = base64.b64encode(delivery.data) if delivery.data_fault is None else delivery.data
        message["data"] = sent.decode(errors="replace")
    if delivery.attributes:
        message["attributes"] = delivery.attributes
    if delivery.ordering_key is not None:
        message["orderingKey"] = delivery.ordering_key
    body: dict[str, object] = {"message": message, "subscription": delivery.subscription}
    if delivery.attempt is not None:
        body["deliveryAttempt"] = delivery.attempt
    return _encode(body)
