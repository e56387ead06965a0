"""What the OpenAPI description says of an endpoint, declared beside it with `@operation`.

The endpoint's docstring is the summary and, after an empty line, the description. The Struct it returns is its
answer with status 200. Only other statuses, reasons, parameters and examples are written by hand. `openapi` adds
what every request can meet (no HTTP, too big, too slow, another method, a server that ends).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from millpond.core.answers import Failure
from millpond.core.errors import (
    AccessDenied,
    InternalError,
    InvalidEvent,
    MalformedEnvelope,
    Overloaded,
    StoreFileGone,
    Unavailable,
    UnroutableEvent,
    ViewError,
    WriteRefused,
)

JSON = "application/json"
Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])


class Shape(NamedTuple):
    """A body an answer may have, and the reasons it may give. `own_words`: views may add some."""

    struct: type[msgspec.Struct]
    reasons: tuple[str, ...] = ()
    own_words: bool = False


Answers = Mapping[int, Sequence[Shape]]


class Body(NamedTuple):
    """A request's body: a Struct, a name in `requests.SCHEMAS`, or None for what no schema describes."""

    schema: type[msgspec.Struct] | str | None
    example: Any = None
    content_type: str = JSON


class Operation(NamedTuple):
    """One method of one path. `answers` are its own; what every request can meet is added to them."""

    # Empty: as the path.
    name: str
    summary: str
    description: str
    answers: Answers
    parameters: Sequence[Schema] = ()
    bodies: Sequence[Body] = ()
    body_required: bool = True
    # Of the 200, if it is not JSON.
    media_types: Sequence[str] = ()
    # Where to go on from its success: another operation's name → its parameters, of this answer.
    leads_to: Mapping[str, Mapping[str, str]] = {}


def operation(
    name: str = "", *answers: Answers, description: str = "", **more: Any
) -> Callable[[_Endpoint], _Endpoint]:
    """Describe an endpoint. `description` goes on after the docstring; `more` are fields of `Operation`."""

    def describe(endpoint: _Endpoint) -> _Endpoint:
        summary, _, text = (inspect.getdoc(endpoint) or "").partition("\n\n")
        words = " ".join([*text.split(), *description.split()])
        vars(endpoint)["operation"] = Operation(name, summary.removesuffix("."), words, merged(*answers), **more)
        return endpoint

    return describe


def operation_of(endpoint: Callable[..., Any]) -> Operation | None:
    return getattr(endpoint, "operation", None)


def merged(*tables: Answers) -> dict[int, list[Shape]]:
    """All of these tables in one; the same Struct under the same status is one shape with the reasons of all."""
    found: dict[int, dict[type[msgspec.Struct], Shape]] = {}
    for table in tables:
        for status, shapes in table.items():
            known = found.setdefault(status, {})
            for struct, reasons, own_words in shapes:
                before = known.get(struct, Shape(struct))
                both = tuple(dict.fromkeys((*before.reasons, *reasons)))
                known[struct] = Shape(struct, both, before.own_words or own_words)
    return {status: list(found[status].values()) for status in sorted(found)}


def fails(status: int, *reasons: str) -> Answers:
    return {status: [Shape(Failure, reasons)]}


def parameter(where: str, name: str, description: str, schema: Schema = TEXT, **more: Any) -> Schema:
    return {"name": name, "in": where, "description": description, "schema": schema, **more}


def in_path(name: str, description: str, example: str) -> Schema:
    return parameter("path", name, description, required=True, example=example)


# --- reasons that several operations give; closed lists, unless a view may choose a word of its own --------------

NOT_FOUND = fails(404, "not_found")
INVALID_BODY = fails(400, "invalid_body")
INVALID_QUERY = fails(400, "invalid_query")
DONE = (
    *("applied", "duplicate_message_noop", "duplicate_event_noop", "other_content_not_counted"),
    *("stale_event_ignored", "too_old_ignored", "event_filtered"),
)
# What a message is refused for by its content, whatever becomes of it then.
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
STORE_FAILS = (Unavailable.reason, "contention", AccessDenied.reason)
ENDING = "shutting_down"
UNSETTLED = (
    *(*STORE_FAILS, StoreFileGone.reason, ViewError.reason, "letter_not_stored", "letter_refused"),
    *(ENDING, InternalError.reason),
)
FULL = (Overloaded.reason,)
