"""`POST /pubsub/push`: decodes a request, submits it to the engine, and answers in JSON. This is the hot path.

The endpoint works with callbacks. `http.fast_push` calls it directly from the connection for plain requests, which
are nearly all; for any other it is an ASGI application. If there is a guard, never reads a request's body before
its token is verified.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from millpond.core.ack import ACKNOWLEDGED, settle_push
from millpond.core.answers import ErrorText, Reason, Topic, TraceText, ViewAnswer
from millpond.core.decode import decode_push, decode_unwrapped
from millpond.core.errors import InternalError, MalformedEnvelope, Overloaded, PushRefused, explained, trace_of
from millpond.core.model import Delivery, Outcome, Result
from millpond.engine.engine import Engine
from millpond.ingress.oidc import PushGuard
from millpond.live.outcomes import Outcomes

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

PUSH_PATH = "/pubsub/push"
RETRY_AFTER_S = 1
# Requests that may wait for certificates; each holds the body bytes that arrived with its headers.
CHECKS_MAX = 256
_JSON = (b"content-type", b"application/json")
# Headers that some refusals must have.
_HEADERS = {
    401: (b"www-authenticate", b"Bearer"),
    405: (b"allow", b"POST"),
    429: (b"retry-after", b"%d" % RETRY_AFTER_S),
}
_PUBSUB_HEADER = b"x-goog-pubsub-"
# Headers of an unwrapped push that HTTP or a proxy adds. Every other header is an attribute of the message.
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


class Answer(msgspec.Struct):
    """A message that is settled: Pub/Sub may forget it."""

    outcome: Outcome
    reason: Reason
    messageId: Annotated[str, msgspec.Meta(description="Empty if none could be read.")]  # noqa: N815 - the wire's name
    topic: Topic
    views: list[ViewAnswer]


class Buried(Answer):
    """A message that can never succeed, and is kept as a dead letter: Pub/Sub may forget it."""

    error: ErrorText
    trace: TraceText | UnsetType = UNSET


class Refusal(Answer):
    """A message that is not settled, or a request without one."""

    error: ErrorText
    trace: TraceText | UnsetType = UNSET


# Called once with the status, headers beyond content type and length, and the JSON body.
Respond = Callable[[int, Headers, bytes], None]


class PushEndpoint:
    """Decodes a request, submits it to the engine, and answers when its outcome is durable."""

    def __init__(self, engine: Engine, outcomes: Outcomes, guard: PushGuard | None = None) -> None:
        self._engine = engine
        self._outcomes = outcomes
        self.guard = guard
        # Keeps references: the event loop itself keeps only weak ones to its tasks.
        self._checks: set[asyncio.Task[None]] = set()
        self._encode = msgspec.json.Encoder().encode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The endpoint as an ASGI application."""
        answered: asyncio.Future[tuple[int, Headers, bytes]] = asyncio.get_running_loop().create_future()

        def respond(status: int, headers: Headers, answer: bytes) -> None:
            if not answered.done():
                answered.set_result((status, headers, answer))

        if await self._is_allowed(scope["headers"], respond):
            body = await _read_body(receive)
            if body is None:
                return
            self.accept(scope["method"], scope["headers"], body, respond)
            del body
        await _send(send, *await answered)

    async def refuse(self, error: PushRefused, send: Send) -> None:
        """Answer a request whose sender may not push. Nothing of its body is read."""
        answers: list[tuple[int, Headers, bytes]] = []
        result = Result(Outcome.RETRY, error.reason, error=error)
        self._answer(None, time.perf_counter(), lambda *answer: answers.append(answer), result)
        await _send(send, *answers[0])

    async def _is_allowed(self, headers: Headers, respond: Respond) -> bool:
        """Whether the token is valid. If not, the request is answered, and its body is not read."""
        if self.knows(headers):
            return True
        allowed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def refuse(status: int, headers: Headers, answer: bytes) -> None:
            respond(status, headers, answer)
            allowed.set_result(False)

        self.verify(headers, lambda: allowed.set_result(True), refuse)
        return await allowed

    def knows(self, headers: Headers) -> bool:
        """Whether the body may be read now: there is no guard, or it has verified the token before."""
        return self.guard is None or self.guard.knows(_only(headers, b"authorization"))

    def verify(self, headers: Headers, go_on: Callable[[], None], respond: Respond) -> None:
        """Verify the token, then call `go_on`, or answer why not. Call this only if `knows` is false."""
        guard, authorization = self.guard, _only(headers, b"authorization")
        refuse = partial(self._answer, None, time.perf_counter(), respond)
        if guard is None or len(self._checks) >= CHECKS_MAX:
            error = Overloaded(f"{CHECKS_MAX} requests wait for their tokens to be verified")
            refuse(Result(Outcome.RETRY, error.reason, error=error))
            return

        async def check() -> None:
            try:
                await guard.verify(authorization)
            except PushRefused as error:
                refuse(Result(Outcome.RETRY, error.reason, error=error))
            except Exception as bug:  # noqa: BLE001 - after any failure the sender is not authenticated
                refuse(Result(Outcome.RETRY, InternalError.reason, error=InternalError(bug)))
            else:
                go_on()

        task = asyncio.get_running_loop().create_task(check())
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    def accept(self, method: str, headers: Headers, body: bytes, respond: Respond) -> None:
        """Take a request whose token is valid: `respond` is called now or when the message is settled."""
        started = time.perf_counter()
        delivery: Delivery | None = None
        try:
            delivery = _decode(method, headers, body)
            self._engine.submit(delivery, partial(self._answer, delivery, started, respond), wait=True)
            return
        except Overloaded as error:
            result = Result(Outcome.RETRY, error.reason, error=error)
        except MalformedEnvelope as error:
            result = Result(Outcome.POISON, error.reason, error=error)
        except Exception as bug:  # noqa: BLE001 - after any failure the broker must get an answer, and deliver again
            result = Result(Outcome.RETRY, InternalError.reason, error=InternalError(bug))
        self._answer(delivery, started, respond, result)
        # Breaks a cycle: the error's traceback refers to this frame, which refers to the error and to the body.
        del result

    def _answer(self, delivery: Delivery | None, started: float, respond: Respond, result: Result) -> None:
        settlement = settle_push(result)
        status = settlement.http_status
        views = [ViewAnswer(view.view, view.doc, view.outcome, view.reason) for view in result.views]
        message_id = delivery.message_id if delivery is not None else ""
        headers: Headers = []
        if status == ACKNOWLEDGED and result.outcome is not Outcome.POISON:
            body = self._encode(Answer(result.outcome, result.reason, message_id, result.topic, views))
        else:
            if isinstance(result.error, _Refused | PushRefused):
                status = result.error.status
                settlement = settlement._replace(http_status=status)
            if status in _HEADERS:
                headers = [_HEADERS[status]]
            error, trace = explained(result.error), trace_of(result.error) or UNSET
            kind = Buried if status == ACKNOWLEDGED else Refusal
            body = self._encode(kind(result.outcome, result.reason, message_id, result.topic, views, error, trace))
        respond(status, headers, body)
        self._outcomes.publish(delivery, result, settlement, time.perf_counter() - started)


class _Refused(MalformedEnvelope):
    """A malformed request with a more specific status than 400."""

    status = 400


class _ForeignOrigin(_Refused):
    status = 403
    reason = "foreign_origin"
    severity = "WARNING"


class _MethodNotAllowed(_Refused):
    status = 405


class _UnsupportedMediaType(_Refused):
    status = 415
    reason = "unsupported_media_type"


async def _send(send: Send, status: int, headers: Headers, answer: bytes) -> None:
    headers = [_JSON, (b"content-length", b"%d" % len(answer)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body; None if the client disconnected. The server limits its size and time."""
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


def _decode(method: str, headers: Headers, body: bytes) -> Delivery:
    if method != "POST":
        raise _MethodNotAllowed("send a POST", reason="method_not_allowed")
    content_type = b""
    unwrapped = False
    for name, value in headers:
        if name == b"content-type":
            content_type = value
        elif name == b"origin":
            # No broker sends Origin. A page of another site may: without a content type there is no preflight.
            if not is_own_origin(value, _only(headers, b"host")):
                raise _ForeignOrigin("this request comes from a page of another site")
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            raise _UnsupportedMediaType("send the body without Content-Encoding")
        elif name.startswith(_PUBSUB_HEADER):
            unwrapped = True
    if unwrapped:
        return decode_unwrapped(_metadata_and_attributes(headers), body)
    if content_type != b"application/json" and not _is_json(content_type):
        raise _UnsupportedMediaType("send application/json, or an unwrapped push with x-goog-pubsub-* headers")
    return decode_push(body)


def _only(headers: Headers, wanted: bytes) -> bytes:
    """A header's value; empty if it is missing or repeated, since a proxy may have used the other value."""
    found = [value for name, value in headers if name == wanted]
    return found[0] if len(found) == 1 else b""


def is_own_origin(origin: bytes, host: bytes) -> bool:
    """Whether the page at `origin` was served by this server, under the `Host` of this request."""
    return host != b"" and origin.partition(b"://")[2] == host


def _is_json(content_type: bytes) -> bool:
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in {b"application/json", b""}


def _metadata_and_attributes(headers: Headers) -> dict[str, str]:
    found: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1")
        if name not in _NOT_ATTRIBUTES and not name.startswith(_NOT_ATTRIBUTE_PREFIXES):
            try:
                found[name] = raw_value.decode()
            except UnicodeDecodeError:
                reason = "invalid_message_id" if name.endswith("-message-id") else None
                raise MalformedEnvelope(f"the header {name} is not UTF-8", reason) from None
    return found
