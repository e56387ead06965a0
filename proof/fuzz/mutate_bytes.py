"""Mutations of bytes: without knowledge of their meaning, or with that of protobuf, base64 and headers."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

Spoil = Callable[[random.Random, bytes], bytes]
# Chosen more often: quotes, braces, terminators, escapes, and the smallest and greatest byte values.
_TELLING = b'"{}[]:,\\ \n\r\t\x00\x7f\x80\xbf\xc0\xed\xff=+-_/0'


def _flip_bit(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _replace(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.choice(_TELLING)]) + data[at + 1 :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randint(0, len(data))
    more = bytes(rng.choice(_TELLING) for _ in range(rng.choice((1, 1, 2, 8))))
    return data[:at] + more + data[at:]


def _cut_out(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 1, 2, 10, 100)) :]


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    end = min(len(data), at + rng.choice((1, 4, 40, 400)))
    return data[:end] + data[at:end] * rng.choice((1, 2, 10)) + data[end:]


def _wrap(rng: random.Random, data: bytes) -> bytes:
    before, after = rng.choice(
        (
            (b"\xef\xbb\xbf", b""),
            (b"", b"\n"),
            (b" \r\n\t", b" "),
            (b"", b"x"),
            (b"[", b"]"),
            (b"", data),
            (b"\x00", b""),
        )
    )
    return before + data + after


def _recode(rng: random.Random, data: bytes) -> bytes:
    return data.decode("latin-1").encode(rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8")))


_BYTEWISE: tuple[Spoil, ...] = (
    *(_flip_bit, _flip_bit, _replace, _replace, _insert, _insert, _cut_out, _truncate, _repeat, _wrap, _recode),
)


def spoil(rng: random.Random, data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = rng.choice(_BYTEWISE)(rng, data) if data else bytes([rng.choice(_TELLING)])
    return data


def splice(rng: random.Random, one: bytes, other: bytes) -> bytes:
    """The beginning of one and the end of the other."""
    return one[: rng.randint(0, len(one))] + other[rng.randint(0, len(other)) :]


# --- base64 ------------------------------------------------------------------------------------------------------


def spoiled_base64(rng: random.Random, data: bytes) -> str:
    """Data as text that is almost base64 or not base64 at all, or is the base64 of other data."""
    text = base64.b64encode(data).decode()
    at = rng.randint(0, len(text))
    return rng.choice(
        (
            text.rstrip("="),
            text + "=",
            text[:at] + "\n" + text[at:],
            text[:at] + rng.choice("!-_é \x00") + text[at:],
            text[:at],
            " " + text,
            base64.urlsafe_b64encode(data + b"\xff\xfe?>").decode(),
            base64.b64encode(text.encode()).decode(),
            base64.b64encode(spoil(rng, data, 1)).decode(),
            "e30=" + text,
            "A",
            "====",
            "",
        )
    )


# --- protobuf ----------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _field(rng: random.Random) -> bytes:
    """An unknown field, or a known one with a different wire type."""
    tag = rng.choice((1, 2, 3, 4, 15, 16, 1_000, 2**29 - 1, 0)) << 3
    content = rng.randbytes(rng.choice((0, 1, 3, 20)))
    return rng.choice(
        (
            varint(tag | 0) + varint(rng.choice((0, 1, 2**31, 2**64 - 1))),
            varint(tag | 1) + rng.randbytes(8),
            varint(tag | 2) + varint(len(content)) + content,
            varint(tag | 2) + varint(rng.choice((len(content) + 1, 2**31 - 1, 2**63))) + content,
            varint(tag | 3) + content + varint(tag | 4),
            varint(tag | 3),
            varint(tag | 4),
            varint(tag | 5) + rng.randbytes(4),
            varint(tag | 6),
            varint(tag | 0) + b"\xff" * 11 + b"\x01",
            varint(tag | 0) + b"\x80" * 9 + b"\x00",
        )
    )


def _add_field(rng: random.Random, data: bytes) -> bytes:
    return _field(rng) + data if rng.random() < 0.3 else data + _field(rng)


def _wrong_length(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return (
        data[:at] + rng.choice((b"\x00", b"\x01", b"\x7f", b"\xff\x01", b"\xff\xff\xff\xff\x0f")) + data[at + 1 :]
    )


def _add_inside(rng: random.Random, data: bytes) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + _field(rng) + data[at:]


def _deep(rng: random.Random, data: bytes) -> bytes:
    """Maps within maps, deeper than any reader accepts: `value.fields["a"].mapValue.fields["a"]…`."""
    inner = b"\x58\x00"
    for _ in range(rng.choice((18, 21, 48, 105))):
        entry = b"\x0a\x01a" + b"\x12" + varint(len(inner)) + inner
        held = b"\x0a" + varint(len(entry)) + entry
        inner = b"\x32" + varint(len(held)) + held
    entry = b"\x0a\x01a" + b"\x12" + varint(len(inner)) + inner
    document = b"\x12" + varint(len(entry)) + entry
    return data + b"\x0a" + varint(len(document)) + document


def _moment(rng: random.Random, data: bytes) -> bytes:
    """An invalid timestamp, as a field of the document."""
    seconds = rng.choice((2**63 - 1, 253402300800, 2**64 - 62135596801, 0, 1767873600))
    time = b"\x08" + varint(seconds) + b"\x10" + varint(rng.choice((0, 999999999, 10**9, 2**64 - 1)))
    value = b"\x52" + varint(len(time)) + time
    entry = b"\x0a\x01t" + b"\x12" + varint(len(value)) + value
    document = b"\x12" + varint(len(entry)) + entry
    return data + b"\x0a" + varint(len(document)) + document


_IN_PROTOBUF: tuple[Spoil, ...] = (
    *(_flip_bit, _flip_bit, _flip_bit, _truncate, _cut_out, _add_field, _add_field, _add_inside, _wrong_length),
    *(_repeat, _deep, _moment),
)


def spoil_protobuf(rng: random.Random, data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = rng.choice(_IN_PROTOBUF)(rng, data) if data else _field(rng)
    return data


# --- headers -----------------------------------------------------------------------------------------------------

_ODD_HEADER_VALUES = (
    *(
        b"",
        b" ",
        b"\t",
        b"0",
        b"1.0",
        b"null",
        b"%",
        b"%ff",
        b"%00",
        b"%E2%80%A8",
        b"%F0%9F%92%A5",
        b"\xff",
        b"\xc3\xa9",
    ),
    *(
        b"a" * 257,
        b"a" * 3_000,
        b"application/json",
        b"text/plain",
        b"gzip",
        b"identity",
        b"\xed\xa0\x80",
        b"a\x7fb",
    ),
    *(
        b"documents/flow_runs/a",
        b"documents/flow_runs/a/b/c",
        b"../..",
        b"2026-01-08T12:00:00Z",
        b"2026-01-08T12:00:00",
    ),
)
_CONTENT_TYPES = (
    *(b"application/json", b"application/json; charset=utf-8", b"APPLICATION/JSON", b"application/json;;", b""),
    *(
        b"text/plain",
        b"text/json",
        b"application/xml",
        b"application/octet-stream",
        b"multipart/form-data; boundary=x",
    ),
    *(b"application/cloudevents+json", b"application/cloudevents-batch+json", b"application/cloudevents+avro"),
    *(b"application/protobuf", b"application/x-protobuf", b"application/vnd.api+json", b"json", b"\xff/json"),
)
_MORE_HEADERS = (
    *((b"content-encoding", value) for value in (b"gzip", b"identity", b"deflate, gzip", b"", b"\xff")),
    *((b"origin", value) for value in (b"https://evil.example", b"null", b"")),
    *((b"authorization", value) for value in (b"Bearer x", b"Basic eDp4", b"\xff")),
    *((b"x-forwarded-for", b"1.2.3.4"), (b"cookie", b"a=b"), (b"traceparent", b"00-0-0-00"), (b"x" * 300, b"y")),
    *((b"x-goog-pubsub-message-id", b"h-1"), (b"x-goog-pubsub-publish-time", b"2026-01-08T12:00:00Z")),
    *(
        (b"ce-id", b"twice"),
        (b"ce-specversion", b"0.3"),
        (b"ce-subject", b"documents/a/b"),
        (b"topic", b"market-ticks"),
    ),
    *((b"upgrade", b"websocket"), (b"te", b"trailers"), (b"range", b"bytes=0-1"), (b"if-match", b"*")),
)
Headers = list[tuple[bytes, bytes]]
_FRAMING = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"expect"})


def spoil_headers(rng: random.Random, headers: Headers, times: int) -> Headers:
    """Changed, missing, repeated and additional headers. Those that frame the request do not change."""
    for _ in range(times):
        found = [index for index, (name, _) in enumerate(headers) if name not in _FRAMING]
        draw = rng.random()
        if draw < 0.3 or not found:
            headers = [*headers, rng.choice(_MORE_HEADERS)]
            continue
        index = rng.choice(found)
        name, value = headers[index]
        others = headers[:index] + headers[index + 1 :]
        if draw < 0.5:
            headers = others
        elif draw < 0.65:
            headers = [*headers, (name, rng.choice((value, rng.choice(_ODD_HEADER_VALUES))))]
        elif name == b"content-type":
            headers = [*others, (name, rng.choice(_CONTENT_TYPES))]
        elif draw < 0.75 and value:
            changed = _flip_bit(rng, value).translate(None, b"\r\n\x00")
            headers = [*others, (name, changed)]
        else:
            headers = [*others, (name, rng.choice(_ODD_HEADER_VALUES))]
    return headers
