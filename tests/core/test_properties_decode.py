"""Laws of decoding: what was sent is what is read, in either form of push; anything else is one kind of error.

`test_decode.py` has arbitrary bytes and payloads. Here are whole deliveries, and bodies that are almost right.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millpond.core import timestamps
from millpond.core.decode import (
    ENVELOPE_CHARS_MAX,
    MESSAGE_ID_BYTES_MAX,
    PAYLOAD_DEPTH_MAX,
    decode_payload,
    decode_push,
    decode_unwrapped,
)
from millpond.core.errors import InvalidEvent, MalformedEnvelope
from millpond.core.model import Delivery
from tests.common.properties import attempt, examples

PRINTABLE = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=40)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ATTRIBUTES = st.dictionaries(TEXT, TEXT, max_size=3)
DELIVERIES = st.builds(
    Delivery,
    message_id=PRINTABLE,
    publish_time=st.integers(0, timestamps.LATEST_US - 1),
    data=st.none() | st.binary(max_size=60),
    attributes=ATTRIBUTES,
    subscription=TEXT,
    ordering_key=st.none() | TEXT,
    attempt=st.none() | st.integers(0, 2**31),
)


def push_body(delivery: Delivery, *, spelling: str = "camel") -> dict[str, Any]:
    """As Pub/Sub writes it; its names come in two spellings."""
    published = timestamps.to_text(delivery.publish_time)
    camel_case = {"messageId": delivery.message_id, "publishTime": published}
    snake_case = {"message_id": delivery.message_id, "publish_time": published}
    message: dict[str, Any] = {
        **(camel_case if spelling != "snake" else {}),
        **(snake_case if spelling != "camel" else {}),
        "attributes": delivery.attributes,
        "unknown": [1],
    }
    if delivery.data is not None:
        message["data"] = base64.b64encode(delivery.data).decode()
    if delivery.ordering_key is not None:
        message["orderingKey"] = delivery.ordering_key
    body: dict[str, Any] = {"message": message, "subscription": delivery.subscription, "more": {}}
    return body if delivery.attempt is None else {**body, "deliveryAttempt": delivery.attempt}


@examples(200)
@given(DELIVERIES, st.sampled_from(("camel", "snake", "both")), st.booleans())
def test_a_push_body_is_read_back_whole(delivery: Delivery, spelling: str, ascii_only: bool) -> None:
    """Every field of a delivery, in either spelling, however text is escaped; unknown fields are passed over."""
    body = json.dumps(push_body(delivery, spelling=spelling), ensure_ascii=ascii_only).encode()
    assert decode_push(body) == delivery


HEADER = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
HEADER_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,15}", fullmatch=True).filter(lambda n: not n.startswith("x-goog-"))


@examples(200)
@given(DELIVERIES, st.dictionaries(HEADER_NAMES, HEADER, max_size=3), st.none() | HEADER, HEADER)
def test_an_unwrapped_push_is_read_back_whole(
    sent: Delivery, attributes: dict[str, str], ordering_key: str | None, subscription: str
) -> None:
    """The body is the data as it is, metadata comes from its headers, and every other header is an attribute."""
    headers = {
        **attributes,
        "x-goog-pubsub-message-id": sent.message_id,
        "x-goog-pubsub-publish-time": timestamps.to_text(sent.publish_time),
        "x-goog-pubsub-subscription-name": subscription,
    }
    if ordering_key is not None:
        headers["x-goog-pubsub-ordering-key"] = ordering_key
    found = decode_unwrapped(headers, sent.data or b"")
    assert found == Delivery(
        message_id=sent.message_id,
        publish_time=sent.publish_time,
        data=sent.data or b"",
        attributes=attributes,
        subscription=subscription,
        ordering_key=ordering_key,
    )


@examples(200)
@given(
    st.dictionaries(
        st.sampled_from(("message-id", "publish-time", "subscription-name", "ordering-key", "other"))
        .map("x-goog-pubsub-{}".format)
        | TEXT,
        st.text(max_size=30) | st.just("2026-01-08T12:00:00Z") | st.just("m" * 257),
        max_size=5,
    ),
    st.binary(max_size=20),
)  # fmt: skip
def test_any_headers_are_a_delivery_or_a_malformed_envelope(headers: dict[str, str], body: bytes) -> None:
    """Whatever a proxy or a prober sends, nothing but MalformedEnvelope comes of it."""
    found, fault = attempt(MalformedEnvelope, decode_unwrapped, headers, body)
    if fault is not None:
        assert fault.reason in {"missing_metadata", "invalid_message_id", "invalid_publishTime"}
        return
    assert found.data == body
    assert len(found.message_id.encode(errors="surrogatepass")) <= MESSAGE_ID_BYTES_MAX
    assert found.message_id.isprintable()


WRONG = st.sampled_from(
    (
        None,
        "",
        0,
        -1,
        1.5,
        True,
        [],
        {},
        {"a": 1},
        ["x"],
        "x" * 300,
        "\x00",
        "é" * 129,
        "====",
        "a",
        "YQ==\n",
        2**40,
    )
)
BASE64 = re.compile(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
PLACES = ("message", "subscription", "deliveryAttempt")
FIELDS = ("messageId", "message_id", "publishTime", "publish_time", "data", "attributes", "orderingKey")


@examples(400)
@given(DELIVERIES, st.dictionaries(st.sampled_from((*PLACES, *FIELDS)), WRONG, min_size=1, max_size=2))
def test_an_almost_right_body_is_a_delivery_or_a_malformed_envelope(
    delivery: Delivery, wrong: dict[str, Any]
) -> None:
    """One or two fields of another type or content: still an identified message, or a refusal with a reason."""
    body = push_body(delivery)
    for name, value in wrong.items():
        target = body if name in PLACES else body["message"]
        if isinstance(target, dict):
            target[name] = value
    found, fault = attempt(MalformedEnvelope, decode_push, json.dumps(body).encode())
    if fault is not None:
        assert fault.reason
        return
    assert found.message_id in {delivery.message_id, *(v for v in wrong.values() if isinstance(v, str))}
    assert 0 <= found.publish_time < timestamps.LATEST_US
    sent = body["message"].get("data")
    assert (found.data_fault is None) == (sent is None or BASE64.fullmatch(sent) is not None)
    # Kept as it came, for the operator who looks at the letter.
    assert found.data_fault is None or found.data == sent.encode()


@examples(60)
@given(st.integers(-2, 2), st.sampled_from(("attributes", "orderingKey", "subscription")))
def test_what_stands_around_the_data_has_a_limit(over: int, where: str) -> None:
    """Counted together, in characters, and the limit itself is within it."""
    body = push_body(Delivery(message_id="m", publish_time=0, data=b"{}", attributes={"k": "v"}, subscription="s"))
    room = ENVELOPE_CHARS_MAX - len("kvs") + over
    if where == "attributes":
        body["message"]["attributes"]["n"] = "x" * (room - 1)
    elif where == "orderingKey":
        body["message"]["orderingKey"] = "x" * room
    else:
        body["subscription"] += "x" * room
    _, fault = attempt(MalformedEnvelope, decode_push, json.dumps(body).encode())
    assert (fault is not None) == (over > 0)
    assert fault is None or fault.reason == "envelope_too_large"


VALUES = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT | st.lists(st.integers(0, 9), max_size=2)
)
RESERVED = {"payload", "eventId", "event_id", "eventType", "event_type"}
NAMES = TEXT.filter(lambda name: name not in RESERVED)
EVENT_IDS = st.none() | TEXT.filter(bool) | st.integers(0, 2**63 - 1)


def decoded(value: Any) -> Any:
    return decode_payload(Delivery(message_id="m", publish_time=0, data=json.dumps(value).encode()))


@examples(200)
@given(
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.dictionaries(NAMES, VALUES, max_size=3),
    TEXT,
    EVENT_IDS,
    EVENT_IDS,
)
def test_an_envelope_is_taken_off_and_kept(
    payload: dict[str, Any], around: dict[str, Any], kind: str, inside: Any, outside: Any
) -> None:
    """The payload is what stood inside, the envelope what stood around it; the inner eventId comes first."""
    inner = payload if inside is None else {**payload, "eventId": inside}
    outer = {**around, "event_type": kind, **({} if outside is None else {"eventId": outside})}
    found = decoded({**outer, "payload": inner})
    assert (found.payload, found.event_type) == (inner, kind.strip() or None)
    assert {name: value for name, value in found.envelope.items() if name in outer} == outer
    named = [text for text in ("" if name is None else str(name).strip() for name in (inside, outside)) if text]
    assert found.event_id == (named[0] if named else None)


@examples(150)
@given(st.dictionaries(NAMES, VALUES, max_size=4), EVENT_IDS)
def test_a_bare_payload_has_no_envelope(payload: dict[str, Any], event_id: Any) -> None:
    """Without a type, `payload` is a field like any other."""
    sent = {**payload, "payload": 1} if event_id is None else {**payload, "event_id": event_id}
    found = decoded(sent)
    assert (found.payload, found.outer, found.envelope, found.event_type) == (sent, sent, {}, None)
    assert found.event_id == (None if event_id is None else str(event_id).strip() or None)


@examples(60)
@given(st.integers(PAYLOAD_DEPTH_MAX - 3, PAYLOAD_DEPTH_MAX + 3), st.booleans(), st.integers(-(2**64), 2**64))
def test_depth_and_width_are_refused_at_the_limit(depth: int, lists: bool, number: int) -> None:
    """A hundred levels and 64 bits, wherever they stand; what is refused names its reason."""
    value: Any = number
    for _ in range(depth - 1):
        value = [value] if lists else {"d": value}
    too_wide = not -(2**63) <= number < 2**63
    found, fault = attempt(InvalidEvent, decoded, {"d": value})
    if fault is not None:
        assert fault.reason == ("too_deep" if depth > PAYLOAD_DEPTH_MAX else "integer_out_of_range")
        assert depth > PAYLOAD_DEPTH_MAX or too_wide
    else:
        assert found.payload == {"d": value}
        assert depth <= PAYLOAD_DEPTH_MAX
        assert not too_wide
