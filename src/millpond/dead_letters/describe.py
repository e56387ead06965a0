"""Why a message was buried, in the words every letter uses, wherever it lies."""

from __future__ import annotations

from typing import Any

from millpond.core.errors import AccessDenied, ViewError
from millpond.core.model import Result
from millpond.core.route import Fault

ERROR_CHARS_MAX = 1_000


def classification_of(fault: Fault) -> str:
    """004's classes: retrying alone mends neither; one needs other data or code, the other permissions."""
    return "configuration" if isinstance(fault, AccessDenied) else "permanent"


def bounded_error(error: BaseException) -> str:
    """An error for a letter, which may quote the payload it lies beside; of a view's bug, what it raised."""
    text = f"{error}: {error.detail}" if isinstance(error, ViewError) and error.detail else f"{error}"
    return text[:ERROR_CHARS_MAX].encode(errors="replace").decode()


def replay_answer(letter_id: str, result: Result) -> dict[str, Any]:
    """What a replay led to, as the API and the command line tell it."""
    views = [{"view": v.view, "doc": v.doc, "outcome": v.outcome, "reason": v.reason} for v in result.views]
    answer = {"id": letter_id, "outcome": result.outcome, "reason": result.reason, "topic": result.topic}
    told = {**answer, "views": views}
    return told if result.error is None else {**told, "error": bounded_error(result.error)}


def untried_answer(letter_id: str, outcome: str, reason: str, error: str) -> dict[str, Any]:
    """The same of a letter that is gone, or could not be tried."""
    return {"id": letter_id, "outcome": outcome, "reason": reason, "topic": "", "views": [], "error": error}
