"""The JSON answers about letters, and the request bodies that select several of them. Used by `letters`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from millpond.core.answers import AlwaysTrue, Count, Reason, TraceText
from millpond.core.model import Delivery, Snapshot
from millpond.dead_letters.correction import BY_CHARS_MAX, edit_count
from millpond.dead_letters.describe import ReplayResult
from millpond.dead_letters.filter import ReplayState, state_of
from millpond.dead_letters.store import attributes_text
from millpond.http.api.documents import Next

IDS_MAX = 100
SELECTED_MAX = 100_000
_ID_CHARS_MAX = 1_500
_Time = Annotated[datetime, Meta(tz=True)]


class SelectedLetters(msgspec.Struct, forbid_unknown_fields=True):
    """The letters that something is done to, each id once."""

    ids: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=_ID_CHARS_MAX)]],
        Meta(min_length=1, max_length=IDS_MAX, extra_json_schema={"uniqueItems": True}),
    ]


class SelectedToPurge(SelectedLetters, forbid_unknown_fields=True):
    """The letters to purge. With `state`, those that are in another state by now stay, and are `missing`."""

    state: ReplayState | UnsetType | None = UNSET


class LetterRefusal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One view that refused the message, and why."""

    view: str
    reason: Reason
    error: str
    error_type: str


class LetterSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A letter in a list. `replayed…` after its first replay."""

    id: str
    message_id: str
    publish_time: _Time
    subscription: str
    topic: str
    event_type: str | None
    view: Annotated[str | None, Meta(description="The view whose refusal is gravest; null if it is about all.")]
    attributes: Annotated[str | None, Meta(description="JSON text; null in a list if it is long.")]
    ordering_key: str | None
    delivery_attempt: int | None
    size: Count
    reason: Reason
    error: str
    trace: TraceText | UnsetType = UNSET
    error_type: str
    classification: Literal["permanent", "configuration"]
    replays: Count
    buried_at: _Time
    expire_at: _Time
    refusals: Annotated[
        list[LetterRefusal], Meta(description="The views that refused it: a replay asks these. None: it asks all.")
    ] = []
    state: Annotated[ReplayState, Meta(description="Never replayed, replayed successfully, or failed again.")]
    replayed_at: _Time | UnsetType = UNSET
    replay_outcome: str | UnsetType = UNSET
    replay_reason: str | UnsetType = UNSET
    replayed_edits: Annotated[
        Count | UnsetType, Meta(description="How often the payload of the last replay had been edited.")
    ] = UNSET
    edit_count: Annotated[Count, Meta(description="How often its payload was edited.")] = 0


class LetterEdit(msgspec.Struct, frozen=True, kw_only=True):
    """One edit of a letter's payload: when, who, and the new size; null if the original was put back."""

    at: _Time
    by: str
    size: Count | None


class Letter(LetterSummary, frozen=True, kw_only=True):
    """A letter with its payload; bytes that are not UTF-8 are replaced."""

    attributes: str
    data: Annotated[str, Meta(description="The payload that a replay sends: corrected, if it was edited.")]
    original: Annotated[str | UnsetType, Meta(description="The payload as it arrived, if it was corrected.")] = (
        UNSET
    )
    edits: Annotated[list[LetterEdit], Meta(description="The last edits, the newest last.")]


class LetterEditRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The new payload of a letter: text of a JSON object, or null to put the original back."""

    data: str | None
    by: Annotated[str, Meta(min_length=1, max_length=BY_CHARS_MAX, description="Who edits it.")]
    edits: Annotated[
        Count | UnsetType | None, Meta(description="`editCount` as it was read: if it has changed, 409.")
    ] = UNSET


class LetterPage(msgspec.Struct):
    """By id, without payloads."""

    letters: list[LetterSummary]
    next: Next


class LetterGroup(msgspec.Struct):
    """Letters of one reason, view and topic, those replayed successfully, and those that failed again."""

    reason: Reason
    view: Annotated[
        str | None, Meta(description="All that refused them, by name, joined by a comma; null if none.")
    ]
    topic: str
    letters: Count
    replayed: Count
    failed: Count


class LetterGroups(msgspec.Struct):
    """All letters, grouped by reason, view and topic; the largest group first."""

    total: Count
    groups: list[LetterGroup]


class LetterIds(msgspec.Struct):
    """By id; `more` says whether there are others."""

    ids: Annotated[list[str], Meta(max_length=SELECTED_MAX)]
    more: bool


class Purged(msgspec.Struct):
    """Gone for ever."""

    id: str
    purged: AlwaysTrue = True


class PurgedLetters(msgspec.Struct):
    """Which are gone for ever, and which were not there."""

    purged: list[str]
    missing: list[str]


class ReplayResults(msgspec.Struct):
    """One for each id, in their order."""

    results: list[ReplayResult]


# Computed when a letter is shown; all other fields are as stored.
_MADE = {"id", "state", "refusals", "edit_count"}
_STORED = [
    (field.name, field.encode_name) for field in msgspec.structs.fields(LetterSummary) if field.name not in _MADE
]


def summary(letter: Snapshot) -> LetterSummary:
    """A letter for listings, without the delivery itself."""
    return LetterSummary(**_shown(letter))


def opened(letter: Snapshot, delivery: Delivery) -> Letter:
    original = (delivery.data or b"").decode("utf-8", "replace")
    correction = None if delivery.correction is None else delivery.correction.decode("utf-8", "replace")
    fields = {
        **_shown(letter),
        "attributes": attributes_text(delivery),
        "data": original if correction is None else correction,
        "original": UNSET if correction is None else original,
        "edits": msgspec.convert((letter.data or {}).get("edits", []), list[LetterEdit]),
    }
    return Letter(**fields)


def _shown(letter: Snapshot) -> dict[str, Any]:
    """The fields as stored; those that an earlier build did not store are left out."""
    stored = letter.data or {}
    return {
        "id": letter.ref.id,
        "state": state_of(stored),
        **{name: stored.get(key, UNSET) for name, key in _STORED},
        "refusals": msgspec.convert(stored.get("refusals") or [], list[LetterRefusal]),
        "edit_count": edit_count(stored),
    }
