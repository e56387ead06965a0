"""What operations of the OpenAPI description are made of; `openapi_operations` and its kin say which there are."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from millpond.http.api.documents import LIMIT_DEFAULT, LIMIT_MAX
from millpond.http.openapi.answers import Answers, Shape
from millpond.http.openapi.schemas import TEXT, Schema


class Operation(NamedTuple):
    """One method of one path. `answers` are its own; what every request can meet is added to them."""

    name: str
    summary: str
    answers: Answers
    description: str = ""
    parameters: Sequence[Schema] = ()
    # Content type → media type object.
    body: Mapping[str, Schema] | None = None
    body_required: bool = True
    # Of the 200, where it is not one of the described shapes.
    media_types: Sequence[str] = ()
    # Where to go on from its success: another operation's name → its parameters, of this answer.
    leads_to: Mapping[str, Mapping[str, str]] = {}


def parameter(where: str, name: str, description: str, schema: Schema = TEXT, **more: Any) -> Schema:
    return {"name": name, "in": where, "description": description, "schema": schema, **more}


def in_path(name: str, description: str, example: str) -> Schema:
    return parameter("path", name, description, required=True, example=example)


def ok(schema: str, *reasons: str) -> Answers:
    return {200: [Shape(schema, reasons)]}


_HEARTBEAT = b'{"service":"api","status":"ok","timestamp":"2026-01-08T12:34:56Z"}'
PUSH_EXAMPLE = {
    "message": {
        "messageId": "1001",
        "publishTime": "2026-01-08T12:34:56.500Z",
        "data": base64.b64encode(_HEARTBEAT).decode(),
    },
    "subscription": "projects/demo/subscriptions/health",
}
_LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT}
PAGE = (
    parameter("query", "limit", "How many.", _LIMIT, example=2),
    parameter("query", "after", "`next` of the page before."),
)
PAGED: Answers = {400: [Shape("Failure", ("invalid_query",))]}
