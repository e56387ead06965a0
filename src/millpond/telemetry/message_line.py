"""The log line of a message: its fields, and how they are filled from the outcome. Pure. Called by `log`."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from millpond._version import __version__
from millpond.core import timestamps
from millpond.core.ack import Answered
from millpond.core.errors import StoreError, explained, kind_of, trace_of
from millpond.core.fields import is_blank
from millpond.core.model import Event, ViewResult
from millpond.core.severity import severity_of

ERROR_CHARS_MAX = 500
# For texts of a message that have no limit of their own.
TEXT_CHARS_MAX = 300


class ViewLine(msgspec.Struct):
    """What became of a message in one view."""

    handler: str
    doc_path: str | None
    outcome: str
    write_kind: str


class MessageLine(msgspec.Struct):
    """The line of one message. Every field is always present, null if it does not apply (docs/logs-and-metrics.md).

    `outcome`, `handler`, `doc_path` and `write_kind` are those of the view that decided; `docs` has all views.
    """

    severity: str
    message: str
    timestamp: dt.datetime
    service: str
    env: str
    version: str
    sha: str | None
    topic: str
    outcome: str
    reason: str
    http_status: int | None
    ack_action: str | None
    retryable: bool
    latency_ms: float
    write_kind: str
    messageId: str = ""  # noqa: N815 - names that operators' queries use
    subscription: str = ""
    publishTime: dt.datetime | None = None  # noqa: N815
    deliveryAttempt: int | None = None  # noqa: N815
    handler: str | None = None
    doc_path: str | None = None
    docs: list[ViewLine] = []
    idempotency_doc: str | None = None
    event_type: str | None = None
    schemaVersion: Any = None  # noqa: N815
    error_type: str | None = None
    error_code: str | None = None
    error: str | None = None
    trace: str | None = None


def message_line(answered: Answered, service: str, env: str, sha: str | None) -> MessageLine:
    delivery, result, settlement = answered.delivery, answered.result, answered.settlement
    line = MessageLine(
        severity_of(result),
        result.reason,
        timestamps.to_datetime(answered.at),
        service,
        env,
        __version__,
        sha,
        result.topic,
        result.outcome,
        result.reason,
        settlement.http_status or None,
        settlement.ack_action,
        settlement.retryable,
        int(answered.latency_s * 1e6) / 1e3,
        "letter" if result.buried else "none",
    )
    if delivery is not None:
        line.messageId = delivery.message_id
        line.subscription = delivery.subscription[:TEXT_CHARS_MAX]
        line.publishTime = timestamps.to_datetime(delivery.publish_time)
        line.deliveryAttempt = delivery.attempt
    views, event, error = result.views, result.event, result.error
    if views:
        line.docs = docs = [_view_line(view) for view in views]
        decisive = docs[0] if len(docs) == 1 else next((d for d in docs if d.outcome is result.outcome), docs[0])
        line.handler, line.doc_path = decisive.handler, decisive.doc_path
        if not result.buried:
            line.write_kind = decisive.write_kind
        line.idempotency_doc = result.receipt
    if event is not None:
        line.event_type = event.event_type[:TEXT_CHARS_MAX] if event.event_type is not None else None
        line.schemaVersion = _schema_version(event)
    if error is not None:
        line.handler = result.refused_by
        line.error_type = kind_of(error)
        line.error_code = error.code if isinstance(error, StoreError) else None
        line.error = explained(error)[:ERROR_CHARS_MAX]
        line.trace = trace_of(error)
    return line


def _view_line(view: ViewResult) -> ViewLine:
    return ViewLine(view.view, view.doc or None, view.outcome, "put" if view.wrote else "none")


def _schema_version(event: Event) -> Any:
    """The producer's schema version, from the payload or its envelope."""
    for fields in (event.payload, event.envelope):
        for name in ("schemaVersion", "schema_version"):
            value = fields.get(name)
            # Few producers send one, and this is called for every message.
            if value is None:
                continue
            if isinstance(value, str) and not is_blank(value):
                return value[:64]
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
    return None
