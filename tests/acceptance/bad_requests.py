"""Requests nothing can be identified in: one row each, with everything it must lead to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.common.push import PUBLISHED, push_body
from tests.common.server import VIEW_COLLECTIONS, Answer, Server

# Stands in every payload where it can; a log that holds it has quoted a payload.
MARKER = "s3cr3t-p4yl0ad"
WATCHED = (*VIEW_COLLECTIONS, "ops_dedupe")
MIB = 1024 * 1024
JSON_TYPE = "content-type: application/json"
ABSENT = object()
READ = frozenset({"GET", "HEAD"})

Send = Callable[[Server], Answer]


class Row(NamedTuple):
    """One bad request and everything it must lead to."""

    name: str
    send: Send
    status: int
    reason: str
    severity: str = "ERROR"
    message_id: str = ""
    # What the answer's `error` must mention; poison that is acknowledged has none.
    mentions: str = ""
    buried: bool = False
    # The read API answers `{"reason","error"}`, the push path the whole answer of a message.
    api: bool = False
    allow: frozenset[str] | None = None
    # HEAD is answered without a body.
    bodiless: bool = False


def tick(**fields: Any) -> dict[str, Any]:
    return {"symbol": "SPY", "price": 1, "note": MARKER, **fields}


def good_body(**changes: Any) -> dict[str, Any]:
    """A push body that would be applied, with fields of its message changed or, where ABSENT, left out."""
    body = push_body(tick(), message_id="bad-envelope", topic="market-ticks")
    message = {**body["message"], **changes}
    return {**body, "message": {name: value for name, value in message.items() if value is not ABSENT}}


def good_bytes(**changes: Any) -> bytes:
    return json.dumps(good_body(**changes)).encode()


def envelope(name: str, body: Any, reason: str = "malformed_envelope", **more: Any) -> Row:
    """A push body that is refused with 400."""
    return Row(name, lambda server: server.push(body), 400, reason, **more)


def with_headers(name: str, headers: Mapping[str, str], status: int, reason: str, **more: Any) -> Row:
    body = more.pop("body", good_bytes())
    return Row(name, lambda server: server.push(body, headers), status, reason, **more)


def raw(name: str, *parts: bytes, status: int, reason: str, **more: Any) -> Row:
    return Row(name, lambda server: server.raw(*parts), status, reason, **more)


def request_bytes(*headers: str, line: str = "POST /pubsub/push HTTP/1.1") -> bytes:
    return "\r\n".join([line, "host: millpond", JSON_TYPE, *headers, "", ""]).encode()


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


NESTED = b"[" * 100_000 + b"]" * 100_000
MALFORMED_BODIES = [
    envelope("empty body", b""),
    envelope("white space for a body", b" \n "),
    envelope("null for a body", b"null"),
    envelope("list for a body", b"[]"),
    envelope("text for a body", b'"message"'),
    envelope("not JSON", b"message=1&subscription=2"),
    envelope("JSON with trailing garbage", good_bytes() + b"x"),
    envelope("two bodies in one", good_bytes() * 2),
    envelope("truncated JSON", good_bytes()[:-1]),
    envelope("NaN in the body", b'{"deliveryAttempt":NaN,"message":{}}'),
    envelope("byte order mark before the body", b"\xef\xbb\xbf" + good_bytes()),
    envelope("UTF-16 body", json.dumps(good_body()).encode("utf-16")),
    envelope("UTF-16 body without a mark", json.dumps(good_body()).encode("utf-16-le")),
    envelope("UTF-32 body", json.dumps(good_body()).encode("utf-32")),
    envelope("Latin-1 body", json.dumps(good_body(attributes={"a": "é"}), ensure_ascii=False).encode("latin-1")),
    envelope("lone surrogate in an attribute, escaped", good_bytes(attributes={"a": "\ud800"})),
    envelope(
        "lone surrogate in an attribute, raw", good_bytes(attributes={"a": "@"}).replace(b"@", b"\xed\xa0\x80")
    ),
    envelope("depth bomb for a body", NESTED),
    envelope("depth bomb beside the message", b'{"x":%s,"message":{}}' % NESTED),
    envelope("depth bomb in an attribute", good_bytes(attributes={"a": "@"}).replace(b'"@"', NESTED)),
    envelope("depth bomb of messages", b'{"message":' * 100_000),
    envelope("message absent", {"subscription": "s"}),
    envelope("message null", {"message": None}),
    envelope("message a list", {"message": []}),
    envelope("attributes a list", good_body(attributes=[])),
    envelope("attributes text", good_body(attributes="topic")),
    envelope("attribute a number", good_body(attributes={"topic": 5})),
    envelope("attribute null", good_body(attributes={"topic": None})),
    envelope("attribute an object", good_body(attributes={"topic": {}})),
    envelope("data a number", good_body(data=5)),
    envelope("data an object", good_body(data=tick())),
    envelope("orderingKey a number", good_body(orderingKey=5)),
    envelope("subscription a number", {**good_body(), "subscription": 5}),
    envelope("deliveryAttempt text", {**good_body(), "deliveryAttempt": "5"}),
    envelope("deliveryAttempt boolean", {**good_body(), "deliveryAttempt": True}),
    envelope("deliveryAttempt fractional", {**good_body(), "deliveryAttempt": 1.5}),
    envelope("deliveryAttempt a list", {**good_body(), "deliveryAttempt": []}),
    envelope("deliveryAttempt negative", {**good_body(), "deliveryAttempt": -1}),
    envelope("deliveryAttempt of 2^63", {**good_body(), "deliveryAttempt": 2**63}),
    envelope("deliveryAttempt of 2^64", {**good_body(), "deliveryAttempt": 2**64}),
    envelope("deliveryAttempt of 10^400", {**good_body(), "deliveryAttempt": 10**400}),
    # The first of two is read too, and is no message.
    envelope("message twice, once a number", b'{"message":5,' + good_bytes()[1:]),
]
MALFORMED_MESSAGES = [
    envelope("messageId absent", good_body(messageId=ABSENT), "missing_messageId"),
    envelope("messageId null", good_body(messageId=None), "missing_messageId"),
    envelope("messageId empty", good_body(messageId=""), "missing_messageId"),
    envelope("messageId a number", good_body(messageId=5)),
    envelope("messageId of 257 bytes", good_body(messageId="x" * 257), "invalid_message_id"),
    envelope("messageId of 129 characters, 258 bytes", good_body(messageId="é" * 129), "invalid_message_id"),
    envelope("messageId with a line feed", good_body(messageId="a\nb"), "invalid_message_id"),
    envelope("messageId with NUL", good_body(messageId="a\x00b"), "invalid_message_id"),
    envelope("messageId with DEL", good_body(messageId="a\x7fb"), "invalid_message_id"),
    envelope("messageId with a line separator", good_body(messageId="a\u2028b"), "invalid_message_id"),
    envelope("messageId with a byte order mark", good_body(messageId="\ufeffa"), "invalid_message_id"),
    envelope("messageId with a lone surrogate", good_body(messageId="\ud800")),
    envelope("messageId and message_id differ", good_body(message_id="other"), "messageId_mismatch"),
    envelope("message_id empty beside messageId", good_body(message_id=""), "messageId_mismatch"),
    envelope("publishTime absent", good_body(publishTime=ABSENT), "missing_publishTime"),
    envelope("publishTime empty", good_body(publishTime=""), "missing_publishTime"),
    envelope("publishTime a number", good_body(publishTime=1767873600)),
    envelope("publishTime naive", good_body(publishTime="2026-01-08T12:00:00"), "invalid_publishTime"),
    envelope("publishTime a date", good_body(publishTime="2026-01-08"), "invalid_publishTime"),
    envelope("publishTime a word", good_body(publishTime="yesterday"), "invalid_publishTime"),
    envelope("publishTime before 1970", good_body(publishTime="1969-12-31T23:59:59Z"), "invalid_publishTime"),
    envelope("publishTime in 2300", good_body(publishTime="2300-01-01T00:00:00Z"), "invalid_publishTime"),
    envelope("publishTime year 0", good_body(publishTime="0000-01-01T00:00:00Z"), "invalid_publishTime"),
    envelope(
        "publishTime and publish_time differ",
        good_body(publish_time="2026-01-08T12:00:01Z"),
        "publishTime_mismatch",
    ),
    # More than any letter could hold, and more than Pub/Sub ever sends: it could be neither applied nor buried.
    envelope("attributes of 2 MiB", good_body(attributes={"a": "b" * 2 * MIB}), "envelope_too_large"),
    envelope("orderingKey of 2 MiB", good_body(orderingKey="k" * 2 * MIB), "envelope_too_large"),
    envelope("subscription of 2 MiB", {**good_body(), "subscription": "s" * 2 * MIB}, "envelope_too_large"),
]

METADATA = {
    "content-type": "application/octet-stream",
    "x-goog-pubsub-subscription-name": "projects/local/subscriptions/unwrapped",
    "x-goog-pubsub-message-id": "bad-unwrapped",
    "x-goog-pubsub-publish-time": PUBLISHED,
    "topic": "market-ticks",
}


def unwrapped(name: str, reason: str, **headers: str | None) -> Row:
    """An unwrapped push that would be applied but for these headers; None leaves one out."""
    sent = {**METADATA, **{f"x-goog-pubsub-{key.replace('_', '-')}": value for key, value in headers.items()}}
    kept = {key: value for key, value in sent.items() if value is not None}
    mentions = "write_metadata" if reason == "missing_metadata" else ""
    return with_headers(name, kept, 400, reason, body=json.dumps(tick()).encode(), mentions=mentions)


MALFORMED_UNWRAPPED = [
    unwrapped("unwrapped without metadata", "missing_metadata", message_id=None, publish_time=None),
    unwrapped("unwrapped without message id", "missing_metadata", message_id=None),
    unwrapped("unwrapped without publish time", "missing_metadata", publish_time=None),
    unwrapped("unwrapped with a naive publish time", "invalid_publishTime", publish_time="2026-01-08T12:00:00"),
    unwrapped("unwrapped with a message id of 257 bytes", "invalid_message_id", message_id="x" * 257),
    raw(
        "unwrapped with a message id that is not UTF-8",
        request_bytes("x-goog-pubsub-publish-time: " + PUBLISHED, "content-length: 2")[:-2]
        + b"x-goog-pubsub-message-id: \xff\xfe\r\n\r\n{}",
        status=400,
        reason="invalid_message_id",
    ),
]

UNSUPPORTED = [
    with_headers("content type " + kind.partition(";")[0], {"content-type": kind}, 415, "unsupported_media_type")
    for kind in (
        "text/plain",
        "text/json",
        "application/xml",
        "application/jsonx",
        "application/octet-stream",
        "application/x-www-form-urlencoded",
        "application/cloudevents+json",
        "multipart/form-data; boundary=x",
        "nonsense",
    )
] + [
    with_headers("content encoding " + name, {"content-encoding": name}, 415, "unsupported_media_type", body=body)
    for name, body in (
        ("gzip", gzip.compress(good_bytes())),
        ("deflate", good_bytes()),
        ("br", good_bytes()),
        ("identity, gzip", good_bytes()),
    )
]

REFUSED_BY_SIZE = [
    raw("one header over 32 KiB", request_bytes("x-a: " + "a" * 33_000), status=431, reason="headers_too_large"),
    raw(
        "many small headers over 32 KiB",
        request_bytes(*(f"x-{number}: a" for number in range(5_000))),
        status=431,
        reason="headers_too_large",
    ),
    raw(
        "headers over 32 KiB, one at a time",
        *(f"x-{number}: {'a' * 1_000}\r\n".encode() if number else request_bytes()[:-2] for number in range(40)),
        status=431,
        reason="headers_too_large",
    ),
    raw(
        "header line without end",
        request_bytes()[:-2] + b"x-a: " + b"a" * 50_000,
        status=431,
        reason="headers_too_large",
    ),
    raw(
        "request line without end",
        b"POST /pubsub/push?" + b"a" * 50_000,
        status=431,
        reason="headers_too_large",
    ),
    raw(
        "path over 32 KiB",
        request_bytes(line=f"GET /{'a' * 33_000} HTTP/1.1"),
        status=431,
        reason="headers_too_large",
    ),
    raw(
        "trailers over 32 KiB",
        request_bytes("transfer-encoding: chunked") + chunk(b"{}") + b"0\r\nx-a: " + b"a" * 40_000 + b"\r\n\r\n",
        status=431,
        reason="headers_too_large",
    ),
    raw(
        "trailer without end",
        request_bytes("transfer-encoding: chunked") + chunk(b"{}") + b"0\r\nx-a: " + b"a" * 200_000,
        status=431,
        reason="headers_too_large",
    ),
    raw(
        "body over 14 MiB announced, none of it sent",
        request_bytes(f"content-length: {14 * MIB + 1}"),
        status=413,
        reason="body_too_large",
    ),
    raw(
        "body over 14 MiB announced to a client that waits for 100 Continue",
        request_bytes(f"content-length: {15 * MIB}", "expect: 100-continue"),
        status=413,
        reason="body_too_large",
    ),
    raw(
        "body over 14 MiB announced and sent",
        request_bytes(f"content-length: {15 * MIB}"),
        b" " * 15 * MIB,
        status=413,
        reason="body_too_large",
    ),
    raw(
        "chunked body over 14 MiB",
        request_bytes("transfer-encoding: chunked"),
        *[chunk(b" " * MIB)] * 15,
        status=413,
        reason="body_too_large",
    ),
    raw(
        "body over 14 MiB for the read API",
        request_bytes(f"content-length: {99 * MIB}", line="POST /api/letters/x/replay HTTP/1.1"),
        status=413,
        reason="body_too_large",
    ),
]

NOT_HTTP = [
    raw(name, content, status=400, reason="malformed_http")
    for name, content in (
        ("not HTTP at all", b"hello\r\n\r\n"),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 32),
        ("an HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("a method nobody knows", request_bytes(line="BREW /pubsub/push HTTP/1.1")),
        ("CONNECT", b"CONNECT example.org:443 HTTP/1.1\r\nhost: example.org\r\n\r\n"),
        ("HTTP/1.1 without Host", b"POST /pubsub/push HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"),
        ("NUL in a header", request_bytes("x-a: a\x00b")),
        ("a header without a colon", request_bytes("nonsense")),
        ("bytes over 127 in the path", b"GET /\xff\xfe HTTP/1.1\r\nhost: millpond\r\n\r\n"),
        (
            "Upgrade with a body",
            request_bytes("upgrade: h2c", "connection: upgrade", "content-length: 2") + b"{}",
        ),
        (
            "Upgrade with a chunked body",
            request_bytes("upgrade: websocket", "connection: upgrade", "transfer-encoding: chunked") + chunk(b"{}"),
        ),
        ("Content-Length negative", request_bytes("content-length: -5")),
        ("Content-Length a word", request_bytes("content-length: many")),
        ("Content-Length of thirty digits", request_bytes("content-length: " + "9" * 30)),
        ("Content-Length twice", request_bytes("content-length: 2", "content-length: 3") + b"{}"),
        (
            "Content-Length and chunked",
            request_bytes("content-length: 2", "transfer-encoding: chunked") + chunk(b"{}"),
        ),
        ("Transfer-Encoding gzip", request_bytes("transfer-encoding: gzip") + b"{}"),
        ("a chunk size that is no number", request_bytes("transfer-encoding: chunked") + b"many\r\n{}"),
    )
]


def wrong_methods() -> Iterator[Row]:
    """Every route with every method it does not have."""
    routes: dict[str, frozenset[str]] = {
        **dict.fromkeys(("/pubsub/push", "/events"), frozenset({"POST"})),
        **dict.fromkeys(("/", "/health", "/healthz", "/ready", "/readyz", "/live", "/livez"), READ),
        **dict.fromkeys(("/metrics", "/openapi.json", "/api/stats", "/api/collections", "/api/letters"), READ),
        **dict.fromkeys(("/api/docs/a", "/api/docs/a/b", "/api/why/a"), READ),
        "/api/letters/a": READ | {"DELETE"},
        "/api/letters/a/replay": frozenset({"POST"}),
    }
    for path, allowed in routes.items():
        for method in sorted({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} - allowed):
            yield Row(
                f"{method} {path}",
                by_method(method, path),
                405,
                "method_not_allowed",
                "ERROR" if path == "/pubsub/push" else "WARNING",
                api=path != "/pubsub/push",
                allow=allowed,
                bodiless=method == "HEAD",
            )


def by_method(method: str, path: str) -> Send:
    def send(server: Server) -> Answer:
        response = server.http.request(method, path)
        return Answer(
            response.status_code, dict(response.headers), json.loads(response.content) if response.content else None
        )

    return send


UNKNOWN = [
    Row(f"{method} {path}", by_method(method, path), 404, "not_found", "WARNING", api=True)
    for method, path in (
        ("GET", "/nowhere"),
        ("POST", "/nowhere"),
        ("DELETE", "/nowhere"),
        ("GET", "/pubsub"),
        ("POST", "/pubsub/push/"),
        ("POST", "/PUBSUB/PUSH"),
        ("GET", "/health/"),
        ("GET", "/healthy"),
        ("GET", "/api/"),
        ("GET", "/api/nothing"),
        ("GET", "/api/docs"),
        ("GET", "/api/docs/a/b/c"),
        ("GET", "/api/stats/a"),
        ("GET", "/api/why"),
        ("POST", "/api/letters/a/bury"),
        ("GET", "/.env"),
    )
] + [
    Row(f"GET /api/docs/a?limit={limit}", by_method("GET", f"/api/docs/a?limit={limit}"), 400, "invalid_query",
        "WARNING", api=True)
    for limit in ("0", "1001", "-1", "many", "", "1e2", "%00", "%D9%A1", "9" * 30)
]  # fmt: skip


REQUESTS = [
    *MALFORMED_BODIES,
    *MALFORMED_MESSAGES,
    *MALFORMED_UNWRAPPED,
    *UNSUPPORTED,
    *REFUSED_BY_SIZE,
    *NOT_HTTP,
    *wrong_methods(),
    *UNKNOWN,
]
