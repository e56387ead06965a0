"""The result of an event about a flow run, with its HTTP answer and the text of its log line. Pure.

The worker returns it; `POST /events`, `functions.py` and the log show it.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import msgspec

from millpond.core.answers import ErrorText, Reason
from millpond.core.errors import AccessDenied, InternalError, Overloaded, StoreError, WriteRefused
from millpond.flow.claims import CONTENTION

OK = 200
TOO_MANY = 429
AGAIN = 503


class FlowOutcome(enum.StrEnum):
    """All but RETRY are final: the event may be acknowledged."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST_RACE = "lost_race"
    FILTERED = "filtered"
    NOOP = "noop"
    RETRY = "retry"


_FINAL = [str(outcome) for outcome in FlowOutcome if outcome is not FlowOutcome.RETRY]


class FlowAnswer(msgspec.Struct, rename="camel"):
    """An event that may be forgotten."""

    outcome: Annotated[str, msgspec.Meta(extra_json_schema={"enum": _FINAL})]
    reason: Reason
    run_id: str | None
    step_id: str | None


class FlowAgain(msgspec.Struct, rename="camel"):
    """An event that must come again."""

    outcome: Literal["retry"]
    reason: Reason
    run_id: str | None
    step_id: str | None
    error: ErrorText


class FlowResult(msgspec.Struct, frozen=True, kw_only=True):
    outcome: FlowOutcome
    reason: str
    text: str
    run_id: str | None = None
    step_id: str | None = None
    flow_key: str | None = None
    severity: str = "INFO"
    # The end of a lease in this run that another worker holds. The run is looked at again then.
    look_again_at: int | None = None

    @property
    def http_status(self) -> int:
        if self.outcome is not FlowOutcome.RETRY:
            return OK
        return TOO_MANY if self.reason == Overloaded.reason else AGAIN

    def answer(self) -> FlowAnswer | FlowAgain:
        """As JSON shows it; `error` only if the event must come again."""
        if self.outcome is FlowOutcome.RETRY:
            return FlowAgain("retry", self.reason, self.run_id, self.step_id, self.text)
        return FlowAnswer(self.outcome, self.reason, self.run_id, self.step_id)

    def of_step(self, step_id: str) -> FlowResult:
        """The same result about this step. How it ends is not known yet."""
        return msgspec.structs.replace(self, step_id=step_id)

    def ends(self, outcome: FlowOutcome, reason: str, text: str, **more: Any) -> FlowResult:
        """The same run and step, and how it ended."""
        return msgspec.structs.replace(self, outcome=outcome, reason=reason, text=text, **more)

    def exhausted(self, attempts: int) -> FlowResult:
        """The step was claimed as often as it may be, and is FAILED."""
        text = f"step {self.step_id} is FAILED: claimed {attempts} times, and never finished"
        return self.ends(FlowOutcome.FAILED, "attempts_exhausted", text, severity="ERROR")

    def undone_by(self, error: Exception) -> FlowResult:
        """The result of an event that failed: RETRY, unless a redelivery can never succeed."""
        if isinstance(error, WriteRefused):
            # A repair changes the run, and that change is a new event.
            return self.ends(FlowOutcome.NOOP, error.reason, str(error), severity="ALERT")
        if isinstance(error, AccessDenied):
            return self.ends(FlowOutcome.RETRY, error.reason, str(error), severity="CRITICAL")
        if isinstance(error, StoreError):
            reason = "contention" if error.code == CONTENTION else "store_unavailable"
            return self.ends(FlowOutcome.RETRY, reason, str(error), severity="ERROR")
        if isinstance(error, Overloaded):
            return self.ends(FlowOutcome.RETRY, error.reason, str(error), severity="WARNING")
        return self.ends(FlowOutcome.RETRY, InternalError.reason, str(InternalError(error)), severity="ERROR")
