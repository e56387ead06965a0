"""Why a message was buried and what its replay led to, in the words that letters, the API and the CLI share."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from millpond.core.answers import ErrorText, Reason, Topic, TraceText, ViewAnswer
from millpond.core.errors import AccessDenied, Fault, UnownedDocument, explained, gravest, trace_of
from millpond.core.model import Document, Outcome, Result

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
    trace: TraceText | UnsetType = UNSET


class ReplayAnswer(ReplayResult, frozen=True):
    """What a replay led to. `error` if it is poison, or not settled."""

    outcome: Outcome


def classification_of(fault: Fault) -> str:
    """The class of a fault. A retry alone fixes neither: `permanent` needs other data or code.

    `configuration` needs access, or a word on what to do with documents that were there before.
    """
    return "configuration" if isinstance(fault, AccessDenied | UnownedDocument) else "permanent"


def refusal_of(fault: Fault) -> dict[str, str | None]:
    """Which view refused the message, and why: one entry of a letter's `refusals`."""
    return {
        "view": fault.view,
        "reason": fault.reason,
        "error": bounded_error(fault),
        "errorType": type(fault).__name__,
    }


def fault_fields(fault: Fault) -> Document:
    """The fields of a letter that say why it was buried."""
    trace = trace_of(fault)
    return {**refusal_of(fault), "classification": classification_of(fault), **({"trace": trace} if trace else {})}


def with_replay(letter: Document, result: Result, at: dt.datetime, edits: int) -> Document:
    """The letter after a replay. Views that took the message are not asked again, unless all have taken it.

    `edits`: how often the payload that was replayed had been edited.
    """
    noted = {**letter, "replays": int(letter.get("replays", 0)) + 1, "replayedAt": at}
    if edits:
        noted["replayedEdits"] = edits
    left = _left(letter, result)
    if left:
        noted["refusals"] = left
    if result.faults:
        noted.pop("trace", None)
        noted |= fault_fields(gravest(result.faults))
    if left and not result.faults:
        # A redelivery has added a view meanwhile: the letter must not count as replayed successfully.
        return {name: value for name, value in noted.items() if name not in {"replayOutcome", "replayReason"}}
    return {**noted, "replayOutcome": str(result.outcome), "replayReason": result.reason}


def _left(letter: Document, result: Result) -> list[dict[str, str | None]]:
    """The refusals that are left after a replay, of a letter that lists them or begins to."""
    refused = {fault.view: fault for fault in result.faults}
    listed = letter.get("refusals") or ()
    if not listed:
        # It was about the whole message. A view that took it now must not be asked again with an edited payload: it
        # could count the event a second time.
        taken = {view.view for view in result.views} - refused.keys()
        return [refusal_of(fault) for fault in result.faults] if taken and None not in refused else []
    asked = {view.view for view in result.views}
    return [
        refusal_of(refused[one["view"]]) if one["view"] in refused else one
        for one in listed
        if one["view"] in refused or one["view"] not in asked
    ]


def bounded_error(error: BaseException) -> str:
    """The text of an error for a letter."""
    return explained(error)[:ERROR_CHARS_MAX].encode(errors="replace").decode()


def replay_answer(letter_id: str, result: Result) -> ReplayAnswer:
    """The result of a replay, as the API and the command line return it."""
    views = [ViewAnswer(view.view, view.doc, view.outcome, view.reason) for view in result.views]
    error = UNSET if result.error is None else bounded_error(result.error)
    trace = trace_of(result.error) or UNSET
    return ReplayAnswer(letter_id, result.outcome, result.reason, result.topic, views, error, trace)


def untried_answer(letter_id: str, outcome: str, reason: str, error: str) -> ReplayResult:
    """The same for a letter that is gone, or could not be tried."""
    return ReplayResult(letter_id, outcome, reason, "", [], error)
