"""Requests nothing can be identified in: one row each, with everything it must lead to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.common.push import ABSENT, PUBLISHED, good_body, good_bytes, tick
from tests.common.server import VIEW_COLLECTIONS, Answer, Server

WATCHED = (*VIEW_COLLECTIONS, "ops_dedupe")
MIB = 1024 * 1024
JSON_TYPE = "content-type: application/json"
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


# One of each kind: `tests/core/test_decode.py` has every other.
MALFORMED_BODIES = [
    envelope("empty body", b""),
    envelope("not JSON", b"message=1&subscription=2"),
    envelope("UTF-16 body", json.dumps(good_body()).encode("utf-16")),
    envelope("depth bomb for a body", b"[" * 100_000),
    envelope("message absent", {"subscription": "s"}),
    envelope("attribute a number", good_body(attributes={"topic": 5})),
    envelope("deliveryAttempt of 10^400", {**good_body(), "deliveryAttempt": 10**400}),
    envelope("messageId absent", good_body(messageId=ABSENT), "missing_messageId"),
    envelope("messageId with a line feed", good_body(messageId="a\nb"), "invalid_message_id"),
    envelope("messageId and message_id differ", good_body(message_id="other"), "messageId_mismatch"),
    envelope("publishTime absent", good_body(publishTime=ABSENT), "missing_publishTime"),
    envelope("publishTime naive", good_body(publishTime="2026-01-08T12:00:00"), "invalid_publishTime"),
    envelope("publishTimes differ", good_body(publish_time="2026-01-08T12:00:01Z"), "publishTime_mismatch"),
    envelope("attributes of 2 MiB", good_body(attributes={"a": "b" * 2 * MIB}), "envelope_too_large"),
]

METADATA = {
    "content-type": "application/octet-stream",
    "x-goog-pubsub-subscription-name": "projects/local/subscriptions/unwrapped",
    "x-goog-pubsub-message-id": "bad-unwrapped",
    "x-goog-pubsub-publish-time": PUBLISHED,
    "topic": "market-ticks",
}


MALFORMED_UNWRAPPED = [
    with_headers(
        "unwrapped without metadata",
        {name: METADATA[name] for name in ("content-type", "x-goog-pubsub-subscription-name", "topic")},
        *(400, "missing_metadata"),
        body=json.dumps(tick()).encode(),
        mentions="write_metadata",
    ),
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

CHUNKED = request_bytes("transfer-encoding: chunked")
HEADERS_TOO_LARGE: dict[str, list[bytes]] = {
    "one header over 32 KiB": [request_bytes("x-a: " + "a" * 33_000)],
    "many small headers over 32 KiB": [request_bytes(*(f"x-{number}: a" for number in range(5_000)))],
    "headers over 32 KiB, one at a time": [
        request_bytes()[:-2],
        *(f"x-{number}: {'a' * 1_000}\r\n".encode() for number in range(40)),
    ],
    "header line without end": [request_bytes()[:-2] + b"x-a: " + b"a" * 50_000],
    "request line without end": [b"POST /pubsub/push?" + b"a" * 50_000],
    "path over 32 KiB": [request_bytes(line=f"GET /{'a' * 33_000} HTTP/1.1")],
    "trailers over 32 KiB": [CHUNKED + chunk(b"{}") + b"0\r\nx-a: " + b"a" * 40_000 + b"\r\n\r\n"],
    "trailer without end": [CHUNKED + chunk(b"{}") + b"0\r\nx-a: " + b"a" * 200_000],
}
BODY_TOO_LARGE: dict[str, list[bytes]] = {
    "body over 14 MiB announced, none of it sent": [request_bytes(f"content-length: {14 * MIB + 1}")],
    "body over 14 MiB announced to a client that waits for 100 Continue": [
        request_bytes(f"content-length: {15 * MIB}", "expect: 100-continue")
    ],
    "body over 14 MiB announced and sent": [request_bytes(f"content-length: {15 * MIB}"), b" " * 15 * MIB],
    "chunked body over 14 MiB": [CHUNKED, *[chunk(b" " * MIB)] * 15],
    "body over 14 MiB for the read API": [
        request_bytes(f"content-length: {99 * MIB}", line="POST /api/letters/x/replay HTTP/1.1")
    ],
}
REFUSED_BY_SIZE = [
    *(raw(name, *sent, status=431, reason="headers_too_large") for name, sent in HEADERS_TOO_LARGE.items()),
    *(raw(name, *sent, status=413, reason="body_too_large") for name, sent in BODY_TOO_LARGE.items()),
]

NOT_HTTP = [
    raw(name, content, status=400, reason="malformed_http")
    for name, content in (
        ("not HTTP at all", b"hello\r\n\r\n"),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 32),
        ("an HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("a method that HTTP does not have", request_bytes(line="BREW /pubsub/push HTTP/1.1")),
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
        **dict.fromkeys(("/pubsub/push", "/events", "/api/flow-runs", "/api/flow-runs/sweep"), frozenset({"POST"})),
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
    *MALFORMED_UNWRAPPED,
    *UNSUPPORTED,
    *REFUSED_BY_SIZE,
    *NOT_HTTP,
    *wrong_methods(),
    *UNKNOWN,
]
