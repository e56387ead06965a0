"""Why a message was buried, in the words every letter uses, wherever it lies."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from millpond.core.answers import ErrorText, Reason, Topic, ViewAnswer
from millpond.core.errors import AccessDenied, ViewError
from millpond.core.model import Outcome, Result
from millpond.core.route import Fault

ERROR_CHARS_MAX = 1_000
_OUTCOMES = [*map(str, Outcome), "not_found"]


class ReplayResult(msgspec.Struct, frozen=True):
    """What the replay of one of several letters led to.

    `not_found` if it is gone, `retry` if it could not be tried or settled.
    """

    id: str
    outcome: Annotated[str, msgspec.Meta(extra_json_schema={"enum": _OUTCOMES})]
    reason: Reason
    topic: Topic
    views: list[ViewAnswer]
    error: ErrorText | UnsetType = UNSET


class ReplayAnswer(ReplayResult, frozen=True):
    """What a replay led to. `error` if it is poison, or not settled."""

    outcome: Outcome


def classification_of(fault: Fault) -> str:
    """004's classes: retrying alone mends neither; one needs other data or code, the other permissions."""
    return "configuration" if isinstance(fault, AccessDenied) else "permanent"


def bounded_error(error: BaseException) -> str:
    """An error for a letter, which may quote the payload it lies beside; of a view's bug, what it raised."""
    text = f"{error}: {error.detail}" if isinstance(error, ViewError) and error.detail else f"{error}"
    return text[:ERROR_CHARS_MAX].encode(errors="replace").decode()


def replay_answer(letter_id: str, result: Result) -> ReplayAnswer:
    """What a replay led to, as the API and the command line tell it."""
    views = [ViewAnswer(view.view, view.doc, view.outcome, view.reason) for view in result.views]
    error = UNSET if result.error is None else bounded_error(result.error)
    return ReplayAnswer(letter_id, result.outcome, result.reason, result.topic, views, error)


def untried_answer(letter_id: str, outcome: str, reason: str, error: str) -> ReplayResult:
    """The same of a letter that is gone, or could not be tried."""
    return ReplayResult(letter_id, outcome, reason, "", [], error)
