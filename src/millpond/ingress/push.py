"""`POST /pubsub/push` as a plain ASGI callable: bytes in, engine, JSON out. Nothing else on the hot path."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from millpond.decode import decode_push, decode_unwrapped
from millpond.engine import Engine
from millpond.errors import MalformedEnvelope, Overloaded
from millpond.log import Log
from millpond.metrics import Metrics
from millpond.model import Delivery, Outcome, Result
from millpond.settle import ACKNOWLEDGED, Settlement, settle_push

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

RETRY_AFTER_S = 1
_JSON = (b"content-type", b"application/json")
_PUBSUB_HEADER = b"x-goog-pubsub-"
# What HTTP itself, or the way here, adds to an unwrapped push. Everything else is an attribute of the message.
_NOT_ATTRIBUTES = frozenset(
    {
        *("accept", "accept-encoding", "accept-language", "authorization", "cache-control", "connection"),
        *(
            "content-length",
            "content-type",
            "cookie",
            "expect",
            "forwarded",
            "from",
            "host",
            "keep-alive",
            "origin",
        ),
        *("pragma", "proxy-authorization", "referer", "te", "traceparent", "tracestate", "transfer-encoding"),
        *("upgrade", "user-agent", "via", "x-cloud-trace-context"),
    }
)
_NOT_ATTRIBUTE_PREFIXES = ("x-forwarded-", "x-serverless-", "x-appengine-", "sec-")


class ViewAnswer(msgspec.Struct):
    view: str
    doc: str
    outcome: str
    reason: str


class Answer(msgspec.Struct):
    outcome: str
    reason: str
    messageId: str  # noqa: N815 - the wire's name
    topic: str
    views: list[ViewAnswer]


class Refusal(Answer):
    error: str


class PushEndpoint:
    def __init__(self, engine: Engine, log: Log, metrics: Metrics) -> None:
        self._engine = engine
        self._log = log
        self._metrics = metrics
        self._encode = msgspec.json.Encoder().encode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            error = Result(Outcome.POISON, "method_not_allowed", error=MalformedEnvelope("use POST"))
            await self._answer(
                send, None, error, Settlement(405, None, "WARNING", retryable=False), time.perf_counter()
            )
            return
        body = await _read_body(receive)
        if body is None:
            return
        started = time.perf_counter()
        delivery: Delivery | None = None
        try:
            delivery = _decode(scope["headers"], body)
        except _UnsupportedMediaType as error:
            result = Result(Outcome.POISON, "unsupported_media_type", error=error)
            settlement = Settlement(415, None, "ERROR", retryable=False)
        except MalformedEnvelope as error:
            result = Result(Outcome.POISON, error.reason, error=error)
            settlement = settle_push(result)
        else:
            try:
                result = await self._engine.handle(delivery)
            except Overloaded as error:
                result = Result(Outcome.RETRY, error.reason, error=error)
            settlement = settle_push(result)
        await self._answer(send, delivery, result, settlement, started)

    async def _answer(
        self, send: Send, delivery: Delivery | None, result: Result, settlement: Settlement, started: float
    ) -> None:
        status = settlement.http_status or 503
        views = [ViewAnswer(view.view, view.doc, view.outcome, view.reason) for view in result.views]
        message_id = delivery.message_id if delivery is not None else ""
        if status == ACKNOWLEDGED:
            body = self._encode(Answer(result.outcome, result.reason, message_id, result.topic, views))
        else:
            error = f"{result.error}"
            body = self._encode(Refusal(result.outcome, result.reason, message_id, result.topic, views, error))
        headers: Headers = [_JSON, (b"content-length", b"%d" % len(body))]
        if status == 429:
            headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
        elif status == 405:
            headers.append((b"allow", b"POST"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        latency_s = time.perf_counter() - started
        self._log.message(delivery, result, settlement, latency_s, self._engine.wall_clock())
        metrics = self._metrics
        metrics.push_responses[status] += 1
        metrics.messages[result.topic, result.outcome, result.reason] += 1
        metrics.message_seconds.observe(latency_s)


class _UnsupportedMediaType(MalformedEnvelope):
    pass


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body; None where the client went away. Its size and its time are bounded by the server."""
    message = await receive()
    if message["type"] != "http.request":
        return None
    if not message.get("more_body"):
        return message["body"]  # type: ignore[no-any-return]
    parts = [message["body"]]
    while message.get("more_body"):
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message["body"])
    return b"".join(parts)


def _decode(headers: Headers, body: bytes) -> Delivery:
    content_type = b""
    unwrapped = False
    for name, value in headers:
        if name == b"content-type":
            content_type = value
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            raise _UnsupportedMediaType("send the body without Content-Encoding")
        elif name.startswith(_PUBSUB_HEADER):
            unwrapped = True
    if unwrapped:
        return decode_unwrapped(_metadata_and_attributes(headers), body)
    if content_type != b"application/json" and not _is_json(content_type):
        raise _UnsupportedMediaType("send application/json, or an unwrapped push with x-goog-pubsub-* headers")
    return decode_push(body)


def _is_json(content_type: bytes) -> bool:
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in {b"application/json", b""}


def _metadata_and_attributes(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1")
        if name not in _NOT_ATTRIBUTES and not name.startswith(_NOT_ATTRIBUTE_PREFIXES):
            found[name] = raw_value.decode("utf-8", "replace")
    return found
