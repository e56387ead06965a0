"""Makes request number N of a seed, as bytes. It depends on nothing else, so any request can be repeated alone."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import NamedTuple

from proof.fuzz import mutate_bytes, mutate_json
from proof.fuzz.messages import Message, good_event, good_message
from proof.fuzz.mutate_bytes import Headers
from tests.common.eventarc import UPDATED, Sent
from tests.common.push import push_body

PUSH = "/pubsub/push"
EVENTS = "/events"
_HOST = (b"host", b"127.0.0.1")
_JSON = (b"content-type", b"application/json")
MIB = 1024 * 1024
# How many mutations a request gets; 0 leaves it valid.
_TIMES = (0, 1, 1, 1, 1, 2, 2, 3)


class Request(NamedTuple):
    """`framed`: its bytes are exactly one HTTP request, so the server must send one answer."""

    number: int
    kind: str
    path: str
    raw: bytes
    framed: bool = True


def make_request(seed: int, number: int) -> Request:
    rng = random.Random(f"{seed}/{number}")
    kind = rng.choices([*_KINDS], [weight for weight, _ in _KINDS.values()])[0]
    return _KINDS[kind][1](rng, number, kind)


# --- pushes ------------------------------------------------------------------------------------------------------


def _body_of(message: Message, data: str) -> dict[str, object]:
    fields: dict[str, object] = {"messageId": message.message_id, "publishTime": message.published, "data": data}
    if message.topic is not None:
        fields["attributes"] = {"topic": message.topic, "colour": "blue"}
    body: dict[str, object] = {"message": fields}
    if message.subscription is not None:
        body["subscription"] = message.subscription
    if message.attempt is not None:
        body["deliveryAttempt"] = message.attempt
    return body


def _wrapped(message: Message, payload: bytes) -> bytes:
    return json.dumps(_body_of(message, base64.b64encode(payload).decode())).encode()


def _encoded(message: Message) -> bytes:
    return json.dumps(message.payload).encode()


def _push(rng: random.Random, number: int, kind: str, body: bytes, spoiled_headers: int = 0) -> Request:
    headers = mutate_bytes.spoil_headers(rng, [_HOST, _JSON], spoiled_headers)
    return Request(number, kind, PUSH, _framed(rng, PUSH, headers, body))


def _push_body(rng: random.Random, number: int, kind: str) -> Request:
    """The envelope is mutated, the message in it is not."""
    message = good_message(rng, number)
    root = mutate_json.tree(_body_of(message, base64.b64encode(_encoded(message)).decode()))
    mutate_json.spoil(rng, root, rng.choice(_TIMES))
    return _push(rng, number, kind, mutate_json.written(root, ascii_only=rng.random() < 0.7))


def _push_payload(rng: random.Random, number: int, kind: str) -> Request:
    """The envelope is valid, the message in it is mutated."""
    message = good_message(rng, number)
    root = mutate_json.tree(message.payload)
    mutate_json.spoil(rng, root, rng.choice(_TIMES))
    if rng.random() < 0.03:
        root = mutate_json.odd_value(rng)
    return _push(rng, number, kind, _wrapped(message, mutate_json.written(root, ascii_only=rng.random() < 0.7)))


def _push_base64(rng: random.Random, number: int, kind: str) -> Request:
    message = good_message(rng, number)
    body = _body_of(message, mutate_bytes.spoiled_base64(rng, _encoded(message)))
    return _push(rng, number, kind, json.dumps(body).encode())


def _push_bytes(rng: random.Random, number: int, kind: str) -> Request:
    message = good_message(rng, number)
    body = _wrapped(message, _encoded(message))
    if rng.random() < 0.3:
        other = good_message(rng, number)
        return _push(rng, number, kind, mutate_bytes.splice(rng, body, _wrapped(other, _encoded(other))))
    return _push(rng, number, kind, mutate_bytes.spoil(rng, body, rng.choice((1, 1, 2, 3))))


def _push_headers(rng: random.Random, number: int, kind: str) -> Request:
    message = good_message(rng, number)
    return _push(rng, number, kind, _wrapped(message, _encoded(message)), rng.choice((1, 1, 2)))


def _push_big(rng: random.Random, number: int, kind: str) -> Request:
    """More than an envelope, or a document, may hold."""
    message = good_message(rng, number)
    body = _body_of(message, base64.b64encode(_encoded(message)).decode())
    draw = rng.random()
    if draw < 0.4:
        body["subscription"] = "s" * rng.choice((199_000, 200_001, 2 * MIB))
    elif draw < 0.8:
        message = message._replace(topic="ingest-heartbeat", payload={"pipeline": "big", "notes": "x" * (MIB + 1)})
        return _push(rng, number, kind, _wrapped(message, _encoded(message)))
    else:
        body["message"] = {"attributes": {f"a{n}": "b" * 900 for n in range(300)}, **_fields(body["message"])}
    return _push(rng, number, kind, json.dumps(body).encode())


def _fields(value: object) -> dict[str, object]:
    return {name: held for name, held in value.items() if name != "attributes"} if isinstance(value, dict) else {}


def _unwrapped(rng: random.Random, number: int, kind: str) -> Request:
    message = good_message(rng, number)
    prefix = "x-goog-pubsub-"
    given = {f"{prefix}message-id": message.message_id, f"{prefix}publish-time": message.published}
    if message.subscription is not None:
        given[f"{prefix}subscription-name"] = message.subscription
    if message.topic is not None:
        given["topic"] = message.topic
    headers = [_HOST, *((name.encode(), value.encode()) for name, value in given.items())]
    draw = rng.random()
    body = _encoded(message)
    if draw < 0.35:
        headers = mutate_bytes.spoil_headers(rng, headers, rng.choice((1, 1, 2)))
    elif draw < 0.6:
        root = mutate_json.tree(message.payload)
        mutate_json.spoil(rng, root, rng.choice((1, 1, 2)))
        body = mutate_json.written(root)
    elif draw < 0.75:
        body = mutate_bytes.spoil(rng, body, 1)
    return Request(number, kind, PUSH, _framed(rng, PUSH, headers, body))


# --- events ------------------------------------------------------------------------------------------------------


def _event(rng: random.Random, number: int, kind: str) -> Request:
    event = good_event(rng, number)
    sent = event.sent()
    headers = [_HOST, *((name.encode(), value.encode()) for name, value in sent.headers.items())]
    body = sent.body
    draw = rng.random()
    if draw < 0.25:
        headers = mutate_bytes.spoil_headers(rng, headers, rng.choice((1, 1, 2)))
    elif draw < 0.65:
        body = _spoiled_data(rng, event.form, sent)
    elif draw < 0.72:
        body = mutate_bytes.splice(rng, body, good_event(rng, number).sent().body)
    return Request(number, kind, EVENTS, _framed(rng, EVENTS, headers, body))


def _spoiled_data(rng: random.Random, form: str, sent: Sent) -> bytes:
    if not sent.body or rng.random() < 0.2:
        return mutate_bytes.spoil(rng, sent.body, rng.choice((1, 1, 3)))
    if form == "binary protobuf":
        return mutate_bytes.spoil_protobuf(rng, sent.body, rng.choice((1, 1, 2)))
    event = json.loads(sent.body)
    if form == "structured base64" and rng.random() < 0.6:
        data = mutate_bytes.spoil_protobuf(rng, base64.b64decode(event["data_base64"]), 1)
        text = base64.b64encode(data).decode() if rng.random() < 0.7 else mutate_bytes.spoiled_base64(rng, data)
        return json.dumps({**event, "data_base64": text}).encode()
    root = mutate_json.tree(event)
    mutate_json.spoil(rng, root, rng.choice((1, 1, 2, 3)))
    return mutate_json.written(root)


# --- HTTP --------------------------------------------------------------------------------------------------------


def _framed(rng: random.Random, path: str, headers: Headers, body: bytes) -> bytes:
    """One request, mostly a plain POST; sometimes with another method or framing."""
    method = rng.choice(("GET", "PUT", "PATCH", "DELETE", "OPTIONS")) if rng.random() < 0.01 else "POST"
    way, version = rng.random(), "HTTP/1.1"
    if way < 0.06:
        headers = [*headers, (b"transfer-encoding", b"chunked")]
        at = rng.randint(0, len(body))
        pieces = [piece for piece in (body[:at], body[at:]) if piece]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    else:
        headers = [*headers, (b"content-length", b"%d" % len(body))]
        if way < 0.09:
            version = "HTTP/1.0"
        elif way < 0.1:
            headers = [*headers, (b"expect", b"100-continue")]
        elif way < 0.11:
            headers = [*headers, (b"connection", b"close")]
        elif way < 0.12:
            path += "?a=b&limit=x"
    return _head(f"{method} {path} {version}".encode(), headers) + body


def _head(line: bytes, headers: Headers) -> bytes:
    return line + b"\r\n" + b"".join(b"%s: %s\r\n" % header for header in headers) + b"\r\n"


def _not_http(rng: random.Random, number: int, kind: str) -> Request:
    """Bytes that violate HTTP, or whose headers contradict the body."""
    message = good_message(rng, number)
    path, body = rng.choice((PUSH, EVENTS)), _wrapped(message, _encoded(message))
    line, length = f"POST {path} HTTP/1.1".encode(), (b"content-length", b"%d" % len(body))
    usual = [_HOST, _JSON, length]
    whole = _head(line, usual) + body
    head_length = len(whole) - len(body)
    other = b"%d" % max(0, len(body) + rng.choice((-50, -1, 1, 50)))
    raw = rng.choice(
        (
            mutate_bytes.spoil(rng, whole[:head_length], rng.choice((1, 1, 2, 4))) + body,
            mutate_bytes.spoil(rng, whole[:head_length], 1) + body,
            whole[: rng.randrange(len(whole))],
            _head(line, [_HOST, _JSON, (b"content-length", other)]) + body,
            _head(line, [*usual, (b"content-length", other)]) + body,
            _head(line, [*usual, (b"transfer-encoding", b"chunked")]) + body,
            _head(line, [_HOST, _JSON, (b"transfer-encoding", rng.choice((b"gzip", b"chunked")))]) + body,
            _head(line, [_JSON, length]) + body,
            _head(line, [*usual, (b"x-a", b"a" * 33_000)]) + body,
            _head(line, [*usual, *((b"x-%d" % n, b"a" * 50) for n in range(700))]) + body,
            _head(
                line, [_HOST, (b"content-length", rng.choice((b"14680065", b"99999999", b"9" * 30, b"-1", b"+5")))]
            ),
            whole.replace(b"\r\n", rng.choice((b"\n", b"\r", b"\r\r\n")), rng.choice((1, 2, 9))),
            whole.replace(b"HTTP/1.1", rng.choice((b"HTTP/2.0", b"HTTP/9.9", b"ICY", b"http/1.1", b"")), 1),
            whole.replace(b"POST", rng.choice((b"BREW", b"post", b"P\x00ST", b"", b"PRI")), 1),
            _head(line, usual) + body + whole,
            rng.randbytes(rng.choice((1, 10, 300))),
        )
    )
    return Request(number, kind, path, raw, framed=False)


_KINDS: dict[str, tuple[float, Callable[[random.Random, int, str], Request]]] = {
    "push: envelope": (0.28, _push_body),
    "push: payload": (0.25, _push_payload),
    "push: base64": (0.04, _push_base64),
    "push: bytes": (0.07, _push_bytes),
    "push: headers": (0.05, _push_headers),
    "push: too big": (0.002, _push_big),
    "push: unwrapped": (0.11, _unwrapped),
    "event": (0.168, _event),
    "not HTTP": (0.03, _not_http),
}
KINDS = (*_KINDS,)


def _fence(path: str, headers: Headers, body: object) -> Request:
    content = json.dumps(body).encode()
    head = _head(b"POST %s HTTP/1.1" % path.encode(), [_HOST, *headers, (b"content-length", b"%d" % len(content))])
    return Request(-1, "fence", path, head + content)


# Valid and always the same: one reads the store and changes nothing, the other is committed once.
READ_FENCE = _fence(
    EVENTS,
    [(b"content-type", b"application/cloudevents+json")],
    {"specversion": "1.0", "id": "f", "source": "f", "type": UPDATED, "subject": "documents/flow_runs/fence"},
)
WRITE_FENCE = _fence(
    PUSH,
    [_JSON],
    push_body({"symbol": "FENCE"}, message_id="fence", topic="market-ticks", subscription="fence"),
)
