"""Where log lines go: to a stream, written by a thread; or to a logger of the host's. Called by `log`.

A line is a Struct or a dict. Text from messages cannot break a line: lines are JSON in ASCII.
"""

from __future__ import annotations

import atexit
import datetime as dt
import json
import logging
import threading
from typing import Any, BinaryIO

import msgspec

from millpond.telemetry.metrics import Metrics

FLUSH_S = 0.05
BUFFER_BYTES_MAX = 16 * 1024 * 1024
# Cloud Logging's severities; `logging` has fewer levels.
_LEVELS = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "NOTICE": logging.INFO,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "CRITICAL": logging.CRITICAL,
    "ALERT": logging.CRITICAL,
}
_encode = msgspec.json.Encoder().encode


def encode_line(line: Any) -> bytes:
    text = _encode(line)
    if not text.isascii():
        # U+2028 and U+2029 are legal in JSON, and some readers take them as line breaks.
        text = json.dumps(json.loads(text)).encode()
    return text


class StreamOutput:
    """Writing never delays a message: lines are buffered in memory, and a thread writes them every 50 ms.

    If the stream is blocked, lines are dropped and counted, so that memory stays bounded and no request waits.
    """

    def __init__(self, stream: BinaryIO, metrics: Metrics) -> None:
        self._stream = stream
        self._metrics = metrics
        self._lines: list[bytes] = []
        self._bytes = 0
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._write_for_ever, name="log-writer", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def add(self, severity: str, line: Any) -> None:  # noqa: ARG002 - the line has it
        text = encode_line(line)
        if self._bytes > BUFFER_BYTES_MAX:
            self._metrics.log_lines_dropped += 1
            return
        self._lines.append(text)
        self._bytes += len(text)

    def close(self) -> None:
        """Write the buffered lines and stop the thread."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join(timeout=2)

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


class LoggerOutput:
    """Each line becomes a record of the host's logger, at once and in the calling thread, as any library's.

    The record's message is the line's JSON, made only if a handler formats it. `record.millpond` has the fields.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def add(self, severity: str, line: Any) -> None:
        level = _LEVELS.get(severity, logging.ERROR)
        if self._logger.isEnabledFor(level):
            fields = msgspec.to_builtins(line, builtin_types=(dt.datetime,))
            self._logger.log(level, _Json(fields), extra={"millpond": fields})

    def flush(self) -> None:
        """Nothing is buffered here: the host's handlers write."""

    def close(self) -> None:
        """Nothing to close: the logger is the host's."""


class _Json:
    """Fields that become one line of JSON when they are printed."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return encode_line(self._fields).decode()
