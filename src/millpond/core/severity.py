"""Result → the severity of its log line, as Cloud Logging names them: ALERT and CRITICAL call an operator. Pure."""

from __future__ import annotations

from millpond.core.errors import AccessDenied, MalformedEnvelope, PushRefused, WriteRefused
from millpond.core.model import Outcome, Result


def severity_of(result: Result) -> str:
    error = result.error
    if error is not None:
        if isinstance(error, WriteRefused) or (isinstance(error, AccessDenied) and result.buried):
            return "ALERT"
        if isinstance(error, AccessDenied):
            return "CRITICAL"
        if isinstance(error, PushRefused | MalformedEnvelope):
            return error.severity
    return "ERROR" if result.outcome is Outcome.POISON or result.outcome is Outcome.RETRY else "INFO"
