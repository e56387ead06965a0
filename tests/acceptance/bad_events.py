"""Requests to /events that are no event: one row each, with everything it must lead to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.common.eventarc import Sent, as_json, as_protobuf, attributes, binary, full_name, structured
from tests.common.flow_runs import ready

# Stands in every run that is sent; a log that holds it has quoted a payload.
MARKER = "s3cr3t-p4yl0ad"
RUN = {"flowKey": "nightly", "steps": {"a": ready(name=MARKER)}}
NAME = full_name("never")
GIVEN = attributes(subject="documents/flow_runs/never")
PROTOBUF, JSON = as_protobuf(RUN, NAME), json.dumps(as_json(RUN, NAME)).encode()
MIB = 1024 * 1024
MALFORMED, UNSUPPORTED = "malformed_event", "unsupported_media_type"


class BadEvent(NamedTuple):
    """One request, and the status, reason and words it is answered with."""

    name: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    status: int
    reason: str
    mentions: str = ""
    method: str = "POST"


def bad(name: str, sent: Sent, status: int, reason: str, mentions: str = "", method: str = "POST") -> BadEvent:
    return BadEvent(name, sent.raw_headers, sent.body, status, reason, mentions, method)


def of_data(name: str, data: bytes, content_type: str = "application/json") -> BadEvent:
    """An event in order whose data is not."""
    return bad(f"data: {name}", binary(data, content_type, GIVEN), 400, MALFORMED)


def of_structure(name: str, event: Any, mentions: str = "") -> BadEvent:
    return bad(f"structured: {name}", structured(event), 400, MALFORMED, mentions)


def with_headers(name: str, status: int, reason: str, mentions: str = "", **headers: str) -> BadEvent:
    """An event in order, but for headers like these."""
    usual = binary(JSON, "application/json", GIVEN)
    changes = {header.replace("_", "-"): value for header, value in headers.items()}
    return bad(name, Sent({**usual.headers, **changes}, JSON), status, reason, mentions)


def with_more(name: str, *headers: tuple[bytes, bytes]) -> BadEvent:
    """An event in order, with headers beside its own."""
    usual = binary(JSON, "application/json", GIVEN)
    return BadEvent(name, [*usual.raw_headers, *headers], JSON, 400, MALFORMED)


def without(name: str) -> list[BadEvent]:
    """An event without this attribute, in either mode."""
    given = {**GIVEN}
    del given[name]
    return [
        bad(f"no {name}", binary(PROTOBUF, "application/protobuf", given), 400, MALFORMED, f"ce-{name}"),
        bad(f"structured: no {name}", structured(given), 400, MALFORMED, f"ce-{name}"),
    ]


def nested(levels: int) -> str:
    level = '{"mapValue":{"fields":{"a":'
    return '{"value":{"fields":{"a":' + level * levels + '{"nullValue":null}' + "}}}" * levels + "}}}"


ROWS = [
    bad("an ordinary request", Sent({"content-type": "application/json"}, b"{}"), 400, MALFORMED, "ce-specversion"),
    bad("nothing at all", Sent({}, b""), 400, MALFORMED, "ce-specversion"),
    *(row for name in ("specversion", "id", "source", "type") for row in without(name)),
    *(
        with_headers(f"specversion {v!r}", 400, MALFORMED, "specversion", ce_specversion=v)
        for v in ("0.3", "1", "2.0", "")
    ),
    with_headers("an empty id", 400, MALFORMED, "ce-id", ce_id=""),
    with_headers("escapes that are not UTF-8", 400, MALFORMED, "ce-subject", ce_subject="documents/flow_runs/%ff"),
    with_more("a header given twice", (b"ce-id", b"event-2")),
    with_more("a content type given twice", (b"content-type", b"application/protobuf")),
    with_more("a header that is not UTF-8", (b"ce-document", b"flow_runs/\xe9")),
    with_headers("a batch", 415, UNSUPPORTED, "one by one", content_type="application/cloudevents-batch+json"),
    with_headers("Avro", 415, UNSUPPORTED, "cloudevents+json", content_type="application/cloudevents+avro"),
    with_headers("protobuf", 415, UNSUPPORTED, "cloudevents+json", content_type="application/cloudevents+protobuf"),
    with_headers("plain text", 415, UNSUPPORTED, "application/protobuf", content_type="text/plain"),
    with_headers("a form", 415, UNSUPPORTED, "application/json", content_type="application/x-www-form-urlencoded"),
    bad(
        "gzip",
        Sent({**binary(b"", "application/json", GIVEN).headers, "content-encoding": "gzip"}, gzip.compress(JSON)),
        *(415, UNSUPPORTED, "Content-Encoding"),
    ),
    of_data("cut JSON", JSON[:-1]),
    of_data("cut protobuf", PROTOBUF[:-1], "application/protobuf"),
    of_data("JSON as protobuf", JSON, "application/protobuf"),
    of_data("protobuf as JSON", PROTOBUF),
    of_data("a list", b"[]"),
    of_data("a value that is no object", b'{"value":5}'),
    of_data("a field that is no object", b'{"value":{"fields":{"a":5}}}'),
    of_data("a name that is no text", b'{"value":{"name":5}}'),
    of_data("depth without end", b"[" * 100_000),
    of_data("deep maps", nested(300).encode()),
    of_structure("not JSON", b"{"),
    of_structure("a list", [GIVEN]),
    of_structure("a number for an id", {**GIVEN, "id": 5}, "id must be text"),
    of_structure("data that is text", {**GIVEN, "data": "text"}),
    of_structure("not base64", {**GIVEN, "data_base64": "!"}, "data_base64"),
    of_structure("deep maps", (json.dumps({**GIVEN, "data": 0})[:-2] + nested(300) + "}").encode()),
    of_structure("depth without end", b'{"data":' * 100_000),
    with_headers("another site's page", 403, "foreign_origin", origin="https://evil.example"),
    with_headers("headers over 32 KiB", 431, "headers_too_large", ce_subject="x" * 33_000),
    bad("a body over 14 MiB", binary(b"x" * (14 * MIB + 1), "application/json", GIVEN), 413, "body_too_large"),
    *(
        bad(method, binary(JSON, "application/json", GIVEN), 405, "method_not_allowed", method, method)
        for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS")
    ),
]
