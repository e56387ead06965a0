"""The dashboard in the OpenAPI description: its files, its streams, and what else only pages ask for."""

from __future__ import annotations

from millpond.core.model import Outcome
from millpond.http.api.live import LIVE_PATH, TAIL_PATH
from millpond.http.openapi import answers
from millpond.http.openapi.answers import Answers, Shape
from millpond.http.openapi.parts import PAGED, Operation, in_path, ok, parameter
from millpond.http.openapi.schemas import TEXT, Schema, closed, list_of, ref
from millpond.http.sse import MEDIA_TYPE, STREAMS_MAX

_UNCHANGED: Answers = {304: []}
_STREAM: Answers = {**ok("Events"), 429: [Shape("Failure", ("too_many_streams",))]}
_ENDS = f"Ends when the server does. At most {STREAMS_MAX} streams at once. docs/http-api.md has every event."


def _repeated(name: str, description: str, schema: Schema) -> Schema:
    return parameter("query", name, description, list_of(schema))


LIVE_SCHEMAS: dict[str, Schema] = {
    "Sparklines": closed(
        "Prices this process saw, by document id.",
        {"market_ticks_latest": {"type": "object", "additionalProperties": list_of(ref("Point"))}},
    ),
    "Point": {
        "type": "array",
        "description": "Epoch seconds and a price.",
        "prefixItems": [{"type": "integer"}, {"type": "number"}],
        "items": False,
        "minItems": 2,
    },
}

PAGE_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/": {"GET": Operation("dashboard", "The dashboard", {**ok("Page"), **_UNCHANGED}, media_types=("text/html",))},
    "/static/{file}": {
        "GET": Operation(
            "file",
            "A file of the dashboard",
            {**ok("Page"), **_UNCHANGED, **answers.NOT_FOUND},
            parameters=(in_path("file", "Its name.", "index.html"),),
            media_types=("text/html", "text/javascript", "text/css", "image/svg+xml"),
        )
    },
}

LIVE_OPERATIONS: dict[str, dict[str, Operation]] = {
    LIVE_PATH: {
        "GET": Operation(
            "watch",
            "What happens, as it happens: a stream for a page",
            _STREAM,
            "Server-sent events: `hello`, `alerts`, `totals`, then `sample`, `changed` and again those. Steps hold "
            "`outcomes` of messages, and `views`: outcomes of each view's events, only those that occurred. "
            + _ENDS,
            media_types=(MEDIA_TYPE,),
        )
    },
    TAIL_PATH: {
        "GET": Operation(
            "tail",
            "What becomes of each message, as it is answered: a stream",
            {**_STREAM, **PAGED},
            "Server-sent events: `outcome`, and `skipped` where there were more than are shown. Each parameter may "
            "be repeated: any of its values, and all parameters together. " + _ENDS,
            (
                _repeated("topic", "Only messages of this topic.", TEXT),
                _repeated("view", "Only messages that reached this view.", TEXT),
                _repeated("outcome", "Only messages with this outcome.", {"enum": [*map(str, Outcome)]}),
            ),
            media_types=(MEDIA_TYPE,),
        )
    },
    "/api/sparklines": {"GET": Operation("sparklines", "The last prices of each symbol", ok("Sparklines"))},
    "/api/artifacts/{path}": {
        "GET": Operation(
            "artifact",
            "A file that a step made",
            {**ok("Artifact"), **answers.NOT_FOUND},
            ".png and .json below ARTIFACTS_DIR, at most 20 MiB.",
            (in_path("path", "Its path below ARTIFACTS_DIR; a slash is `%2F`.", "example-1/a/manifest.json"),),
            media_types=("application/json", "image/png"),
        )
    },
}
