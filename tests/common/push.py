"""Push bodies as Pub/Sub sends them."""

from __future__ import annotations

import base64
import json
from typing import Any

PUBLISHED = "2026-01-08T12:00:00Z"
SUBSCRIPTION = "projects/local/subscriptions/acceptance"
# What every request that changes something must have, with or without a body.
JSON = {"content-type": "application/json"}
# In the place of a field that is to be left out.
ABSENT = object()
# Stands in payloads that may be wrong; an error or a log line that holds it has quoted a payload.
MARKER = "s3cr3t-p4yl0ad"


def encoded(data: Any) -> str:
    """base64 of a value's JSON, or of bytes as they are."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.b64encode(raw).decode()


def push_body(
    data: Any,
    *,
    message_id: str = "m-1",
    published: Any = PUBLISHED,
    topic: str | None = None,
    attributes: Any = None,
    attempt: Any = None,
    subscription: str | None = SUBSCRIPTION,
) -> dict[str, Any]:
    """A standard push body around a payload."""
    message: dict[str, Any] = {"data": encoded(data), "messageId": message_id, "publishTime": published}
    if topic is not None:
        attributes = {**(attributes or {}), "topic": topic}
    if attributes is not None:
        message["attributes"] = attributes
    body: dict[str, Any] = {"message": message}
    if subscription is not None:
        body["subscription"] = subscription
    if attempt is not None:
        body["deliveryAttempt"] = attempt
    return body


def push_bytes(data: Any, **message: Any) -> bytes:
    """The same as it goes over the wire."""
    return json.dumps(push_body(data, **message)).encode()


def push_request(body: bytes) -> bytes:
    """The same as a whole request, for a connection of its own."""
    return b"POST /pubsub/push HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def changed(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A push body with other fields in its message, or, where ABSENT, without them."""
    message = {**body["message"], **changes}
    return {**body, "message": {name: value for name, value in message.items() if value is not ABSENT}}


def tick(**fields: Any) -> dict[str, Any]:
    return {"symbol": "SPY", "price": 1, "note": MARKER, **fields}


def good_body(**changes: Any) -> dict[str, Any]:
    """A push body that would be applied, with fields of its message changed or, where ABSENT, left out."""
    return changed(push_body(tick(), message_id="good-body", topic="market-ticks"), **changes)


def good_bytes(**changes: Any) -> bytes:
    return json.dumps(good_body(**changes)).encode()
