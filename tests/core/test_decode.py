"""Whatever bytes arrive, decoding ends in a value or in one of our own errors; nothing else escapes.

The tables are every malformed body and every wrong data, each with its reason; no error quotes what it is about.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millpond.core.decode import decode_payload, decode_push, decode_unwrapped
from millpond.core.errors import InvalidEvent, MalformedEnvelope
from millpond.core.model import Delivery
from tests.common.push import ABSENT, MARKER, encoded, good_body, good_bytes, tick
from tests.core.json_values import OBJECTS, PUBLISHED, VALUES

MIB = 1024 * 1024
ERROR_CHARS_MAX = 500


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | OBJECTS.map(lambda value: json.dumps(value).encode()))
def test_any_body_is_a_delivery_or_a_malformed_envelope(body: bytes) -> None:
    """No bytes make the decoder of push bodies raise anything but MalformedEnvelope."""
    with contextlib.suppress(MalformedEnvelope):
        assert decode_push(body).message_id


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_data_is_a_payload_or_an_invalid_event(data: bytes) -> None:
    """No bytes make the decoder of data raise anything but InvalidEvent."""
    with contextlib.suppress(InvalidEvent):
        assert isinstance(decode_payload(Delivery(message_id="m", publish_time=0, data=data)).payload, dict)


# --- bodies ------------------------------------------------------------------------------------------------------

NESTED = b"[" * 100_000 + b"]" * 100_000
MALFORMED: dict[str, Any] = {
    "empty body": b"",
    "white space for a body": b" \n ",
    "null for a body": b"null",
    "list for a body": b"[]",
    "text for a body": b'"message"',
    "not JSON": b"message=1&subscription=2",
    "JSON with trailing garbage": good_bytes() + b"x",
    "two bodies in one": good_bytes() * 2,
    "truncated JSON": good_bytes()[:-1],
    "NaN in the body": b'{"deliveryAttempt":NaN,"message":{}}',
    "byte order mark before the body": b"\xef\xbb\xbf" + good_bytes(),
    "UTF-16 body": json.dumps(good_body()).encode("utf-16"),
    "UTF-16 body without a mark": json.dumps(good_body()).encode("utf-16-le"),
    "UTF-32 body": json.dumps(good_body()).encode("utf-32"),
    "Latin-1 body": json.dumps(good_body(attributes={"a": "é"}), ensure_ascii=False).encode("latin-1"),
    "lone surrogate in an attribute, escaped": good_bytes(attributes={"a": "\ud800"}),
    "lone surrogate in an attribute, raw": good_bytes(attributes={"a": "@"}).replace(b"@", b"\xed\xa0\x80"),
    "depth bomb for a body": NESTED,
    "depth bomb beside the message": b'{"x":%s,"message":{}}' % NESTED,
    "depth bomb in an attribute": good_bytes(attributes={"a": "@"}).replace(b'"@"', NESTED),
    "depth bomb of messages": b'{"message":' * 100_000,
    "message absent": {"subscription": "s"},
    "message null": {"message": None},
    "message a list": {"message": []},
    "attributes a list": good_body(attributes=[]),
    "attributes text": good_body(attributes="topic"),
    "attribute a number": good_body(attributes={"topic": 5}),
    "attribute null": good_body(attributes={"topic": None}),
    "attribute an object": good_body(attributes={"topic": {}}),
    "data a number": good_body(data=5),
    "data an object": good_body(data=tick()),
    "orderingKey a number": good_body(orderingKey=5),
    "subscription a number": {**good_body(), "subscription": 5},
    "deliveryAttempt text": {**good_body(), "deliveryAttempt": "5"},
    "deliveryAttempt boolean": {**good_body(), "deliveryAttempt": True},
    "deliveryAttempt fractional": {**good_body(), "deliveryAttempt": 1.5},
    "deliveryAttempt a list": {**good_body(), "deliveryAttempt": []},
    "deliveryAttempt negative": {**good_body(), "deliveryAttempt": -1},
    "deliveryAttempt of 2^63": {**good_body(), "deliveryAttempt": 2**63},
    "deliveryAttempt of 2^64": {**good_body(), "deliveryAttempt": 2**64},
    "deliveryAttempt of 10^400": {**good_body(), "deliveryAttempt": 10**400},
    # The first of two is read too, and is no message.
    "message twice, once a number": b'{"message":5,' + good_bytes()[1:],
    "messageId a number": good_body(messageId=5),
    "messageId with a lone surrogate": good_body(messageId="\ud800"),
    "publishTime a number": good_body(publishTime=1767873600),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "messageId absent": (good_body(messageId=ABSENT), "missing_messageId"),
    "messageId null": (good_body(messageId=None), "missing_messageId"),
    "messageId empty": (good_body(messageId=""), "missing_messageId"),
    "messageId of 257 bytes": (good_body(messageId="x" * 257), "invalid_message_id"),
    "messageId of 129 characters, 258 bytes": (good_body(messageId="é" * 129), "invalid_message_id"),
    "messageId with a line feed": (good_body(messageId="a\nb"), "invalid_message_id"),
    "messageId with NUL": (good_body(messageId="a\x00b"), "invalid_message_id"),
    "messageId with DEL": (good_body(messageId="a\x7fb"), "invalid_message_id"),
    "messageId with a line separator": (good_body(messageId="a\u2028b"), "invalid_message_id"),
    "messageId with a byte order mark": (good_body(messageId="\ufeffa"), "invalid_message_id"),
    "messageId and message_id differ": (good_body(message_id="other"), "messageId_mismatch"),
    "message_id empty beside messageId": (good_body(message_id=""), "messageId_mismatch"),
    "publishTime absent": (good_body(publishTime=ABSENT), "missing_publishTime"),
    "publishTime empty": (good_body(publishTime=""), "missing_publishTime"),
    "publishTime naive": (good_body(publishTime="2026-01-08T12:00:00"), "invalid_publishTime"),
    "publishTime a date": (good_body(publishTime="2026-01-08"), "invalid_publishTime"),
    "publishTime a word": (good_body(publishTime="yesterday"), "invalid_publishTime"),
    "publishTime before 1970": (good_body(publishTime="1969-12-31T23:59:59Z"), "invalid_publishTime"),
    "publishTime in 2300": (good_body(publishTime="2300-01-01T00:00:00Z"), "invalid_publishTime"),
    "publishTime year 0": (good_body(publishTime="0000-01-01T00:00:00Z"), "invalid_publishTime"),
    "publishTime and publish_time differ": (good_body(publish_time="2026-01-08T12:00:01Z"), "publishTime_mismatch"),
    # More than any letter could hold, and more than Pub/Sub ever sends: it could be neither applied nor buried.
    "attributes of 2 MiB": (good_body(attributes={"a": "b" * 2 * MIB}), "envelope_too_large"),
    "orderingKey of 2 MiB": (good_body(orderingKey="k" * 2 * MIB), "envelope_too_large"),
    "subscription of 2 MiB": ({**good_body(), "subscription": "s" * 2 * MIB}, "envelope_too_large"),
}
BODIES = {**{name: (body, "malformed_envelope") for name, body in MALFORMED.items()}, **REFUSED}


def check_error(error: InvalidEvent | MalformedEnvelope, reason: str) -> None:
    assert error.reason == reason
    assert 0 < len(str(error)) < ERROR_CHARS_MAX
    assert MARKER not in str(error)


@pytest.mark.parametrize(("body", "reason"), BODIES.values(), ids=BODIES)
def test_a_malformed_body(body: Any, reason: str) -> None:
    """Nothing can be identified in it: it is refused, with a reason."""
    with pytest.raises(MalformedEnvelope) as refusal:
        decode_push(body if isinstance(body, bytes) else json.dumps(body).encode())
    check_error(refusal.value, reason)


LEGAL_BODIES = {
    "messageId of 256 bytes": good_body(messageId="é" * 128),
    "messageId with a slash and spaces": good_body(messageId="a / b"),
    "subscription absent": {"message": good_body()["message"]},
    "deliveryAttempt null": {**good_body(), "deliveryAttempt": None},
    "messageId twice, the last one wins": good_bytes().replace(b'"messageId"', b'"messageId":"no","messageId"'),
}


@pytest.mark.parametrize("body", LEGAL_BODIES.values(), ids=LEGAL_BODIES)
def test_a_body_that_only_looks_wrong(body: Any) -> None:
    """It is read like any other."""
    delivery = decode_push(body if isinstance(body, bytes) else json.dumps(body).encode())
    assert delivery.message_id in {"good-body", "é" * 128, "a / b"}
    assert decode_payload(delivery).payload == tick()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("message-id", None, "missing_metadata"),
        ("publish-time", None, "missing_metadata"),
        ("message-id", "x" * 257, "invalid_message_id"),
        ("publish-time", "2026-01-08T12:00:00", "invalid_publishTime"),
    ],
)
def test_an_unwrapped_push_needs_its_metadata(name: str, value: str | None, reason: str) -> None:
    """Without id or publish time nothing could be ordered or recognised: the error says which setting helps."""
    headers = {"x-goog-pubsub-message-id": "m", "x-goog-pubsub-publish-time": PUBLISHED}
    if value is None:
        del headers[f"x-goog-pubsub-{name}"]
    else:
        headers[f"x-goog-pubsub-{name}"] = value
    with pytest.raises(MalformedEnvelope, match="write_metadata" if value is None else None) as refusal:
        decode_unwrapped(headers, json.dumps(tick()).encode())
    check_error(refusal.value, reason)


# --- data --------------------------------------------------------------------------------------------------------


def json_text(fields: str) -> bytes:
    """The JSON text of a tick with more fields, written by hand where `json` would not."""
    return f'{{"symbol":"SPY","note":"{MARKER}",{fields}}}'.encode()


def raw_text(content: bytes) -> bytes:
    """A tick with these bytes for a text."""
    return json_text('"x":"@"').replace(b"@", content)


def nested(opening: bytes, closing: bytes, depth: int) -> bytes:
    inside = opening * depth + (b"1" if b":" in opening else b"") + closing * depth
    return json_text('"x":@').replace(b"@", inside)


INVALID_JSON = {
    "data not JSON": MARKER.encode(),
    "data with trailing garbage": json_text('"x":1') + b"x",
    "data with two objects": json_text('"x":1') * 2,
    "data truncated": json_text('"x":1')[:-1],
    "data white space": b" \n ",
    "byte order mark before the data": b"\xef\xbb\xbf" + json_text('"x":1'),
    "UTF-16 data": json.dumps(tick()).encode("utf-16"),
    "UTF-16 data without a mark": json.dumps(tick()).encode("utf-16-be"),
    "UTF-32 data": json.dumps(tick()).encode("utf-32"),
    "gzipped data": gzip.compress(json.dumps(tick()).encode()),
    "NaN": json_text('"price":NaN'),
    "Infinity": json_text('"price":Infinity'),
    "-Infinity": json_text('"price":-Infinity'),
    "1e999": json_text('"price":1e999'),
    "-1e999 in a field that no view reads": json_text('"x":[-1e999]'),
    "number with a leading zero": json_text('"price":01'),
    "number with a plus": json_text('"price":+1'),
    "hexadecimal number": json_text('"price":0x10'),
    "lone high surrogate, escaped": json_text(r'"x":"\ud800"'),
    "lone high surrogate before text, escaped": json_text(r'"x":"\ud800abcdef"'),
    "lone low surrogate, escaped": json_text(r'"x":"\udc00"'),
    "surrogates in the wrong order, escaped": json_text(r'"x":"\udc00\ud800"'),
    "lone surrogate in a field name, escaped": json_text(r'"\ud800":1'),
    "lone surrogate in the symbol, escaped": json_text(r'"symbol":"\ud800"'),
    "lone surrogate, raw bytes": raw_text(b"\xed\xa0\x80"),
    "overlong UTF-8": raw_text(b"\xc0\xaf"),
    "UTF-8 beyond U+10FFFF": raw_text(b"\xf4\x90\x80\x80"),
    "a byte that is no UTF-8": raw_text(b"\xff"),
    "raw NUL in text": raw_text(b"\x00"),
    "raw line feed in text": raw_text(b"\n"),
    "comment in the data": json_text('"x":1/**/'),
    "trailing comma in the data": json_text('"x":1,'),
    "10^5000": json_text('"price":1' + "0" * 5_000),
    "single quotes": b"{'symbol':'SPY'}",
}
WRONG_DATA = {
    "a list for an object": (b"[]", "not_an_object"),
    "text for an object": (json.dumps(MARKER).encode(), "not_an_object"),
    "a number for an object": (b"5", "not_an_object"),
    "null for an object": (b"null", "not_an_object"),
    "true for an object": (b"true", "not_an_object"),
    "empty": (b"", "missing_data"),
    "absent": (None, "missing_data"),
    "depth bomb of lists": (nested(b"[", b"]", 100_000), "too_deep"),
    "depth bomb of objects": (nested(b'{"a":', b"}", 100_000), "too_deep"),
    "depth bomb never closed": (nested(b"[", b"", 1_000_000), "too_deep"),
    "depth of 1,000": (nested(b"[", b"]", 1_000), "too_deep"),
    "depth of 102": (nested(b"[", b"]", 101), "too_deep"),
    "2^63": (json_text(f'"price":{2**63}'), "integer_out_of_range"),
    "-2^63-1": (json_text(f'"x":{-(2**63) - 1}'), "integer_out_of_range"),
    "2^64 for an event id": (json_text(f'"eventId":{2**64}'), "integer_out_of_range"),
    "2^64 deep inside": (json_text(f'"x":[{{"y":[{{"z":{2**64}}}]}}]'), "integer_out_of_range"),
    "10^400": (json_text(f'"price":1{"0" * 400}'), "integer_out_of_range"),
    "an event id that is true": (json_text('"eventId":true'), "invalid_event"),
    "an event id that is a list": (json_text(f'"eventId":["{MARKER}"]'), "invalid_event"),
    "a fractional event id": (json_text('"eventId":1.5'), "invalid_event"),
}
DATA = {**{name: (data, "invalid_json") for name, data in INVALID_JSON.items()}, **WRONG_DATA}


@pytest.mark.parametrize(("data", "reason"), DATA.values(), ids=DATA)
def test_wrong_data(data: bytes | None, reason: str) -> None:
    """The message has an id and can be buried; the reason says what is wrong with what it carries."""
    with pytest.raises(InvalidEvent) as fault:
        decode_payload(Delivery(message_id="m", publish_time=0, data=data))
    check_error(fault.value, reason)


@pytest.mark.parametrize(
    ("data", "symbol"),
    [
        (b'{"symbol":"NO","symbol":"S"}', "S"),
        ('{"symbol":"é"}'.encode(), "é"),
        (rb'{"symbol":"\u00e9"}', "é"),
        (rb'{"symbol":"\ud83d\ude00"}', "😀"),
        (b' \n\t{"symbol":"S"}\r\n ', "S"),
    ],
)
def test_data_that_only_looks_wrong(data: bytes, symbol: str) -> None:
    """Of two fields of one name the last one counts; escapes and white space make no difference."""
    assert decode_payload(Delivery(message_id="m", publish_time=0, data=data)).payload == {"symbol": symbol}


NO_BASE64 = {
    "junk": "!!!!",
    "junk at the end": encoded(tick()) + "!",
    "without padding": base64.b64encode(json.dumps(tick(x="abc")).encode() + b" ").decode().rstrip("="),
    "a line feed": encoded(tick())[:20] + "\n" + encoded(tick())[20:],
    "a space in front": " " + encoded(tick()),
    "a line feed at the end": encoded(tick()) + "\n",
    "data after the padding": "e30=" + encoded(tick()),
    "too much padding": "e30==",
    "of one character": "A",
    "of padding alone": "====",
    "letters of other alphabets": "é" * 8,
    "NUL": "e30=\x00",
    "URL-safe base64": base64.urlsafe_b64encode(json.dumps(tick(x="\u00ff\u00fe?>?>~~~")).encode()).decode(),
}


@pytest.mark.parametrize("text", NO_BASE64.values(), ids=NO_BASE64)
def test_data_that_is_no_base64(text: str) -> None:
    """Nothing is guessed; the text is kept as it came, for the person who opens the letter."""
    delivery = decode_push(json.dumps(good_body(data=text)).encode())
    assert delivery.data == text.encode()
    with pytest.raises(InvalidEvent) as fault:
        decode_payload(delivery)
    check_error(fault.value, "invalid_base64")
