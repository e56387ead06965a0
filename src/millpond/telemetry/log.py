"""Structured log lines: one JSON object a line on standard output, as Cloud Logging reads them.

Writing never delays a message: lines are buffered in memory, and a thread writes them every 50 ms. If standard
output is blocked, lines are dropped and counted, so that memory stays bounded and no request waits. Text from
messages cannot break a line: lines are JSON in ASCII.
"""

from __future__ import annotations

import atexit
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
from millpond.telemetry.message_line import ERROR_CHARS_MAX, message_line
from millpond.telemetry.metrics import Metrics

FLUSH_S = 0.05
BUFFER_BYTES_MAX = 16 * 1024 * 1024
STACK_CHARS_MAX = 4_000
# Lines per second about failed store calls: an outage must not flood the log.
FAILED_TRIES_PER_S_MAX = 10


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
        if answered.settlement.ack_action == FILE:
            return
        line = message_line(answered, self._service, self._env, self._sha)
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
