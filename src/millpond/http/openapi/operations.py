"""The operations of the OpenAPI description: for each path of the route table, what each of its methods does."""

from __future__ import annotations

from millpond.core.collections import FLOW_RUNS
from millpond.http.events import EVENTS_PATH
from millpond.http.fast_push import PUSH_PATH
from millpond.http.openapi import answers
from millpond.http.openapi.answers import JSON, Shape
from millpond.http.openapi.letters import LETTER_OPERATIONS
from millpond.http.openapi.live import LIVE_OPERATIONS, PAGE_OPERATIONS
from millpond.http.openapi.old_ids import OLD_IDS_OPERATIONS
from millpond.http.openapi.parts import PAGE, PAGED, PUSH_EXAMPLE, Operation, in_path, ok, parameter
from millpond.http.openapi.rebuild import REBUILD_OPERATIONS
from millpond.http.openapi.schemas import ref
from millpond.ingress.push import RETRY_AFTER_S

OPENAPI_PATH = "/openapi.json"
# Cloud Run reserves some paths that end in z, so each exists with and without.
READY_PATHS = ("/health", "/healthz", "/ready", "/readyz")
LIVE_PATHS = ("/live", "/livez")
METRICS_PATH = "/metrics"
INDEX_PATH = "/api"

# --- messages and events -----------------------------------------------------------------------------------------

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
        parameter("header", f"{_METADATA}message-id", "Unwrapped: the message's id. Needs a publish time."),
        parameter("header", f"{_METADATA}publish-time", "Unwrapped: RFC 3339 with an offset. Needs an id."),
        parameter("header", f"{_METADATA}subscription-name", "Unwrapped: the subscription's path."),
        parameter("header", f"{_METADATA}ordering-key", "Unwrapped: the ordering key."),
    ),
    {JSON: {"schema": ref("PushRequest"), "example": PUSH_EXAMPLE}},
    leads_to={"why": {"id": "$response.body#/messageId"}},
)

_EVENT_EXAMPLE = {
    "specversion": "1.0",
    "id": "1",
    "source": "//firestore.googleapis.com/projects/demo/databases/(default)",
    "type": "google.cloud.firestore.document.v1.updated",
    "subject": f"documents/{FLOW_RUNS}/invoice-7",
}
_take_event = Operation(
    "takeEvent",
    "Take a CloudEvent about a flow run",
    answers.merged(
        {
            **ok("FlowAnswer", *answers.FLOW_DONE),
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
        parameter("header", f"ce-{name}", f"Binary mode: the attribute `{name}`.")
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
    text = "Whether messages are taken, and the store takes what the last ones led to. 503 if not."
    unwell = {503: [Shape("Unready", answers.UNREADY)]}
    return Operation(name, "Whether messages are taken", {**ok("Health"), **unwell}, text)


def _alive(name: str) -> Operation:
    text = "`status` is `unavailable` while it shuts down."
    return Operation(name, "Whether the process answers", ok("Health"), text)


_OPEN: dict[str, dict[str, Operation]] = {
    INDEX_PATH: {"GET": Operation("index", "Every path", ok("Index"))},
    **{path: {"GET": _health(path[1:])} for path in READY_PATHS},
    **{path: {"GET": _alive(path[1:])} for path in LIVE_PATHS},
    METRICS_PATH: {
        "GET": Operation("metrics", "Counters, for Prometheus", ok("Metrics"), media_types=("text/plain",))
    },
    OPENAPI_PATH: {"GET": Operation("openapi", "This description", ok("OpenApi"))},
}

# --- for people --------------------------------------------------------------------------------------------------

_COLLECTION = in_path("collection", "A collection's path; a slash is `%2F`.", "ops_services")
_DOCUMENT_ID = in_path("id", "The document's id; a slash is `%2F`, a percent sign `%25`.", "dev__api")
_RUN_EXAMPLE = {"runId": "example-1", "steps": {"a": {"stepType": "ADD_UP", "status": "READY"}}}

_ADMIN: dict[str, dict[str, Operation]] = {
    "/api/collections": {"GET": Operation("collections", "Every collection", ok("Collections"))},
    "/api/docs/{collection}": {
        "GET": Operation(
            "documents",
            "The documents of a collection",
            {**ok("DocumentPage"), **PAGED},
            "By id, in pages. A collection that does not exist is an empty page.",
            (_COLLECTION, *PAGE),
            leads_to={"document": {name: f"$response.body#/docs/0/{name}" for name in ("collection", "id")}},
        )
    },
    "/api/docs/{collection}/{id}": {
        "GET": Operation(
            "document",
            "One document",
            {**ok("Document"), **answers.NOT_FOUND},
            parameters=(_COLLECTION, _DOCUMENT_ID),
        )
    },
    "/api/why/{id}": {
        "GET": Operation(
            "why",
            "What became of a message or event, and who won",
            {**ok("Why"), **answers.NOT_FOUND},
            parameters=(in_path("id", "A message id or an event id.", "1001"),),
        )
    },
    "/api/stats": {
        "GET": Operation("stats", "Messages by topic and outcome, events by view and outcome", ok("Stats"))
    },
    **LETTER_OPERATIONS,
    **LIVE_OPERATIONS,
    **REBUILD_OPERATIONS,
    **OLD_IDS_OPERATIONS,
    "/api/flow-runs": {
        "POST": Operation(
            "submitRun",
            "Store a flow run and have it worked on",
            {
                **ok("Submitted"),
                201: [Shape("Submitted")],
                400: [Shape("Failure", ("invalid_run",))],
                409: [Shape("Failure", ("run_exists",))],
            },
            "201 for a new run, 200 where the very same was submitted before.",
            (parameter("query", "runId", "Names a run that does not name itself."),),
            {JSON: {"schema": ref("FlowRun"), "example": _RUN_EXAMPLE}},
            leads_to={"document": {"collection": FLOW_RUNS, "id": "$response.body#/runId"}},
        )
    },
    "/api/flow-runs/sweep": {"POST": Operation("sweepRuns", "Look after steps that were left", ok("SweepReport"))},
}
OPERATIONS: dict[str, dict[str, Operation]] = {
    **PAGE_OPERATIONS,
    PUSH_PATH: {"POST": _push},
    EVENTS_PATH: {"POST": _take_event},
    **_OPEN,
    **_ADMIN,
}
