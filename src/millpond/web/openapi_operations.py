"""The operations of the OpenAPI description: for each path of the route table, what each of its methods does."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from millpond.flow.run import COLLECTION as RUNS
from millpond.ingress.events import EVENTS_PATH
from millpond.ingress.push import RETRY_AFTER_S
from millpond.web import openapi_answers as answers
from millpond.web.api import LIMIT_DEFAULT, LIMIT_MAX
from millpond.web.direct import PUSH_PATH
from millpond.web.openapi_answers import JSON, Answers, Shape
from millpond.web.openapi_schemas import TEXT, Schema, ref

OPENAPI_PATH = "/openapi.json"
# Cloud Run reserves some paths that end in z, so each exists with and without.
READY_PATHS = ("/health", "/healthz", "/ready", "/readyz")
LIVE_PATHS = ("/live", "/livez")
METRICS_PATH = "/metrics"


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
    # Of the 200, where it is not JSON.
    media_type: str = JSON
    # Where to go on from its success: another operation's name → its parameters, of this answer.
    leads_to: Mapping[str, Mapping[str, str]] = {}


def _parameter(where: str, name: str, description: str, schema: Schema = TEXT, **more: Any) -> Schema:
    return {"name": name, "in": where, "description": description, "schema": schema, **more}


def _in_path(name: str, description: str, example: str) -> Schema:
    return _parameter("path", name, description, required=True, example=example)


def _ok(schema: str, *reasons: str) -> Answers:
    return {200: [Shape(schema, reasons)]}


# --- messages and events -----------------------------------------------------------------------------------------

_PUBLISHED = "2026-01-08T12:34:56.500Z"
_HEARTBEAT = b'{"service":"api","status":"ok","timestamp":"2026-01-08T12:34:56Z"}'
_PUSH_EXAMPLE = {
    "message": {
        "messageId": "1001",
        "publishTime": _PUBLISHED,
        "data": base64.b64encode(_HEARTBEAT).decode(),
    },
    "subscription": "projects/demo/subscriptions/health",
}
_METADATA = "x-goog-pubsub-"
_push = Operation(
    "push",
    "Take one message",
    answers.merged(
        {
            200: [Shape("Answer", (*answers.DONE, *answers.BURIED), own_words=True)],
            400: [Shape("Refusal", (*answers.ENVELOPE, "missing_metadata", *answers.CONTENT), own_words=True)],
            401: [Shape("Refusal", answers.BY_SENDER[401][0].reasons)],
            403: [Shape("Refusal", answers.BY_SENDER[403][0].reasons)],
            405: [Shape("Refusal", ("method_not_allowed",))],
            415: [Shape("Refusal", ("unsupported_media_type",))],
            429: [Shape("Refusal", answers.FULL)],
            503: [Shape("Refusal", (*answers.UNSETTLED, *answers.BY_SENDER[503][0].reasons))],
        },
        # Where messages are pulled.
        answers.NOT_FOUND,
    ),
    "200 means done: the store holds the effect, a greater one, or a letter. Pub/Sub sends everything else again. "
    "One `x-goog-pubsub-*` header makes a request an unwrapped one, whatever its content type: the body is then "
    "the data, and every header that HTTP or a proxy does not add is an attribute. With `millpond pull` there is "
    f"no push: 404. `Retry-After` is {RETRY_AFTER_S} s.",
    (
        _parameter("header", f"{_METADATA}message-id", "Unwrapped: the message's id. Needs a publish time."),
        _parameter("header", f"{_METADATA}publish-time", "Unwrapped: RFC 3339 with an offset. Needs an id."),
        _parameter("header", f"{_METADATA}subscription-name", "Unwrapped: the subscription's path."),
        _parameter("header", f"{_METADATA}ordering-key", "Unwrapped: the ordering key."),
    ),
    {JSON: {"schema": ref("PushRequest"), "example": _PUSH_EXAMPLE}},
    leads_to={"why": {"id": "$response.body#/messageId"}},
)

_EVENT_EXAMPLE = {
    "specversion": "1.0",
    "id": "1",
    "source": "//firestore.googleapis.com/projects/demo/databases/(default)",
    "type": "google.cloud.firestore.document.v1.updated",
    "subject": "documents/flow_runs/invoice-7",
}
_take_event = Operation(
    "takeEvent",
    "Take a CloudEvent about a flow run",
    answers.merged(
        {
            **_ok("FlowAnswer", *answers.FLOW_DONE),
            400: [Shape("Failure", ("malformed_event",))],
            415: [Shape("Failure", ("unsupported_media_type",))],
            429: [Shape("FlowAgain", answers.FULL)],
            503: [Shape("FlowAgain", answers.FLOW_AGAIN)],
        },
        answers.BY_SENDER,
    ),
    "CloudEvents 1.0 as Eventarc sends them. Structured: `application/cloudevents+json`. Binary: the attributes "
    "are `ce-*` headers, of which `ce-specversion`, `ce-id`, `ce-source` and `ce-type` are then required, and the "
    "body is the data: `application/protobuf` (`google.events.cloud.firestore.v1.DocumentEventData`) or JSON. "
    "Answered when the step is finalised.",
    tuple(
        _parameter("header", f"ce-{name}", f"Binary mode: the attribute `{name}`.")
        for name in ("specversion", "id", "source", "type", "subject")
    ),
    {
        "application/cloudevents+json": {"schema": ref("CloudEvent"), "example": _EVENT_EXAMPLE},
        JSON: {"schema": ref("DocumentEventData")},
        "application/protobuf": {},
    },
    body_required=False,
)

# --- open to all -------------------------------------------------------------------------------------------------


def _health(name: str) -> Operation:
    text = "Whether messages are taken, and the store answered a read just now. 503 where not."
    unwell = {503: [Shape("Health")]}
    return Operation(name, "Whether messages are taken", {**_ok("Health"), **unwell}, text)


def _alive(name: str) -> Operation:
    text = "`status` is `unavailable` while it shuts down."
    return Operation(name, "Whether the process answers", _ok("Health"), text)


_OPEN: dict[str, dict[str, Operation]] = {
    "/": {"GET": Operation("index", "Every path", _ok("Index"))},
    **{path: {"GET": _health(path[1:])} for path in READY_PATHS},
    **{path: {"GET": _alive(path[1:])} for path in LIVE_PATHS},
    METRICS_PATH: {
        "GET": Operation("metrics", "Counters, for Prometheus", _ok("Metrics"), media_type="text/plain")
    },
    OPENAPI_PATH: {"GET": Operation("openapi", "This description", _ok("OpenApi"))},
}

# --- for people --------------------------------------------------------------------------------------------------

_LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT}
_PAGE = (
    _parameter("query", "limit", "How many.", _LIMIT, example=2),
    _parameter("query", "after", "`next` of the page before."),
)
_PAGED: Answers = {400: [Shape("Failure", ("invalid_query",))]}
_COLLECTION = _in_path("collection", "A collection's path; a slash is `%2F`.", "ops_services")
_DOCUMENT_ID = _in_path("id", "The document's id; a slash is `%2F`, a percent sign `%25`.", "dev__api")
_LETTER_ID = _in_path("id", "The letter's id.", "health__1002")
_REPLAY: Answers = {
    200: [Shape("ReplayAnswer", (*answers.DONE, *answers.BURIED), own_words=True)],
    429: [Shape("Failure", answers.FULL)],
    503: [Shape("ReplayAnswer", answers.UNSETTLED)],
}
_RUN_EXAMPLE = {"runId": "example-1", "steps": {"a": {"stepType": "ADD_UP", "status": "READY"}}}

_ADMIN: dict[str, dict[str, Operation]] = {
    "/api/collections": {"GET": Operation("collections", "Every collection", _ok("Collections"))},
    "/api/docs/{collection}": {
        "GET": Operation(
            "documents",
            "The documents of a collection",
            {**_ok("DocumentPage"), **_PAGED},
            "By id, in pages. A collection that does not exist is an empty page.",
            (_COLLECTION, *_PAGE),
            leads_to={"document": {name: f"$response.body#/docs/0/{name}" for name in ("collection", "id")}},
        )
    },
    "/api/docs/{collection}/{id}": {
        "GET": Operation(
            "document",
            "One document",
            {**_ok("Document"), **answers.NOT_FOUND},
            parameters=(_COLLECTION, _DOCUMENT_ID),
        )
    },
    "/api/why/{id}": {
        "GET": Operation(
            "why",
            "What became of a message or event, and who won",
            {**_ok("Why"), **answers.NOT_FOUND},
            parameters=(_in_path("id", "A message id or an event id.", "1001"),),
        )
    },
    "/api/stats": {"GET": Operation("stats", "Messages by topic and outcome", _ok("Stats"))},
    "/api/letters": {
        "GET": Operation(
            "letters",
            "The dead letters",
            {**_ok("LetterPage"), **_PAGED},
            parameters=_PAGE,
            leads_to={name: {"id": "$response.body#/letters/0/id"} for name in ("letter", "replayLetter", "purge")},
        )
    },
    "/api/letters/{id}": {
        "GET": Operation(
            "letter",
            "One letter, with its payload",
            {**_ok("Letter"), **answers.NOT_FOUND},
            parameters=(_LETTER_ID,),
        ),
        "DELETE": Operation(
            "purge", "Delete a letter for ever", {**_ok("Purged"), **answers.NOT_FOUND}, parameters=(_LETTER_ID,)
        ),
    },
    "/api/letters/{id}/replay": {
        "POST": Operation(
            "replayLetter",
            "Send a letter's message through the engine again",
            {**_REPLAY, **answers.NOT_FOUND},
            "200 says what became of it, poison included. The letter stays until it is purged or expires.",
            (_LETTER_ID,),
        )
    },
    "/api/replay": {
        "POST": Operation(
            "replayMessage",
            "Send a message of a dead-letter subscription through the engine",
            {
                **_REPLAY,
                200: [Shape("ReplayAnswer", answers.DONE)],
                400: [Shape("Failure", answers.ENVELOPE)],
                422: [Shape("ReplayAnswer", answers.CONTENT, own_words=True)],
            },
            "The message is given as a push body. Nothing is buried here: poison is answered 422, and stays where "
            "it came from.",
            body={JSON: {"schema": ref("PushRequest"), "example": _PUSH_EXAMPLE}},
        )
    },
    "/api/flow-runs": {
        "POST": Operation(
            "submitRun",
            "Store a flow run and have it worked on",
            {
                **_ok("Submitted"),
                201: [Shape("Submitted")],
                400: [Shape("Failure", ("invalid_run",))],
                409: [Shape("Failure", ("run_exists",))],
            },
            "201 for a new run, 200 where the very same was submitted before.",
            (_parameter("query", "runId", "Names a run that does not name itself."),),
            {JSON: {"schema": ref("FlowRun"), "example": _RUN_EXAMPLE}},
            leads_to={"document": {"collection": RUNS, "id": "$response.body#/runId"}},
        )
    },
    "/api/flow-runs/sweep": {"POST": Operation("sweepRuns", "Look after steps that were left", _ok("SweepReport"))},
}
OPERATIONS: dict[str, dict[str, Operation]] = {
    PUSH_PATH: {"POST": _push},
    EVENTS_PATH: {"POST": _take_event},
    **_OPEN,
    **_ADMIN,
}
