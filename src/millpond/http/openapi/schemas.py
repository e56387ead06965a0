"""The bodies of the OpenAPI description: what requests must look like, and every shape an answer has."""

from __future__ import annotations

from typing import Any

from millpond.core.collections import FLOW_RUNS
from millpond.core.decode import ENVELOPE_CHARS_MAX, MESSAGE_ID_BYTES_MAX
from millpond.core.model import Outcome
from millpond.flow import results as flow
from millpond.flow.run import STATUSES

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
TIME: Schema = {"type": "string", "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
REASON: Schema = {"type": "string", "description": "One stable word: docs/ordering.md has every one."}
_ANY_OBJECT: Schema = {"type": "object"}
_COUNTS_BY_NAME: Schema = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": COUNT},
}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def closed(description: str, fields: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """An answer's object: these fields and no others, all there but the optional ones."""
    return {
        "type": "object",
        "description": description,
        "properties": fields,
        "required": [name for name in fields if name not in optional],
        "additionalProperties": False,
    }


def described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


OUTCOME: Schema = {"enum": [str(outcome) for outcome in Outcome]}
ERROR: Schema = described(TEXT, "Why, for people. The text may change; build on `reason`.")
ANSWER: dict[str, Schema] = {
    "outcome": OUTCOME,
    "reason": REASON,
    "messageId": described(TEXT, "Empty where none could be read."),
    "topic": described(TEXT, "Empty where none was found."),
    "views": list_of(ref("ViewAnswer")),
}
_MESSAGE: dict[str, Schema] = {
    "messageId": {
        "type": ["string", "null"],
        "description": f"Printable, at most {MESSAGE_ID_BYTES_MAX} bytes.",
        "maxLength": MESSAGE_ID_BYTES_MAX,
    },
    "message_id": described(TEXT_OR_NULL, "The same; where both are given they must agree."),
    "publishTime": {
        "type": ["string", "null"],
        "format": "date-time",
        "pattern": "^(19[7-9][0-9]|2[01][0-9][0-9])-",
        "description": "RFC 3339 with an offset, from 1970 to 2200.",
    },
    "publish_time": described(TEXT_OR_NULL, "The same; where both are given they must agree."),
    "data": described(TEXT_OR_NULL, "base64 of a JSON object; anything else is poison."),
    "attributes": {
        "type": ["object", "null"],
        "additionalProperties": TEXT,
        "description": "`topic` names the topic. With `orderingKey` and `subscription` at most "
        f"{ENVELOPE_CHARS_MAX} characters.",
    },
    "orderingKey": TEXT_OR_NULL,
}


def _named(camel: str, snake: str) -> Schema:
    text: Schema = {"type": "string", "minLength": 1}
    return {
        "anyOf": [
            {"required": [camel], "properties": {camel: text}},
            {"required": [snake], "properties": {snake: text}},
        ]
    }


_REQUESTS: dict[str, Schema] = {
    "PushRequest": {
        "type": "object",
        "description": "What Pub/Sub sends by default. Other fields are ignored.",
        "properties": {
            "message": ref("PushMessage"),
            "subscription": TEXT_OR_NULL,
            "deliveryAttempt": {
                "type": ["integer", "null"],
                "minimum": 0,
                "maximum": 2**31,
                "description": "Its presence tells `POISON_POLICY=auto` that a dead-letter policy exists.",
            },
        },
        "required": ["message"],
    },
    "PushMessage": {
        "type": "object",
        "properties": _MESSAGE,
        "allOf": [_named("messageId", "message_id"), _named("publishTime", "publish_time")],
    },
    "CloudEvent": {
        "type": "object",
        "description": "A CloudEvent 1.0 in structured mode.",
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {"type": "string", "minLength": 1},
            "source": {"type": "string", "minLength": 1},
            "type": {"type": "string", "minLength": 1, "description": "Updates of documents are looked at."},
            "subject": described(TEXT_OR_NULL, f"`documents/{FLOW_RUNS}/{{runId}}`, or its whole name."),
            "document": TEXT_OR_NULL,
            "datacontenttype": TEXT_OR_NULL,
            "data": {"anyOf": [ref("DocumentEventData"), {"type": "null"}]},
            "data_base64": described(TEXT_OR_NULL, "base64 of the data, instead of `data`."),
        },
        "required": ["specversion", "id", "source", "type"],
    },
    "DocumentEventData": {
        "type": "object",
        "description": "Google's `DocumentEventData`, as JSON maps it. Only the document after the change is read.",
        "properties": {
            "value": {
                "type": ["object", "null"],
                "properties": {"name": TEXT_OR_NULL, "fields": {"type": ["object", "null"]}},
            }
        },
    },
    "FlowRun": {
        "type": "object",
        "properties": {
            "runId": described(TEXT_OR_NULL, "A legal document id; a new one where it is missing."),
            "flowKey": described({}, "Yours, for log lines."),
            "steps": {"type": "object", "minProperties": 1, "additionalProperties": ref("FlowStep")},
            "millpond": described({"not": {}}, "Written by Millpond alone."),
        },
        "required": ["steps"],
    },
    "FlowStep": {
        "type": "object",
        "description": "Other fields are yours.",
        "properties": {
            "stepType": described(TEXT_OR_NULL, "Which function does it. `type` is taken where it is missing."),
            "status": {"type": "string", "description": f"Read and written: {', '.join(STATUSES)}."},
            "dependsOn": {"type": ["array", "null"], "items": TEXT, "description": "Ids of steps of this run."},
        },
        "required": ["status"],
        "anyOf": [
            {"required": ["stepType"], "properties": {"stepType": TEXT}},
            {"required": ["type"], "properties": {"type": TEXT, "stepType": {"type": "null"}}},
        ],
    },
}
_ORDER_OR_NULL: Schema = {"anyOf": [ref("Order"), {"type": "null"}]}
_EXPLAINED: dict[str, Schema] = {
    "messageId": TEXT,
    "eventId": TEXT_OR_NULL,
    "topic": TEXT,
    "subscription": TEXT,
    "publishTime": TIME,
    "arrivedAt": TIME,
    "outcome": OUTCOME,
    "reason": REASON,
    "views": list_of(ref("ExplainedView")),
    "letter": described(TEXT_OR_NULL, "The id of its letter, if it is poison."),
}
_FLOW_ANSWER: dict[str, Schema] = {
    "outcome": {"enum": [str(outcome) for outcome in flow.FlowOutcome if outcome is not flow.FlowOutcome.RETRY]},
    "reason": REASON,
    "runId": TEXT_OR_NULL,
    "stepId": TEXT_OR_NULL,
}
_ANSWERS: dict[str, Schema] = {
    "Answer": closed("A message that is settled: Pub/Sub may forget it.", ANSWER),
    "Refusal": closed("A message that is not settled, or a request without one.", {**ANSWER, "error": ERROR}),
    "ViewAnswer": closed(
        "What became of the message in one view.",
        {
            "view": TEXT,
            "doc": described(TEXT, "The document's path; empty where the view did not want the event."),
            "outcome": OUTCOME,
            "reason": REASON,
        },
    ),
    "Failure": closed("Why there is nothing else to say.", {"reason": REASON, "error": ERROR}),
    "FlowAnswer": closed("An event that may be forgotten.", _FLOW_ANSWER),
    "FlowAgain": closed(
        "An event that must come again.", {**_FLOW_ANSWER, "outcome": {"const": "retry"}, "error": ERROR}
    ),
    "Index": closed("Every path there is.", {"service": {"const": "millpond"}, "endpoints": list_of(TEXT)}),
    "Health": closed(
        "`waiting` messages wait for a commit.", {"status": {"enum": ["ok", "unavailable"]}, "waiting": COUNT}
    ),
    "Unready": closed(
        "Why no message should be sent here now; `waiting` messages wait for a commit.",
        {"status": {"const": "unavailable"}, "waiting": COUNT, "reason": REASON},
    ),
    "OpenApi": described(_ANY_OBJECT, "This description."),
    "Collections": closed(
        "Every collection, by name.",
        {"collections": list_of(closed("How many documents it has.", {"collection": TEXT, "docs": COUNT}))},
    ),
    "Document": closed(
        "A document. Times are RFC 3339 in UTC, bytes are base64.",
        {
            "collection": TEXT,
            "id": TEXT,
            "version": described(TEXT, "Opaque; the same version means the same content."),
            "data": _ANY_OBJECT,
        },
    ),
    "DocumentPage": closed("By id.", {"docs": list_of(ref("Document")), "next": ref("Next")}),
    "Next": described(TEXT_OR_NULL, "What to give as `after` for the next page; null at the end."),
    "Why": closed("Everything known of an id.", {"id": TEXT, "messages": list_of(ref("ExplainedMessage"))}),
    "ExplainedMessage": closed("What became of a message.", _EXPLAINED),
    "ExplainedView": closed(
        "Its stamp, and the one that stands in the document now.",
        {
            "view": TEXT,
            "doc": TEXT,
            "outcome": OUTCOME,
            "reason": REASON,
            "stamp": TEXT_OR_NULL,
            "order": _ORDER_OR_NULL,
            "winner": closed(
                "Who stands there.",
                {"stamp": TEXT_OR_NULL, "messageId": TEXT_OR_NULL, "order": _ORDER_OR_NULL},
            ),
            "won": {"type": "boolean"},
        },
    ),
    "Order": closed(
        "A stamp's parts, the first that differs decides; a sequence first where the view says so.",
        {
            "eventTime": TIME,
            "sequence": {"type": ["integer", "null"], "minimum": 0},
            "publishTime": TIME,
            "messageId": TEXT,
        },
    ),
    "Stats": closed(
        "`total` and `topics` count the event log: each message once, with the outcome it had first. "
        "`viewsSinceStart` is what this process counted since it started: every event a view was asked about, by "
        "view and outcome, redeliveries included.",
        {
            "total": COUNT,
            "topics": _COUNTS_BY_NAME,
            "viewsSinceStart": _COUNTS_BY_NAME,
            "waiting": COUNT,
        },
    ),
    "Submitted": closed(
        "`notOurs` are step types this server does not do.",
        {"runId": TEXT, "created": {"type": "boolean"}, "notOurs": list_of(TEXT)},
    ),
    "SweepReport": closed(
        "Which types were looked for in how many runs, and what was done.",
        {"types": list_of(TEXT), **dict.fromkeys(("runs", "reclaimed", "failed", "announced", "left"), COUNT)},
    ),
}
SCHEMAS: dict[str, Schema] = {**_REQUESTS, **_ANSWERS}
