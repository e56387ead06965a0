"""The statuses of the OpenAPI description: which there are, in which shape, with which reasons.

An operation says what is its own; what every request can meet (no HTTP, too big, too slow, another method, a server
that ends) is added here. Reasons are closed lists, except where a view of somebody's own may choose a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from millpond.core.errors import (
    AccessDenied,
    InternalError,
    InvalidEvent,
    KeysUnavailable,
    MalformedEnvelope,
    Overloaded,
    PushForbidden,
    PushRefused,
    StoreFileGone,
    Unavailable,
    UnroutableEvent,
    ViewError,
    WriteRefused,
)

JSON = "application/json"


class Shape(NamedTuple):
    """A body an answer may have: the schema's name and the reasons it may give. `own_words`: views may add some."""

    schema: str
    reasons: tuple[str, ...] = ()
    own_words: bool = False


Answers = Mapping[int, Sequence[Shape]]

APPLIED = (
    *("applied", "duplicate_message_noop", "duplicate_event_noop", "other_content_not_counted"),
    *("stale_event_ignored", "too_old_ignored"),
)
DONE = (*APPLIED, "event_filtered")
# What a message is refused for by its content, whoever decides what becomes of it then.
CONTENT = (
    *("missing_data", "invalid_base64", "invalid_json", "not_an_object", "too_deep", "integer_out_of_range"),
    *(UnroutableEvent.reason, InvalidEvent.reason, "id_too_long", "empty_id", "too_old_to_count"),
)
# And what is buried under every policy.
BURIED = (*CONTENT, ViewError.reason, WriteRefused.reason, AccessDenied.reason)
# Nothing in the request could be identified.
ENVELOPE = (
    *(MalformedEnvelope.reason, "missing_messageId", "messageId_mismatch", "invalid_message_id"),
    *("missing_publishTime", "publishTime_mismatch", "invalid_publishTime", "envelope_too_large"),
)
_STORE = (Unavailable.reason, "contention", AccessDenied.reason)
_ENDING = "shutting_down"
UNSETTLED = (
    *(*_STORE, StoreFileGone.reason, ViewError.reason, "letter_not_stored", "letter_refused"),
    *(_ENDING, InternalError.reason),
)
FLOW_DONE = (
    *("step_succeeded", "step_failed", "attempts_exhausted", "lost_race", "claim_lost", "event_filtered"),
    *("invalid_steps", "no_ready_step", "step_blocked", "run_not_found", WriteRefused.reason),
)
FLOW_AGAIN = (*_STORE, _ENDING, InternalError.reason)
FULL = (Overloaded.reason,)
UNREADY = (_ENDING, "store_failing", StoreFileGone.reason)

# Refused by the connection, in the shape of a push answer on every path.
_EVERYWHERE: Answers = {
    400: [Shape("Refusal", ("malformed_http",))],
    408: [Shape("Refusal", ("request_timeout",))],
    413: [Shape("Refusal", ("body_too_large",))],
    429: [Shape("Refusal", FULL)],
    431: [Shape("Refusal", ("headers_too_large",))],
    503: [Shape("Refusal", (_ENDING, "too_many_connections"))],
}
# Everything but the push path, which answers 503 where this answers 500.
IN_TABLE: Answers = {
    405: [Shape("Failure", ("method_not_allowed",))],
    500: [Shape("Failure", (InternalError.reason,))],
}
STORE_AWAY = Shape("Failure", (Unavailable.reason,))
FOREIGN_ORIGIN = "foreign_origin"
BY_ADMIN: Answers = {
    401: [Shape("Failure", ("unauthorized",))],
    403: [Shape("Failure", ("admin_token_not_set", "foreign_host"))],
    503: [STORE_AWAY],
}
BY_SENDER: Answers = {
    401: [Shape("Failure", (PushRefused.reason,))],
    403: [Shape("Failure", (PushForbidden.reason, FOREIGN_ORIGIN))],
    503: [Shape("Failure", (KeysUnavailable.reason,))],
}
NOT_FOUND: Answers = {404: [Shape("Failure", ("not_found",))]}
# A request that changes something, from a page of another site, or as such a page could send it unasked.
FOREIGN_PAGE: Answers = {
    403: [Shape("Failure", (FOREIGN_ORIGIN,))],
    415: [Shape("Failure", ("unsupported_media_type",))],
}

_TEXTS = {
    200: "Done.",
    201: "Stored, and it is new.",
    202: "Begun; ask how far it is.",
    304: "You have it: `If-None-Match` names its `ETag`.",
    400: "The request cannot be understood, and will not be tomorrow.",
    401: "No token, or not a good one.",
    403: "Not for whoever asks.",
    404: "There is no such thing.",
    405: "Another method than this path has; `Allow` names those it has. HEAD is answered wherever GET is, "
    "OPTIONS nowhere.",
    408: "The request was not complete after 20 s. The connection is closed.",
    409: "Another run has this id.",
    413: "The body is over 14 MiB. The connection is closed.",
    415: "Another content type, or a `Content-Encoding`.",
    422: "The message is poison. It was not kept: it lies where it came from.",
    429: "No room: come again after `Retry-After` seconds.",
    431: "The headers are over 32 KiB. The connection is closed.",
    500: "A bug: the log has the stack.",
    503: "Not now: nothing was acknowledged, come again.",
}
_HEADERS: dict[int, tuple[str, dict[str, Any]]] = {
    401: ("WWW-Authenticate", {"description": "How to come.", "schema": {"const": "Bearer"}}),
    405: ("Allow", {"description": "The methods there are.", "schema": {"type": "string"}}),
    429: ("Retry-After", {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}),
}


def merged(*tables: Answers) -> dict[int, list[Shape]]:
    """All of these tables in one; the same schema under the same status is one shape with the reasons of all."""
    found: dict[int, list[Shape]] = {}
    for table in tables:
        for status, shapes in table.items():
            found[status] = [*found.get(status, ()), *shapes]
    return {status: _joined(found[status]) for status in sorted(found)}


def _joined(shapes: Sequence[Shape]) -> list[Shape]:
    by_schema: dict[str, Shape] = {}
    for shape in shapes:
        known = by_schema.get(shape.schema, Shape(shape.schema))
        reasons = tuple(dict.fromkeys((*known.reasons, *shape.reasons)))
        by_schema[shape.schema] = Shape(shape.schema, reasons, known.own_words or shape.own_words)
    return list(by_schema.values())


def responses(*own: Answers) -> dict[str, Any]:
    """The responses object of an operation with these answers of its own."""
    return {str(status): _response(status, shapes) for status, shapes in merged(*own, _EVERYWHERE).items()}


def _response(status: int, shapes: Sequence[Shape]) -> dict[str, Any]:
    schemas = [_schema(shape) for shape in shapes]
    response: dict[str, Any] = {"description": _TEXTS[status]}
    if schemas:
        response["content"] = {JSON: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
    if status in _HEADERS:
        name, header = _HEADERS[status]
        response["headers"] = {name: header}
    return response


def _schema(shape: Shape) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{shape.schema}"}
    if not shape.reasons:
        return reference
    words: dict[str, Any] = {"enum": [*shape.reasons]}
    if shape.own_words:
        words = {"anyOf": [words, {"type": "string", "description": "A view of your own may choose its own word."}]}
    return {"allOf": [reference, {"properties": {"reason": words}}]}
