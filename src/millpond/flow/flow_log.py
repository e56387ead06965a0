"""The worker's log lines: one for each event, and one for each step that is blocked or invalid.

Called by the flow-run worker.
"""

from __future__ import annotations

from typing import Any

from millpond.flow.event_filter import Filtered, FlowEvent
from millpond.flow.results import FlowResult
from millpond.flow.run_document import Survey
from millpond.telemetry.log import Log
from millpond.telemetry.message_line import TEXT_CHARS_MAX

# Lines per run about steps that are blocked or cannot be read.
STEPS_TOLD_MAX = 20


class FlowLines:
    def __init__(self, log: Log) -> None:
        self._log = log

    def result(self, event: FlowEvent | Filtered, result: FlowResult, latency_s: float) -> None:
        """The one line of an event."""
        self._note(
            event,
            result.severity,
            result.text,
            result.reason,
            outcome=result.outcome,
            http_status=result.http_status,
            flowKey=result.flow_key,
            stepId=result.step_id,
            latency_ms=round(latency_s * 1e3, 3),
        )

    def claimed(self, event: FlowEvent, picked: FlowResult, attempt: int) -> None:
        """The line written when work begins, because the work may take minutes."""
        text = f"step {picked.step_id} is claimed"
        self._note(
            event, "INFO", text, "step_claimed", flowKey=picked.flow_key, stepId=picked.step_id, attempt=attempt
        )

    def steps(self, event: FlowEvent, found: Survey, flow_key: str | None) -> None:
        for step_id, fault in list(found.invalid.items())[:STEPS_TOLD_MAX]:
            self._note(event, "WARNING", fault, "invalid_steps", flowKey=flow_key, stepId=step_id)
        for step_id, waits_for in list(found.blocked.items())[:STEPS_TOLD_MAX]:
            text = "waits for " + ", ".join(f"{other} ({status})" for other, status in waits_for.items())
            self._note(event, "INFO", text, "step_blocked", flowKey=flow_key, stepId=step_id)

    def bug(self, bug: BaseException) -> None:
        self._log.unexpected(bug)

    def _note(self, event: FlowEvent | Filtered, severity: str, text: str, reason: str, **more: Any) -> None:
        known = {"runId": event.run_id, "eventId": event.id, "eventType": event.type, "subject": event.subject}
        fields = {name: _bounded(value) for name, value in (known | more).items() if value is not None}
        # Always present, so that a query by these fields finds every line.
        fields = {"runId": None, "reason": reason} | fields
        self._log.note(severity, text[: 2 * TEXT_CHARS_MAX], **fields)


def _bounded(value: Any) -> Any:
    return value[:TEXT_CHARS_MAX] if isinstance(value, str) else value
