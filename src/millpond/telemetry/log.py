"""Structured log lines: one JSON object a line on standard output, as Cloud Logging reads them.

Writing never delays a message: lines are buffered in memory, and a thread writes them every 50 ms. If standard
output is blocked, lines are dropped and counted, so that memory stays bounded and no request waits. Text from
messages cannot break a line: lines are JSON in ASCII.
"""

from __future__ import annotations

import atexit
import datetime as dt
import json
import logging
import os
import threading
import time
import traceback
from typing import Any, BinaryIO

import msgspec

from millpond._version import __version__
from millpond.concurrency import PerSecond
from millpond.core import timestamps
from millpond.core.ack import FILE, Answered
from millpond.core.errors import StoreError, kind_of
from millpond.core.model import Event, ViewResult, is_blank
from millpond.core.severity import severity_of
from millpond.telemetry.metrics import Metrics

FLUSH_S = 0.05
BUFFER_BYTES_MAX = 16 * 1024 * 1024
ERROR_CHARS_MAX = 500
# For texts of a message that have no limit of their own.
TEXT_CHARS_MAX = 300
STACK_CHARS_MAX = 4_000
# Lines per second about failed store calls: an outage must not flood the log.
FAILED_TRIES_PER_S_MAX = 10


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


class Log:
    def __init__(self, stream: BinaryIO, *, env: str, metrics: Metrics, service: str | None = None) -> None:
        self._stream = stream
        self._service = service or os.environ.get("K_SERVICE") or "millpond"
        self._env = env
        self._sha = os.environ.get("GIT_SHA") or os.environ.get("K_REVISION")
        self._metrics = metrics
        self._failed_tries = PerSecond(FAILED_TRIES_PER_S_MAX)
        self._lines: list[bytes] = []
        self._bytes = 0
        self._encode = msgspec.json.Encoder().encode
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._write_for_ever, name="log-writer", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def on_outcome(self, answered: Answered) -> None:
        """Called with every outcome: one line for each message, except of files, whose command reports itself."""
        delivery, result, settlement = answered.delivery, answered.result, answered.settlement
        if settlement.ack_action == FILE:
            return
        line = MessageLine(
            severity_of(result),
            result.reason,
            timestamps.to_datetime(answered.at),
            self._service,
            self._env,
            __version__,
            self._sha,
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
            decisive = docs[0] if len(docs) == 1 else next(doc for doc in docs if doc.outcome is result.outcome)
            line.handler, line.doc_path = decisive.handler, decisive.doc_path
            line.write_kind = decisive.write_kind
            line.idempotency_doc = result.receipt
        if event is not None:
            line.event_type = event.event_type[:TEXT_CHARS_MAX] if event.event_type is not None else None
            line.schemaVersion = _schema_version(event)
        if error is not None:
            line.handler = result.refused_by
            line.error_type = kind_of(error)
            line.error_code = error.code if isinstance(error, StoreError) else None
            line.error = f"{error}"[:ERROR_CHARS_MAX]
        self._add(line)

    def note(self, severity: str, message: str, **fields: Any) -> None:
        """A line about the service itself."""
        now = timestamps.to_text(time.time_ns() // 1_000)
        line = {"severity": severity, "message": message, "timestamp": now, "service": self._service}
        self._add({**line, "env": self._env, "version": __version__, **fields})

    def failed_try(self, error: StoreError, attempt: int, waiting: int) -> None:
        """A read or a commit failed, and `waiting` messages wait for it. Logged before any of them is answered."""
        if not self._failed_tries.allow():
            return
        self.note(
            "WARNING",
            "a call of the store failed",
            reason="store_try_failed",
            error_type=kind_of(error),
            error_code=error.code,
            error=f"{error}"[:ERROR_CHARS_MAX],
            attempt=attempt,
            messages_waiting=waiting,
            lines_left_out=self._failed_tries.take_skipped(),
        )

    def unexpected(self, bug: BaseException) -> None:
        """A line for an unexpected error: its type and stack, not its text, which may quote a payload."""
        stack = "".join(traceback.format_tb(bug.__traceback__))[-STACK_CHARS_MAX:]
        self.note("ERROR", "unexpected error", error_type=type(bug).__name__, stack=stack)

    def close(self) -> None:
        """Write the buffered lines and stop the thread."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join(timeout=2)

    def _add(self, line: Any) -> None:
        text = self._encode(line)
        if not text.isascii():
            # U+2028 and U+2029 are legal in JSON, and some readers take them as line breaks.
            text = json.dumps(json.loads(text)).encode()
        if self._bytes > BUFFER_BYTES_MAX:
            self._metrics.log_lines_dropped += 1
            return
        self._lines.append(text)
        self._bytes += len(text)

    def _write_for_ever(self) -> None:
        while not self._stop.wait(FLUSH_S):
            self.flush()
        self.flush()

    def flush(self) -> None:
        """Write what is waiting, now."""
        with self._writing:
            if not self._lines:
                self._bytes = 0
                return
            lines, self._lines, self._bytes = self._lines, [], 0
            lines.append(b"")
            try:
                self._stream.write(b"\n".join(lines))
                self._stream.flush()
            except (OSError, ValueError):
                self._metrics.log_lines_dropped += len(lines) - 1


class ToLog(logging.Handler):
    """Writes what libraries log through `logging` to the structured log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        severity = {"WARN": "WARNING"}.get(record.levelname, record.levelname)
        fields: dict[str, Any] = {"logger": record.name}
        if record.exc_info and record.exc_info[1] is not None:
            fields["error_type"] = type(record.exc_info[1]).__name__
            # The stack, not the text: an exception may quote the payload.
            fields["stack"] = "".join(traceback.format_tb(record.exc_info[2]))[-STACK_CHARS_MAX:]
        self._log.note(severity, record.getMessage().strip(), **fields)


def _view_line(view: ViewResult) -> ViewLine:
    return ViewLine(view.view, view.doc or None, view.outcome, "put" if view.wrote else "none")


def _schema_version(event: Event) -> Any:
    """The producer's schema version, from the payload or its envelope."""
    for fields in (event.payload, event.envelope):
        for name in ("schemaVersion", "schema_version"):
            value = fields.get(name)
            if isinstance(value, str) and not is_blank(value):
                return value[:64]
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
    return None
