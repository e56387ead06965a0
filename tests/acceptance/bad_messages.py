"""Messages that can be identified and can never succeed: one entry each, two rows each."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.acceptance.bad_requests import (
    ABSENT,
    MARKER,
    METADATA,
    Row,
    Send,
    tick,
)
from tests.common.push import PUBLISHED, encoded, push_body


class Poison(NamedTuple):
    """A message that is right in form and wrong in content."""

    name: str
    data: Any
    reason: str
    topic: str | None = "market-ticks"
    # Fields of the message to change; ABSENT leaves one out.
    changes: Mapping[str, Any] = {}
    severity: str = "ERROR"
    # A refused write is buried whatever the policy: no redelivery can heal it, and no other consumer may.
    always_buried: bool = False
    subscription: str = "projects/local/subscriptions/acceptance"

    def body(self, message_id: str, attempt: int | None) -> dict[str, Any]:
        body = push_body(
            self.data, message_id=message_id, topic=self.topic, attempt=attempt, subscription=self.subscription
        )
        message = {**body["message"], **self.changes}
        return {**body, "message": {name: value for name, value in message.items() if value is not ABSENT}}

    def rows(self) -> Iterator[Row]:
        yield Row(
            self.name, self._send(None), 200, self.reason, self.severity, message_id=f"{self.name}/-", buried=True
        )
        yield Row(
            f"{self.name} [with deliveryAttempt]",
            self._send(5),
            200 if self.always_buried else 400,
            self.reason,
            self.severity,
            message_id=f"{self.name}/5",
            buried=self.always_buried,
        )

    def _send(self, attempt: int | None) -> Send:
        return lambda server: server.push(self.body(f"{self.name}/{attempt or '-'}", attempt))


def json_text(fields: str) -> bytes:
    """The JSON text of a tick with more fields, written by hand where `json` would not."""
    return f'{{"symbol":"SPY","note":"{MARKER}",{fields}}}'.encode()


def nested(opening: bytes, closing: bytes, depth: int) -> bytes:
    return b'{"symbol":"SPY","note":"%s","x":%s%s%s}' % (
        MARKER.encode(),
        opening * depth,
        b"1" if b":" in opening else b"",
        closing * depth,
    )


INVALID_JSON = [
    Poison(name, data, "invalid_json")
    for name, data in (
        ("data not JSON", MARKER.encode()),
        ("data with trailing garbage", json_text('"x":1') + b"x"),
        ("data with two objects", json_text('"x":1') * 2),
        ("data truncated", json_text('"x":1')[:-1]),
        ("data white space", b" \n "),
        ("byte order mark before the data", b"\xef\xbb\xbf" + json_text('"x":1')),
        ("UTF-16 data", json.dumps(tick()).encode("utf-16")),
        ("UTF-16 data without a mark", json.dumps(tick()).encode("utf-16-be")),
        ("UTF-32 data", json.dumps(tick()).encode("utf-32")),
        ("gzipped data", gzip.compress(json.dumps(tick()).encode())),
        ("NaN", json_text('"price":NaN')),
        ("Infinity", json_text('"price":Infinity')),
        ("-Infinity", json_text('"price":-Infinity')),
        ("1e999", json_text('"price":1e999')),
        ("-1e999 in a field nobody reads", json_text('"x":[-1e999]')),
        ("number with a leading zero", json_text('"price":01')),
        ("number with a plus", json_text('"price":+1')),
        ("hexadecimal number", json_text('"price":0x10')),
        ("lone high surrogate, escaped", json_text(r'"x":"\ud800"')),
        ("lone high surrogate before text, escaped", json_text(r'"x":"\ud800abcdef"')),
        ("lone low surrogate, escaped", json_text(r'"x":"\udc00"')),
        ("surrogates in the wrong order, escaped", json_text(r'"x":"\udc00\ud800"')),
        ("lone surrogate in a field name, escaped", json_text(r'"\ud800":1')),
        ("lone surrogate in the symbol, escaped", json_text(r'"symbol":"\ud800"')),
        ("lone surrogate, raw bytes", json_text('"x":"@"').replace(b"@", b"\xed\xa0\x80")),
        ("overlong UTF-8", json_text('"x":"@"').replace(b"@", b"\xc0\xaf")),
        ("UTF-8 beyond U+10FFFF", json_text('"x":"@"').replace(b"@", b"\xf4\x90\x80\x80")),
        ("a byte that is no UTF-8", json_text('"x":"@"').replace(b"@", b"\xff")),
        ("raw NUL in text", json_text('"x":"@"').replace(b"@", b"\x00")),
        ("raw line feed in text", json_text('"x":"@"').replace(b"@", b"\n")),
        ("comment in the data", json_text('"x":1/**/')),
        ("trailing comma in the data", json_text('"x":1,')),
        ("10^5000", json_text('"price":1' + "0" * 5_000)),
        ("single quotes", b"{'symbol':'SPY'}"),
    )
]
WRONG_SHAPE = [
    *(
        Poison(f"data with {name} for an object", data, "not_an_object")
        for name, data in (
            ("a list", [tick()]),
            ("text", MARKER),
            ("a number", 5),
            ("null", b"null"),
            ("true", True),
        )
    ),
    Poison("data empty", b"", "missing_data"),
    Poison("data null", b"", "missing_data", changes={"data": None}),
    Poison("data absent with attributes", b"", "missing_data", changes={"data": ABSENT}),
    Poison("data absent without attributes", b"", "missing_data", topic=None, changes={"data": ABSENT}),
    Poison("depth bomb of lists", nested(b"[", b"]", 100_000), "too_deep"),
    Poison("depth bomb of objects", nested(b'{"a":', b"}", 100_000), "too_deep"),
    Poison("depth bomb never closed", nested(b"[", b"", 1_000_000), "too_deep"),
    Poison("depth of 1,000", nested(b"[", b"]", 1_000), "too_deep"),
    Poison("depth of 102", nested(b"[", b"]", 101), "too_deep"),
    *(
        Poison(f"{name} {where}", json_text(f'"{field}":{value}'), "integer_out_of_range")
        for name, value in (
            ("2^63", 2**63),
            ("-2^63-1", -(2**63) - 1),
            ("2^64", 2**64),
            ("10^400", "1" + "0" * 400),
        )
        for where, field in (("for a price", "price"), ("in a field nobody reads", "x"))
    ),
    Poison("2^64 for a time", json_text(f'"ts":{2**64}'), "integer_out_of_range"),
    Poison("2^64 for an event id", json_text(f'"eventId":{2**64}'), "integer_out_of_range"),
    Poison("2^64 deep inside", json_text(f'"x":[{{"y":[{{"z":{2**64}}}]}}]'), "integer_out_of_range"),
]
INVALID_BASE64 = [
    Poison(name, b"", "invalid_base64", changes={"data": text})
    for name, text in (
        ("base64 with junk", "!!!!"),
        ("base64 with junk at the end", encoded(tick()) + "!"),
        (
            "base64 without padding",
            base64.b64encode(json.dumps(tick(x="abc")).encode() + b" ").decode().rstrip("="),
        ),
        ("base64 with a line feed", encoded(tick())[:20] + "\n" + encoded(tick())[20:]),
        ("base64 with a space in front", " " + encoded(tick())),
        ("base64 with a line feed at the end", encoded(tick()) + "\n"),
        ("base64 with data after the padding", "e30=" + encoded(tick())),
        ("base64 with too much padding", "e30=="),
        ("base64 of one character", "A"),
        ("base64 of padding alone", "===="),
        ("base64 with letters of other alphabets", "é" * 8),
        ("base64 with NUL", "e30=\x00"),
        ("URL-safe base64", base64.urlsafe_b64encode(json.dumps(tick(x="\u00ff\u00fe?>?>~~~")).encode()).decode()),
    )
]
UNROUTABLE = [
    Poison("topic found nowhere", tick(), "unroutable_payload", None),
    Poison("topic nobody knows", tick(), "unroutable_payload", "weather"),
    Poison("topic in capitals", tick(), "unroutable_payload", "MARKET-TICKS"),
    Poison("topic a list in the payload", tick(topic=["market-ticks"]), "unroutable_payload", None),
    Poison("empty object", {}, "unroutable_payload", None),
    Poison("event_type a list", {"event_type": ["market.tick"], "payload": tick()}, "unroutable_payload", None),
]
IDS = [
    Poison("symbol of 2,000 bytes", tick(symbol="x" * 2_000), "id_too_long"),
    Poison("symbol of 800 characters, 1,600 bytes", tick(symbol="é" * 800), "id_too_long"),
    Poison("symbol over 1,500 bytes only once escaped", tick(symbol="/" * 600), "id_too_long"),
    Poison("event id of 2,000 bytes", tick(eventId="x" * 2_000), "id_too_long"),
    Poison("service of 2,000 bytes", {"service": "x" * 2_000, "timestamp": PUBLISHED}, "id_too_long", None),
    Poison("signal id of 2,000 bytes", {"signalId": "x" * 2_000}, "id_too_long", "trade-signals"),
    Poison("pipeline of 2,000 bytes", {"pipeline_id": "x" * 2_000}, "id_too_long", "ingest-heartbeat"),
    Poison(
        "subscription of 2,000 bytes, so that the letter's id is too long",
        MARKER.encode(),
        "invalid_json",
        subscription="projects/local/subscriptions/" + "s" * 2_000,
    ),
]
INVALID_EVENTS = [
    Poison(name, data, "invalid_event", topic)
    for name, data, topic in (
        ("symbol absent", {"ts": PUBLISHED, "close": 1, "note": MARKER}, "market-bars-1m"),
        ("symbol empty", {"symbol": "", "ts": PUBLISHED, "close": 1, "note": MARKER}, "market-bars-1m"),
        ("symbol white space", {"symbol": " \t", "ts": PUBLISHED, "close": 1, "note": MARKER}, "market-bars-1m"),
        ("symbol a boolean", tick(symbol=True), "market-ticks"),
        ("symbol a list", tick(symbol=[MARKER]), "market-ticks"),
        ("symbol an object", tick(symbol={"a": MARKER}), "market-ticks"),
        ("event id a boolean", tick(eventId=True), "market-ticks"),
        ("event id a list", tick(eventId=[MARKER]), "market-ticks"),
        ("event id fractional", tick(eventId=1.5), "market-ticks"),
        ("service absent", {"status": MARKER, "timestamp": PUBLISHED}, "system.events"),
        ("service a number list", {"service": [1], "status": MARKER, "timestamp": PUBLISHED}, "system.events"),
        ("status an object", {"service": "a", "status": {"a": MARKER}, "timestamp": PUBLISHED}, "system.events"),
        ("pipeline absent", {"status": MARKER}, "ingest-heartbeat"),
        ("pipeline a boolean", {"pipeline_id": True, "status": MARKER}, "ingest-heartbeat"),
        ("signal that nothing identifies", {"note": MARKER}, "trade-signals"),
        ("signal id an object", {"signalId": {"a": MARKER}}, "trade-signals"),
        ("bar without a minute", tick(), "market-bars-1m"),
        ("bar without a symbol", {"ts": PUBLISHED, "note": MARKER}, "market-bars-1m"),
        ("bar with text for volume", tick(ts=PUBLISHED, volume=MARKER), "market-bars-1m"),
    )
]
BAD_TIMES = [
    Poison(f"time {name}", tick(ts=value), "invalid_event")
    for name, value in (
        ("boolean", True),
        ("naive", "2026-01-08T12:00:00"),
        ("a date", "2026-01-08"),
        ("a word", "yesterday"),
        ("an epoch number as text", "1767873600"),
        ("a list", [2026, 1, 8]),
        ("an object", {"seconds": 1767873600}),
        ("negative", -1),
        ("before 1970", "1969-12-31T23:59:59Z"),
        ("from 2200 on", "2200-01-01T00:00:00Z"),
        ("year 10000", "10000-01-01T00:00:00Z"),
        ("in microseconds", 1767873600000000),
        ("in nanoseconds", 1767873600000000000),
        ("of 1e300", 1e300),
        ("just under a millisecond number", 99999999999),
        ("month 13", "2026-13-01T00:00:00Z"),
        ("30 February", "2026-02-30T00:00:00Z"),
        ("hour 24", "2026-01-08T24:00:00Z"),
        ("offset of 25 hours", "2026-01-08T12:00:00+25:00"),
        ("overflowing with its offset", "0001-01-01T00:00:00+14:00"),
        ("with white space", " 2026-01-08T12:00:00Z"),
        ("with NUL", "2026-01-08T12:00:00Z\x00"),
    )
]
BAD_NUMBERS = [
    *(
        Poison(f"price {name}", tick(price=value), "invalid_event")
        for name, value in (
            ("a word", MARKER),
            ("empty", ""),
            ("NaN as text", "NaN"),
            ("infinity as text", "Infinity"),
            ("inf as text", "-inf"),
            ("1e999 as text", "1e999"),
            ("hexadecimal as text", "0x10"),
            ("with underscores as text", "1_000"),
            ("with white space as text", " 1.5 "),
            ("in Arabic digits as text", "\u0661\u0662"),
            ("a boolean", True),
            ("a list", [1]),
            ("an object", {"value": 1}),
        )
    ),
    *(Poison(f"{name} not a number", tick(**{name: MARKER}), "invalid_event") for name in ("bid", "ask", "size")),
    *(
        Poison(f"sequence {name}", tick(sequence=value), "invalid_event")
        for name, value in (
            ("negative", -1),
            ("fractional", 1.5),
            ("a word", "first"),
            ("empty", ""),
            ("a boolean", True),
            ("a list", [1]),
            ("over 2^63 as text", str(2**63)),
        )
    ),
    Poison("envelope time boolean", {"event_type": "market.tick", "ts": True, "payload": tick()}, "invalid_event"),
]
REFUSED_WRITES = [
    Poison(name, data, "write_refused", severity="ALERT", always_buried=True)
    for name, data in (
        ("a legal payload of 10 MB, more than a document may hold", tick(x="y" * 10_000_000)),
        ("a legal payload of 500,000 numbers", tick(x=list(range(500_000)))),
        ("a legal payload of 100,000 fields", {**tick(), **{f"field-{n}": n for n in range(100_000)}}),
    )
]
POISON = [
    *INVALID_JSON,
    *WRONG_SHAPE,
    *INVALID_BASE64,
    *UNROUTABLE,
    *IDS,
    *INVALID_EVENTS,
    *BAD_TIMES,
    *BAD_NUMBERS,
    *REFUSED_WRITES,
]
UNWRAPPED_POISON = [
    Row(
        f"unwrapped with {name}",
        lambda server, data=data, name=name: server.push(  # type: ignore[misc]
            data, {**METADATA, "x-goog-pubsub-message-id": f"unwrapped {name}"}
        ),
        200,
        reason,
        message_id=f"unwrapped {name}",
        buried=True,
    )
    for name, data, reason in (
        ("an empty body", b"", "missing_data"),
        ("a body that is not JSON", MARKER.encode(), "invalid_json"),
        ("base64 for a body", encoded(tick()).encode(), "invalid_json"),
        ("a byte order mark", b"\xef\xbb\xbf" + json.dumps(tick()).encode(), "invalid_json"),
        ("a list for a body", b"[]", "not_an_object"),
    )
]


# Both as long as they may be, and three times that once they are escaped for the letter's id.
LONG_LETTER_ID = Row(
    "subscription and message id too long together for a letter's id",
    lambda server: server.push(
        push_body(MARKER.encode(), message_id="%" * 256, subscription="projects/local/subscriptions/" + "%" * 255)
    ),
    200,
    "invalid_json",
    message_id="%" * 256,
    buried=True,
)
MESSAGES = [*UNWRAPPED_POISON, LONG_LETTER_ID, *(row for poison in POISON for row in poison.rows())]
