"""JSON Schemas of request bodies that no Struct describes, and an example of a message. Used by `openapi`."""

from __future__ import annotations

import base64

from millpond.core.collections import FLOW_RUNS
from millpond.core.decode import ENVELOPE_CHARS_MAX, MESSAGE_ID_BYTES_MAX
from millpond.flow.statuses import STATUSES
from millpond.http.operation import TEXT, Schema

_HEARTBEAT = b'{"service":"api","status":"ok","timestamp":"2026-01-08T12:34:56Z"}'
PUSH_EXAMPLE = {
    "message": {
        "messageId": "1001",
        "publishTime": "2026-01-08T12:34:56.500Z",
        "data": base64.b64encode(_HEARTBEAT).decode(),
    },
    "subscription": "projects/demo/subscriptions/health",
}
_NOT_EMPTY: Schema = {"type": "string", "minLength": 1}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _nullable_text(description: str, **more: object) -> Schema:
    return {**_TEXT_OR_NULL, "description": description, **more}


def _named(camel: str, snake: str) -> Schema:
    return {"anyOf": [{"required": [name], "properties": {name: _NOT_EMPTY}} for name in (camel, snake)]}


_MESSAGE: dict[str, Schema] = {
    "messageId": _nullable_text(
        f"Printable, at most {MESSAGE_ID_BYTES_MAX} bytes.", maxLength=MESSAGE_ID_BYTES_MAX
    ),
    "message_id": _nullable_text("The same; if both are given they must agree."),
    "publishTime": _nullable_text(
        "RFC 3339 with an offset, from 1970 to 2200.",
        format="date-time",
        pattern="^(19[7-9][0-9]|2[01][0-9][0-9])-",
    ),
    "publish_time": _nullable_text("The same; if both are given they must agree."),
    "data": _nullable_text("base64 of a JSON object; anything else is poison."),
    "attributes": {
        "type": ["object", "null"],
        "additionalProperties": TEXT,
        "description": "`topic` names the topic. With `orderingKey` and `subscription` at most "
        f"{ENVELOPE_CHARS_MAX} characters.",
    },
    "orderingKey": _TEXT_OR_NULL,
}
SCHEMAS: dict[str, Schema] = {
    "PushRequest": {
        "type": "object",
        "description": "What Pub/Sub sends by default. Other fields are ignored.",
        "properties": {
            "message": ref("PushMessage"),
            "subscription": _TEXT_OR_NULL,
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
            "id": _NOT_EMPTY,
            "source": _NOT_EMPTY,
            "type": {**_NOT_EMPTY, "description": "Updates of documents are looked at."},
            "subject": _nullable_text(f"`documents/{FLOW_RUNS}/{{runId}}`, or its whole name."),
            "document": _TEXT_OR_NULL,
            "datacontenttype": _TEXT_OR_NULL,
            "data": {"anyOf": [ref("DocumentEventData"), {"type": "null"}]},
            "data_base64": _nullable_text("base64 of the data, instead of `data`."),
        },
        "required": ["specversion", "id", "source", "type"],
    },
    "DocumentEventData": {
        "type": "object",
        "description": "Google's `DocumentEventData`, as JSON maps it. Only the document after the change is read.",
        "properties": {
            "value": {
                "type": ["object", "null"],
                "properties": {"name": _TEXT_OR_NULL, "fields": {"type": ["object", "null"]}},
            }
        },
    },
    "FlowRun": {
        "type": "object",
        "properties": {
            "runId": _nullable_text("A legal document id; a new one if it is missing."),
            "flowKey": {"description": "Yours, for log lines."},
            "steps": {"type": "object", "minProperties": 1, "additionalProperties": ref("FlowStep")},
            "millpond": {"not": {}, "description": "Written by Millpond alone."},
        },
        "required": ["steps"],
    },
    "FlowStep": {
        "type": "object",
        "description": "Other fields are yours.",
        "properties": {
            "stepType": _nullable_text("Which function does it. `type` is taken if it is missing."),
            "status": {**TEXT, "description": f"Read and written: {', '.join(STATUSES)}."},
            "dependsOn": {"type": ["array", "null"], "items": TEXT, "description": "Ids of steps of this run."},
        },
        "required": ["status"],
        "anyOf": [
            {"required": ["stepType"], "properties": {"stepType": TEXT}},
            {"required": ["type"], "properties": {"type": TEXT, "stepType": {"type": "null"}}},
        ],
    },
}
