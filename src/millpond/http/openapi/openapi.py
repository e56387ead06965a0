"""`GET /openapi.json`: the HTTP API as OpenAPI 3.1, made from the table of routes when the server starts.

The table says which paths there are and who may use them, the settings say which tokens this server asks for, and
`openapi_operations` says what each path does. A path in one and not in the other is an error at start.
"""

from __future__ import annotations

import collections
import http
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from millpond._version import __version__
from millpond.http.fast_push import PUSH_PATH
from millpond.http.openapi import answers
from millpond.http.openapi.letters import LETTER_SCHEMAS
from millpond.http.openapi.live import LIVE_SCHEMAS
from millpond.http.openapi.old_ids import OLD_IDS_SCHEMAS
from millpond.http.openapi.operations import OPENAPI_PATH, OPERATIONS
from millpond.http.openapi.parts import Operation
from millpond.http.openapi.rebuild import REBUILD_SCHEMAS
from millpond.http.openapi.schemas import SCHEMAS
from millpond.http.routing import Access, Route

_READING = "GET"
# No client described by OpenAPI sends a content type without a body.
_NO_BODY = {
    "description": "Not looked at, and may be empty. Its content type must be given all the same.",
    "required": True,
    "content": {answers.JSON: {"schema": {}, "example": {}}},
}
_DESCRIPTION = """\
Folds at-least-once, out-of-order event streams into documents.

Wherever there is GET, HEAD is answered with the same status and headers and no body. Every other method is answered
405, and a path that is not listed 404, with the shape `Failure`.

What is refused before it reaches the application (`malformed_http`, `request_timeout`, `body_too_large`,
`headers_too_large`, `too_many_connections`, 429 if there is no place for its body, `shutting_down` while a request
still arrives) has the shape `Refusal` on every path, and closes the connection. docs/http-api.md says the rest.
"""
_SCHEMES = {
    "pushToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "An OpenID Connect token of PUSH_SERVICE_ACCOUNT for PUSH_AUDIENCE, signed by Google. "
        "Asked for where PUSH_AUDIENCE is set.",
    },
    "adminToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The ADMIN_TOKEN. Where none is set, this machine alone may ask, by the name localhost or "
        "127.0.0.1.",
    },
}
_TAGS = {
    Access.PUSH: ("push", "For brokers: messages and events."),
    Access.OPEN: ("open", "For whoever reaches the port."),
    Access.ADMIN: ("admin", "For people: " + Access.ADMIN.value + "."),
}


class OpenApi:
    """Answers with the description of a table of routes, encoded once."""

    def __init__(self) -> None:
        self._encoded = b""

    def route(self) -> Route:
        return Route(OPENAPI_PATH, {_READING: self._answer}, Access.OPEN)

    def describe(self, routes: Sequence[Route], asked_for: frozenset[Access]) -> None:
        """Called with the table that holds this route. `asked_for`: whose routes need a token on this server."""
        self._encoded = msgspec.json.encode(description(routes, asked_for))

    async def _answer(self, _: Request) -> Response:
        return Response(self._encoded, media_type="application/json")


def description(routes: Sequence[Route], asked_for: frozenset[Access] = frozenset()) -> dict[str, Any]:
    """The whole document. Raises ValueError where the table and the operations are not about the same paths."""
    for route in routes:
        described = OPERATIONS.get(route.path, {}).keys()
        # The push path is answered in front of the table, which therefore has no methods for it.
        if route.path != PUSH_PATH and described != route.methods.keys():
            raise ValueError(f"{route.path} has {[*route.methods]}, and {[*described]} are described")
    if gone := OPERATIONS.keys() - {route.path for route in routes}:
        raise ValueError(f"described, and not there: {sorted(gone)}")
    paths = {
        route.path: {
            method.lower(): _operation(method, operation, route.access, asked=route.access in asked_for)
            for method, operation in OPERATIONS[route.path].items()
        }
        for route in routes
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Millpond",
            "version": __version__,
            "summary": "Streams arrive twice, late and out of order; the pond is always level.",
            "description": _DESCRIPTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.values()],
        # Before the paths: what several operations share is named there, and only referred to here.
        "components": {
            "schemas": {**SCHEMAS, **LETTER_SCHEMAS, **LIVE_SCHEMAS, **REBUILD_SCHEMAS, **OLD_IDS_SCHEMAS},
            "responses": _shared(paths),
            "securitySchemes": _SCHEMES,
        },
        "paths": paths,
    }


def _shared(paths: dict[str, Any]) -> dict[str, Any]:
    """Responses that several operations have, by name; in the operations they become references."""
    tables = [operation["responses"] for item in paths.values() for operation in item.values()]
    uses = collections.Counter(msgspec.json.encode(found) for table in tables for found in table.items())
    names: dict[bytes, str] = {}
    shared: dict[str, Any] = {}
    for table in tables:
        for status, response in table.items():
            content = msgspec.json.encode((status, response))
            if uses[content] > 1:
                phrase = http.HTTPStatus(int(status)).phrase.replace(" ", "").replace("-", "")
                number = sum(name.startswith(phrase) for name in shared)
                name = names.setdefault(content, f"{phrase}{number + 1}" if number else phrase)
                shared[name] = response
                table[status] = {"$ref": f"#/components/responses/{name}"}
    return shared


def _operation(method: str, operation: Operation, access: Access, *, asked: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "tags": [_TAGS[access][0]],
        "summary": operation.summary,
        "security": [{"pushToken" if access is Access.PUSH else "adminToken": []}] if asked else [],
    }
    if operation.description:
        described["description"] = operation.description
    if operation.parameters:
        described["parameters"] = [*operation.parameters]
    if operation.body is not None:
        described["requestBody"] = {"required": operation.body_required, "content": operation.body}
    elif access is Access.ADMIN and method == "POST":
        described["requestBody"] = _NO_BODY
    described["responses"] = _responses(method, operation, access)
    return described


def _responses(method: str, operation: Operation, access: Access) -> dict[str, Any]:
    tables = [operation.answers]
    if access is Access.ADMIN:
        tables += [answers.BY_ADMIN, *([] if method == _READING else [answers.FOREIGN_PAGE])]
    if operation.name != "push":
        tables.append(answers.IN_TABLE)
    found = answers.responses(*tables)
    links = {name: {"operationId": name, "parameters": given} for name, given in operation.leads_to.items()}
    if links:
        for status in found.keys() & {"200", "201"}:
            found[status]["links"] = links
    if operation.media_types:
        found["200"]["content"] = {name: _media_type(name) for name in operation.media_types}
    return found


def _media_type(name: str) -> dict[str, Any]:
    return {"schema": {"type": "string"}} if name.startswith("text/") else {}
