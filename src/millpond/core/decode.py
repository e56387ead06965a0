"""Bytes → Delivery → payload. Pure and strict: a wrong guess here would be stored for ever.

`decode_push` and `decode_unwrapped` read push requests, for `http` and `ingress`. After a fault there the message
has no id, so they raise `MalformedEnvelope` (400). `decode_payload` reads the message's data, for `Router`; a fault
there is poison of a message with an id.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from millpond.core import timestamps
from millpond.core.errors import InvalidEvent, MalformedEnvelope, json_type
from millpond.core.fields import INTEGER_MAX, INTEGER_MIN, is_blank
from millpond.core.model import Delivery

MESSAGE_ID_BYTES_MAX = 256
# Pub/Sub allows 100 attributes of 1,280 bytes each, so its envelopes are smaller than this.
ENVELOPE_CHARS_MAX = 200_000
# Deeper than any real payload, and shallow enough for the recursion of every encoder and store.
PAYLOAD_DEPTH_MAX = 100
_HARMLESS = frozenset({str, float, bool, type(None)})
_METADATA = "x-goog-pubsub-"


class _PushMessage(msgspec.Struct):
    messageId: str | None = None  # noqa: N815 - the wire's names
    message_id: str | None = None
    publishTime: str | None = None  # noqa: N815
    publish_time: str | None = None
    data: str | None = None
    attributes: dict[str, str] | None = None
    orderingKey: str | None = None  # noqa: N815


class _PushBody(msgspec.Struct):
    message: _PushMessage
    subscription: str | None = None
    deliveryAttempt: Annotated[int, msgspec.Meta(ge=0, le=2**31)] | None = None  # noqa: N815


_push_body = msgspec.json.Decoder(_PushBody).decode
_any_json = msgspec.json.Decoder().decode


def decode_push(body: bytes) -> Delivery:
    """A standard Pub/Sub push body. Invalid base64 raises nothing: the message has an id, and can be buried."""
    try:
        push = _push_body(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedEnvelope(f"the body is not a Pub/Sub push request: {error!s:.200}") from None
    message = push.message
    attributes, subscription = message.attributes or {}, push.subscription or ""
    if len(body) > ENVELOPE_CHARS_MAX:
        _refuse_too_large(attributes, subscription, message.orderingKey or "")
    data, fault = _decode_base64(message.data)
    return Delivery(
        message_id=_one_of("messageId", message.messageId, message.message_id),
        publish_time=_publish_time(_one_of("publishTime", message.publishTime, message.publish_time)),
        data=data,
        attributes=attributes,
        subscription=subscription,
        ordering_key=message.orderingKey,
        attempt=push.deliveryAttempt,
        data_fault=fault,
    )


def decode_unwrapped(headers: Mapping[str, str], body: bytes) -> Delivery:
    """An unwrapped push: the body is the data, attributes and metadata are headers (lower-case names)."""
    message_id = headers.get(f"{_METADATA}message-id")
    published = headers.get(f"{_METADATA}publish-time")
    if not message_id or not published:
        raise MalformedEnvelope(
            "an unwrapped push without x-goog-pubsub-message-id and -publish-time headers: "
            "set write_metadata on the subscription's no_wrapper settings",
            reason="missing_metadata",
        )
    return Delivery(
        message_id=checked_message_id(message_id),
        publish_time=_publish_time(published),
        data=body,
        attributes={name: value for name, value in headers.items() if not name.startswith(_METADATA)},
        subscription=headers.get(f"{_METADATA}subscription-name", ""),
        ordering_key=headers.get(f"{_METADATA}ordering-key"),
    )


class Payload(msgspec.Struct, frozen=True):
    """A message's JSON object: the inner payload and, if there is one, the envelope around it."""

    outer: dict[str, Any]
    payload: dict[str, Any]
    envelope: dict[str, Any]
    event_type: str | None
    event_id: str | None


_ALIASES = (
    ("event_type", "eventType"),
    ("agent_name", "agentName"),
    ("git_sha", "gitSha"),
    ("trace_id", "traceId"),
    ("ts", "timestamp"),
)


def decode_payload(delivery: Delivery) -> Payload:
    """The JSON object in a message's data. Raises `InvalidEvent` with a reason."""
    outer = decode_object(_content(delivery))
    event_type = outer.get("event_type")
    if is_blank(event_type):
        event_type = outer.get("eventType", event_type)
    inner = outer.get("payload")
    if type(inner) is dict and type(event_type) is str:
        envelope = {k: v for k, v in outer.items() if k != "payload"}
        for name, alias in _ALIASES:
            if alias in envelope and is_blank(envelope.get(name)):
                envelope[name] = envelope[alias]
        return Payload(outer, inner, envelope, event_type.strip() or None, _event_id(inner) or _event_id(envelope))
    event_type = event_type.strip() or None if type(event_type) is str else None
    return Payload(outer, outer, {}, event_type, _event_id(outer))


def _content(delivery: Delivery) -> bytes:
    if delivery.correction is not None:
        return delivery.correction
    if delivery.data_fault is not None:
        raise InvalidEvent(f"message.data: {delivery.data_fault}", reason="invalid_base64")
    if not delivery.data:
        raise InvalidEvent("the message has no data", reason="missing_data")
    return delivery.data


def checked_message_id(message_id: str) -> str:
    if message_id.isalnum() and len(message_id) <= MESSAGE_ID_BYTES_MAX // 4:
        return message_id
    if not message_id.isprintable() or len(message_id.encode(errors="surrogatepass")) > MESSAGE_ID_BYTES_MAX:
        raise MalformedEnvelope(
            f"messageId must be printable text of at most {MESSAGE_ID_BYTES_MAX} bytes",
            reason="invalid_message_id",
        )
    return message_id


def _refuse_too_large(attributes: dict[str, str], *texts: str) -> None:
    total = sum(map(len, texts)) + sum(len(name) + len(value) for name, value in attributes.items())
    if total > ENVELOPE_CHARS_MAX:
        raise MalformedEnvelope(
            f"attributes, orderingKey and subscription are over {ENVELOPE_CHARS_MAX} characters together",
            reason="envelope_too_large",
        )


def _decode_base64(text: str | None) -> tuple[bytes | None, str | None]:
    if text is None:
        return None, None
    try:
        return binascii.a2b_base64(text, strict_mode=True), None
    except ValueError as error:
        return text.encode(errors="surrogatepass"), f"not base64 ({error})"


def _one_of(name: str, camel: str | None, snake: str | None) -> str:
    if camel is not None and snake is not None and camel != snake:
        raise MalformedEnvelope(f"message.{name} and its snake_case twin differ", reason=f"{name}_mismatch")
    value = camel if camel is not None else snake
    if not value:
        raise MalformedEnvelope(f"message.{name} is missing", reason=f"missing_{name}")
    return checked_message_id(value) if name == "messageId" else value


def _publish_time(text: str) -> int:
    try:
        return timestamps.parse(text, "publishTime")
    except InvalidEvent as error:
        raise MalformedEnvelope(str(error), reason="invalid_publishTime") from None


def decode_object(raw: bytes) -> dict[str, Any]:
    """A payload's JSON object. Raises `InvalidEvent` with a reason if no view could be asked about it."""
    try:
        value = _any_json(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidEvent(f"the data is not UTF-8 JSON: {error!s:.200}", reason="invalid_json") from None
    except RecursionError:
        raise InvalidEvent("the data nests too deeply", reason="too_deep") from None
    if type(value) is not dict:
        raise InvalidEvent(f"the data must be a JSON object, not {json_type(value)}", reason="not_an_object")
    _refuse_absurd(value)
    return value


def _refuse_absurd(outer: dict[str, Any]) -> None:
    """Refuse integers over 64 bits, and nesting too deep for encoders. Iterates level by level, no recursion."""
    level: list[Any] = list(outer.values())
    for _ in range(PAYLOAD_DEPTH_MAX):
        below: list[Any] = []
        for value in level:
            kind = type(value)
            if kind in _HARMLESS:
                continue
            if kind is int:
                if not INTEGER_MIN <= value <= INTEGER_MAX:
                    raise InvalidEvent("an integer is over 64 bits", reason="integer_out_of_range")
            else:
                below.extend(value.values() if kind is dict else value)
        if not below:
            return
        level = below
    raise InvalidEvent(f"the data nests deeper than {PAYLOAD_DEPTH_MAX}", reason="too_deep")


def _event_id(fields: dict[str, Any]) -> str | None:
    for name in ("eventId", "event_id"):
        value = fields.get(name)
        if is_blank(value):
            continue
        if type(value) is str:
            return value.strip()
        if type(value) is int:
            return str(value)
        raise InvalidEvent(f"{name} must be text, not {json_type(value)}")
    return None
