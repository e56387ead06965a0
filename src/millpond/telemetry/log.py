"""Structured log lines: one JSON object a line, as Cloud Logging reads them.

`Log` says what is logged. The lines go to a stream (`log_output.StreamOutput`, standard output in a server), or to
a logger of a host that embeds Millpond (`log_output.LoggerOutput`).
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from typing import Any, BinaryIO

from millpond._version import __version__
from millpond.concurrency import PerSecond
from millpond.core import timestamps
from millpond.core.ack import FILE, Answered
from millpond.core.errors import StoreError, kind_of
from millpond.telemetry.log_output import LoggerOutput, StreamOutput
from millpond.telemetry.message_line import ERROR_CHARS_MAX, message_line
from millpond.telemetry.metrics import Metrics

STACK_CHARS_MAX = 4_000
# Lines per second about failed store calls: an outage must not flood the log.
FAILED_TRIES_PER_S_MAX = 10


class Log:
    def __init__(
        self, output: BinaryIO | logging.Logger, *, env: str, metrics: Metrics, service: str | None = None
    ) -> None:
        self._output = LoggerOutput(output) if isinstance(output, logging.Logger) else StreamOutput(output, metrics)
        self._service = service or os.environ.get("K_SERVICE") or "millpond"
        self._env = env
        self._sha = os.environ.get("GIT_SHA") or os.environ.get("K_REVISION")
        self._failed_tries = PerSecond(FAILED_TRIES_PER_S_MAX)
        self.flush = self._output.flush
        self.close = self._output.close

    def on_outcome(self, answered: Answered) -> None:
        """Called with every outcome: one line for each message, except of files, whose command reports itself."""
        if answered.settlement.ack_action == FILE:
            return
        line = message_line(answered, self._service, self._env, self._sha)
        self._output.add(line.severity, line)

    def note(self, severity: str, message: str, **fields: Any) -> None:
        """A line about the service itself."""
        now = timestamps.to_text(time.time_ns() // 1_000)
        line = {"severity": severity, "message": message, "timestamp": now, "service": self._service}
        self._output.add(severity, {**line, "env": self._env, "version": __version__, **fields})

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
