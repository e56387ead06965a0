"""`GET /openapi.json`: the HTTP API as OpenAPI 3.1, made from the table of routes when the server starts.

The table has the paths and their access rules, the settings have the tokens that this server asks for, and each
endpoint declares what it does (`operation`). The schemas of answers are derived from the Structs that are encoded.
Called by `app`.
"""

from __future__ import annotations

import collections
import http
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args, get_type_hints
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from millpond._version import __version__
from millpond.core.errors import InternalError, Unavailable
from millpond.http import request_schemas
from millpond.http.access import Access
from millpond.http.operation import (
    ENDING,
    FULL,
    JSON,
    Answers,
    Body,
    Operation,
    Schema,
    Shape,
    fails,
    merged,
    operation,
    operation_of,
)
from millpond.http.request_schemas import ref
from millpond.http.routing import Route
from millpond.ingress.push import Refusal

_READING = "GET"
# Clients generated from OpenAPI send no content type without a body.
_NO_BODY = {
    "description": "Not looked at, and may be empty. Its content type must be given all the same.",
    "required": True,
    "content": {JSON: {"schema": {}, "example": {}}},
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
        "Asked for if PUSH_AUDIENCE is set.",
    },
    "adminToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The ADMIN_TOKEN. If none is set, only clients on this machine may ask, by the name "
        "localhost or 127.0.0.1.",
    },
}
_TAGS = {
    Access.PUSH: ("push", "For brokers: messages and events."),
    Access.OPEN: ("open", "For every client that reaches the port."),
    Access.ADMIN: ("admin", "For people: " + Access.ADMIN.value + "."),
}
# Refusals by the connection have the shape of a push answer on every path.
_EVERYWHERE: Answers = {
    400: [Shape(Refusal, ("malformed_http",))],
    408: [Shape(Refusal, ("request_timeout",))],
    413: [Shape(Refusal, ("body_too_large",))],
    429: [Shape(Refusal, FULL)],
    431: [Shape(Refusal, ("headers_too_large",))],
    503: [Shape(Refusal, (ENDING, "too_many_connections"))],
}
# Of the table. Endpoints before it answer 503 to their own bugs.
_IN_TABLE = (fails(405, "method_not_allowed"), fails(500, InternalError.reason))
_BY_ADMIN = (
    fails(401, "unauthorized"),
    fails(403, "admin_token_not_set", "foreign_host"),
    fails(503, Unavailable.reason),
)
# A writing request from a page of another site, or in a form that such a page can send without a preflight.
_FOREIGN_PAGE = (fails(403, "foreign_origin"), fails(415, "unsupported_media_type"))
_TEXTS = {
    200: "Done.",
    201: "Stored, and it is new.",
    202: "Begun; ask how far it is.",
    304: "You have it: `If-None-Match` names its `ETag`.",
    400: "The request cannot be understood; sending it again does not help.",
    401: "No token, or not a good one.",
    403: "The client may not do this.",
    404: "There is no such thing.",
    405: "Another method than this path has; `Allow` names those it has. HEAD is answered wherever GET is, "
    "OPTIONS nowhere.",
    408: "The request was not complete after 20 s. The connection is closed.",
    409: "Another run has this id.",
    413: "The body is over 14 MiB. The connection is closed.",
    415: "Another content type, or a `Content-Encoding`.",
    422: "The message is poison. It was not buried: it stays in its subscription.",
    429: "No room: come again after `Retry-After` seconds.",
    431: "The headers are over 32 KiB. The connection is closed.",
    500: "A bug: the log has the stack.",
    503: "Not now: nothing was acknowledged, come again.",
    505: "Needs HTTP/1.1.",
}
_HEADERS: dict[int, tuple[str, Schema]] = {
    401: ("WWW-Authenticate", {"description": "How to come.", "schema": {"const": "Bearer"}}),
    405: ("Allow", {"description": "The methods there are.", "schema": {"type": "string"}}),
    429: ("Retry-After", {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}),
}


class OpenApi(msgspec.Struct):
    """This description."""  # noqa: D404 - it describes itself

    openapi: str
    info: dict[str, Any]
    servers: list[dict[str, Any]]
    tags: list[dict[str, Any]]
    # Before the paths, which refer to it.
    components: dict[str, Any]
    paths: dict[str, Any]


class OpenApiEndpoint:
    """Answers with the description of a table of routes, encoded once."""

    def __init__(self) -> None:
        self._described: dict[str, Any] = {}
        # The root path it was encoded for last, and the encoded description.
        self._encoded = ("", b"")

    def route(self) -> Route:
        return Route("/openapi.json", {_READING: self._answer}, Access.OPEN)

    def describe(self, routes: Sequence[Route], asked_for: frozenset[Access]) -> None:
        """Called with the table that holds this route. `asked_for`: the kinds of access that need a token here."""
        self._described = description(routes, asked_for)
        self._encoded = ("", msgspec.json.encode(self._described))

    @operation("openapi", {200: [Shape(OpenApi)]})
    async def _answer(self, request: Request) -> Response:
        """This description."""  # noqa: D404 - it describes itself
        root = request.scope.get("root_path", "")
        if root != self._encoded[0]:
            self._encoded = (
                root,
                msgspec.json.encode({**self._described, "servers": [{"url": quote(root) or "/"}]}),
            )
        return Response(self._encoded[1], media_type=JSON)


class _Described(NamedTuple):
    route: Route
    method: str
    operation: Operation
    # All answers, including those that every request can get.
    answers: Answers


def description(routes: Sequence[Route], asked_for: frozenset[Access] = frozenset()) -> dict[str, Any]:
    """The whole document. Raises ValueError if an endpoint is not described, or links to an unknown operation."""
    described = [found for route in routes for found in _described(route)]
    names = {_name(found) for found in described}
    paths: dict[str, Any] = {}
    for found in described:
        if gone := found.operation.leads_to.keys() - names:
            raise ValueError(f"{found.route.path} leads to what is not there: {sorted(gone)}")
        item = paths.setdefault(found.route.path, {})
        item[found.method.lower()] = _operation(found, asked=found.route.access in asked_for)
    info = {
        "title": "Millpond",
        "version": __version__,
        "summary": "Keeps documents that are right, from events that arrive twice, late and out of order.",
        "description": _DESCRIPTION,
        "license": {"name": "MIT", "identifier": "MIT"},
    }
    tags = [{"name": name, "description": text} for name, text in _TAGS.values()]
    components = {"schemas": _schemas(described), "responses": _shared(paths), "securitySchemes": _SCHEMES}
    whole = OpenApi("3.1.0", info, [{"url": "/"}], tags, components, paths)
    return msgspec.structs.asdict(whole)


def _described(route: Route) -> Iterator[_Described]:
    found = {method: operation_of(endpoint) for method, endpoint in route.methods.items()} | {**route.in_front}
    if not found:
        raise ValueError(f"{route.path} has no methods")
    for method, its_operation in found.items():
        if its_operation is None:
            raise ValueError(f"{method} {route.path} is not described")
        tables: list[Answers] = [its_operation.answers]
        if method in route.methods:
            tables = [_returned(route.methods[method]), *tables, *_IN_TABLE]
        if its_operation.media_types:
            tables.append({200: []})
        if route.access is Access.ADMIN:
            tables += [*_BY_ADMIN, *([] if method == _READING else _FOREIGN_PAGE)]
        yield _Described(route, method, its_operation, merged(*tables, _EVERYWHERE))


def _returned(endpoint: Callable[..., Any]) -> Answers:
    """The Struct in an endpoint's return annotation; it may return other answers as a `Response`."""
    hint = get_type_hints(endpoint)["return"]
    kinds = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, type)]
    structs = [Shape(kind) for kind in kinds if issubclass(kind, msgspec.Struct)]
    return {200: structs} if structs else {}


# --- schemas -----------------------------------------------------------------------------------------------------


def _schemas(described: Sequence[_Described]) -> dict[str, Schema]:
    """The schemas written by hand, and those of every Struct that is sent or received."""
    sent = [shape.struct for found in described for shapes in found.answers.values() for shape in shapes]
    taken = [body.schema for found in described for body in found.operation.bodies if isinstance(body.schema, type)]
    structs = dict.fromkeys((*sent, *taken))
    _, derived = msgspec.json.schema_components(structs, ref_template=ref("{name}")["$ref"])
    return {**request_schemas.SCHEMAS, **{name: _closed(schema) for name, schema in derived.items()}}


def _closed(schema: Schema) -> Schema:
    """A Struct's schema as it is encoded: no other fields, and fields with a default are always present."""
    if "enum" in schema:
        # An enum's docstring is for readers of the code.
        schema.pop("description", None)
    elif "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    if schema.get("type") == "object":
        schema["additionalProperties"] = False
        for name, field in schema["properties"].items():
            if "default" in field:
                del field["default"]
                schema["required"].append(name)
    return schema


# --- operations --------------------------------------------------------------------------------------------------


def _name(found: _Described) -> str:
    return found.operation.name or found.route.path.removeprefix("/")


def _operation(found: _Described, *, asked: bool) -> dict[str, Any]:
    its, access = found.operation, found.route.access
    described: dict[str, Any] = {
        "operationId": _name(found),
        "tags": [_TAGS[access][0]],
        "summary": its.summary,
        "security": [{"pushToken" if access is Access.PUSH else "adminToken": []}] if asked else [],
    }
    if its.description:
        described["description"] = its.description
    if its.parameters:
        described["parameters"] = [*its.parameters]
    if its.bodies:
        content = {body.content_type: _media(body) for body in its.bodies}
        described["requestBody"] = {"required": its.body_required, "content": content}
    elif access is Access.ADMIN and found.method == "POST":
        described["requestBody"] = _NO_BODY
    described["responses"] = _responses(found)
    return described


def _media(body: Body) -> Schema:
    if body.schema is None:
        return {}
    name = body.schema if isinstance(body.schema, str) else body.schema.__name__
    return {"schema": ref(name)} | ({} if body.example is None else {"example": body.example})


def _responses(found: _Described) -> dict[str, Any]:
    responses = {str(status): _response(status, shapes) for status, shapes in found.answers.items()}
    its = found.operation
    links = {name: {"operationId": name, "parameters": given} for name, given in its.leads_to.items()}
    if links:
        for status in responses.keys() & {"200", "201"}:
            responses[status]["links"] = links
    if its.media_types:
        text = {"schema": {"type": "string"}}
        responses["200"]["content"] = {name: text if name.startswith("text/") else {} for name in its.media_types}
    return responses


def _response(status: int, shapes: Sequence[Shape]) -> dict[str, Any]:
    schemas = [_shape(shape) for shape in shapes]
    response: dict[str, Any] = {"description": _TEXTS[status]}
    if schemas:
        response["content"] = {JSON: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}}
    if status in _HEADERS:
        name, header = _HEADERS[status]
        response["headers"] = {name: header}
    return response


def _shape(shape: Shape) -> Schema:
    reference = ref(shape.struct.__name__)
    if not shape.reasons:
        return reference
    words: Schema = {"enum": [*shape.reasons]}
    if shape.own_words:
        words = {"anyOf": [words, {"type": "string", "description": "A view of your own may choose its own word."}]}
    return {"allOf": [reference, {"properties": {"reason": words}}]}


def _shared(paths: Mapping[str, Any]) -> dict[str, Any]:
    """Responses that several operations have, by name. Replaces them in the operations with references."""
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
