"""The OpenAPI description of an endpoint, declared beside it with `@operation`.

The endpoint's docstring is the summary and, after an empty line, the description. The Struct it returns is its
answer with status 200. Only other statuses, reasons, parameters and examples are written by hand. `openapi` adds
the answers that every request can get (not HTTP, too large, too slow, another method, shutdown). Used by all
modules with endpoints.
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
    """A body that an answer may have, and its possible reasons. `own_words`: views may add reasons."""

    struct: type[msgspec.Struct]
    reasons: tuple[str, ...] = ()
    own_words: bool = False


Answers = Mapping[int, Sequence[Shape]]


class Body(NamedTuple):
    """A request's body: a Struct, a name in `requests.SCHEMAS`, or None if no schema describes it."""

    schema: type[msgspec.Struct] | str | None
    example: Any = None
    content_type: str = JSON


class Operation(NamedTuple):
    """One method of one path. `answers` are its own; those that every request can get are added to them."""

    # Empty: as the path.
    name: str
    summary: str
    description: str
    answers: Answers
    parameters: Sequence[Schema] = ()
    bodies: Sequence[Body] = ()
    body_required: bool = True
    # Content types of the 200, if it is not JSON.
    media_types: Sequence[str] = ()
    # Links from a success: another operation's name → its parameters, taken from this answer.
    leads_to: Mapping[str, Mapping[str, str]] = {}


def operation(
    name: str = "", *answers: Answers, description: str = "", **more: Any
) -> Callable[[_Endpoint], _Endpoint]:
    """Describe an endpoint. `description` is appended to the docstring; `more` are fields of `Operation`."""

    def describe(endpoint: _Endpoint) -> _Endpoint:
        summary, _, text = (inspect.getdoc(endpoint) or "").partition("\n\n")
        words = " ".join([*text.split(), *description.split()])
        vars(endpoint)["operation"] = Operation(name, summary.removesuffix("."), words, merged(*answers), **more)
        return endpoint

    return describe


def operation_of(endpoint: Callable[..., Any]) -> Operation | None:
    return getattr(endpoint, "operation", None)


def merged(*tables: Answers) -> dict[int, list[Shape]]:
    """The tables merged into one; the same Struct with the same status becomes one shape with all reasons."""
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
# A message is refused for its content, whether it is then buried or not.
CONTENT = (
    *("missing_data", "invalid_base64", "invalid_json", "not_an_object", "too_deep", "integer_out_of_range"),
    *(UnroutableEvent.reason, InvalidEvent.reason, "id_too_long", "empty_id", "too_old_to_count"),
)
# Reasons of buried messages: these are buried under every policy.
BURIED = (*CONTENT, ViewError.reason, WriteRefused.reason, AccessDenied.reason)
# The request holds no message that can be identified.
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
