"""The letters in the OpenAPI description: their shapes, and what each of their paths does."""

from __future__ import annotations

from millpond.core.model import Outcome
from millpond.dead_letters.filter import REPLAYED, ReplayState
from millpond.http.api.letters import IDS_MAX, SELECTED_MAX
from millpond.http.openapi import answers
from millpond.http.openapi.answers import JSON, Answers, Shape
from millpond.http.openapi.parts import PAGE, PAGED, PUSH_EXAMPLE, Operation, in_path, ok, parameter
from millpond.http.openapi.schemas import (
    ANSWER,
    COUNT,
    ERROR,
    REASON,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    Schema,
    closed,
    described,
    list_of,
    ref,
)

_STATE: Schema = {"enum": [str(state) for state in ReplayState]}
_LETTER: dict[str, Schema] = {
    "id": TEXT,
    "messageId": TEXT,
    "publishTime": TIME,
    "subscription": TEXT,
    "topic": TEXT,
    "eventType": TEXT_OR_NULL,
    "view": described(TEXT_OR_NULL, "The view that raised, for `view_error`."),
    "attributes": described(TEXT_OR_NULL, "JSON text; null in a list where it is long."),
    "orderingKey": TEXT_OR_NULL,
    "deliveryAttempt": {"type": ["integer", "null"]},
    "size": COUNT,
    "reason": REASON,
    "error": TEXT,
    "errorType": TEXT,
    "classification": {"enum": ["permanent", "configuration"]},
    "replays": COUNT,
    "buriedAt": TIME,
    "expireAt": TIME,
    "replayedAt": TIME,
    "replayOutcome": TEXT,
    "replayReason": TEXT,
    "state": described(_STATE, "Never replayed, replayed successfully, or failed again."),
}
_REPLAYED = ("replayedAt", "replayOutcome", "replayReason")
_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 1_500}
_IDS: Schema = {**list_of(_ID), "minItems": 1, "maxItems": IDS_MAX, "uniqueItems": True}
_REPLAYED_TO = {
    "id": TEXT,
    **{name: ANSWER[name] for name in ("outcome", "reason", "topic", "views")},
    "error": ERROR,
}
LETTER_SCHEMAS: dict[str, Schema] = {
    "LetterPage": closed(
        "By id, without payloads.", {"letters": list_of(ref("LetterSummary")), "next": ref("Next")}
    ),
    "LetterSummary": closed("A letter in a list. `replayed…` after its first replay.", _LETTER, _REPLAYED),
    "Letter": closed(
        "A letter with its payload; bytes that are not UTF-8 are replaced.",
        {**_LETTER, "attributes": TEXT, "data": TEXT},
        _REPLAYED,
    ),
    "Purged": closed("Gone for ever.", {"id": TEXT, "purged": {"const": True}}),
    "ReplayAnswer": closed(
        "What a replay led to. `error` where it is poison, or not settled.",
        _REPLAYED_TO,
        optional=("error",),
    ),
    "ReplayResult": closed(
        "What the replay of one of several letters led to: `not_found` where it is gone, `retry` where it could "
        "not be tried or settled.",
        {**_REPLAYED_TO, "outcome": {"enum": [*map(str, Outcome), "not_found"]}},
        optional=("error",),
    ),
    "ReplayResults": closed("One for each id, in their order.", {"results": list_of(ref("ReplayResult"))}),
    "ReplayPreview": closed(
        "What replaying the letters, in their order, would lead to, and the documents it would write.",
        {"letters": list_of(ref("ReplayResult")), "changes": list_of(ref("DocumentChange"))},
    ),
    "DocumentChange": closed(
        "A document as it is, and as it would be.",
        {"doc": TEXT, "before": {"type": ["object", "null"]}, "after": {"type": "object"}},
    ),
    "PurgedLetters": closed(
        "Which are gone for ever, and which were not there.", {"purged": list_of(TEXT), "missing": list_of(TEXT)}
    ),
    "LetterGroups": closed(
        "All letters, by why they lie there; the largest group first.",
        {
            "total": COUNT,
            "groups": list_of(
                closed(
                    "Letters of one reason, view and topic: how many, how many of them were replayed "
                    "successfully, and how many failed again.",
                    {
                        "reason": REASON,
                        "view": TEXT_OR_NULL,
                        "topic": TEXT,
                        "letters": COUNT,
                        "replayed": COUNT,
                        "failed": COUNT,
                    },
                )
            ),
        },
    ),
    "LetterIds": closed(
        f"By id, at most {SELECTED_MAX:,}; `more` says whether there are others.",
        {"ids": list_of(TEXT), "more": {"type": "boolean"}},
    ),
    "SelectedLetters": closed("Letters, each once.", {"ids": _IDS}),
    "SelectedToPurge": closed(
        "Letters, each once. With `state`, those that are in another state by now stay, and are `missing`.",
        {"ids": _IDS, "state": {"enum": [*_STATE["enum"], None]}},
        optional=("state",),
    ),
}

_LETTER_ID = in_path("id", "The letter's id.", "health__1002")
_FILTERS = (
    parameter("query", "reason", "Only letters of this reason."),
    parameter("query", "view", "Only letters of this view; empty: of none."),
    parameter("query", "topic", "Only letters of this topic; empty: of none."),
    parameter("query", "state", "Only letters in this replay state.", _STATE),
    parameter(
        "query",
        "replayed",
        "The same as `state`: `yes` is `succeeded`, `no` is `never`.",
        {"enum": [*REPLAYED]},
    ),
)
_REPLAY: Answers = {
    200: [Shape("ReplayAnswer", (*answers.DONE, *answers.BURIED), own_words=True)],
    429: [Shape("Failure", answers.FULL)],
    503: [Shape("ReplayAnswer", answers.UNSETTLED)],
}
_BODY_REFUSED: Answers = {400: [Shape("Failure", ("invalid_body",))]}


def _selected(*ids: str, shape: str = "SelectedLetters", **more: str) -> dict[str, Schema]:
    return {JSON: {"schema": ref(shape), "example": {"ids": [*ids], **more}}}


LETTER_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/api/letters": {
        "GET": Operation(
            "letters",
            "The dead letters",
            {**ok("LetterPage"), **PAGED},
            parameters=(*PAGE, *_FILTERS),
            leads_to={name: {"id": "$response.body#/letters/0/id"} for name in ("letter", "replayLetter", "purge")},
        )
    },
    "/api/letters/groups": {
        "GET": Operation("letterGroups", "How many letters lie there for what", ok("LetterGroups"))
    },
    "/api/letters/ids": {
        "GET": Operation(
            "letterIds",
            "The ids of all letters that match",
            {**ok("LetterIds"), **PAGED},
            "A selection that does not move while it is worked through.",
            _FILTERS,
        )
    },
    "/api/letters/replay": {
        "POST": Operation(
            "replayLetters",
            "Send the messages of several letters through the engine again",
            {**ok("ReplayResults"), **_BODY_REFUSED},
            "200 says of each letter what became of it; no letter keeps another from being tried.",
            body=_selected("health__1002", "health__1003"),
        )
    },
    "/api/letters/purge": {
        "POST": Operation(
            "purgeLetters",
            "Delete several letters for ever",
            {**ok("PurgedLetters"), **_BODY_REFUSED},
            "After a 503 ask again: those that are gone are then missing.",
            body=_selected("health__1005", shape="SelectedToPurge", state="never"),
        )
    },
    "/api/letters/preview": {
        "POST": Operation(
            "previewReplay",
            "What a replay of several letters would change",
            {**ok("ReplayPreview"), **_BODY_REFUSED},
            "Nothing is written.",
            body=_selected("health__1002"),
        )
    },
    "/api/letters/{id}": {
        "GET": Operation(
            "letter",
            "One letter, with its payload",
            {**ok("Letter"), **answers.NOT_FOUND},
            parameters=(_LETTER_ID,),
        ),
        "DELETE": Operation(
            "purge", "Delete a letter for ever", {**ok("Purged"), **answers.NOT_FOUND}, parameters=(_LETTER_ID,)
        ),
    },
    "/api/letters/{id}/replay": {
        "POST": Operation(
            "replayLetter",
            "Send a letter's message through the engine again",
            {**_REPLAY, **answers.NOT_FOUND},
            "200 says what became of it, poison included. The letter stays until it is purged or expires.",
            (_LETTER_ID,),
        )
    },
    "/api/replay": {
        "POST": Operation(
            "replayMessage",
            "Send a message of a dead-letter subscription through the engine",
            {
                **_REPLAY,
                200: [Shape("ReplayAnswer", answers.DONE)],
                400: [Shape("Failure", answers.ENVELOPE)],
                422: [Shape("ReplayAnswer", answers.CONTENT, own_words=True)],
            },
            "The message is given as a push body. Nothing is buried here: poison is answered 422, and stays where "
            "it came from.",
            body={JSON: {"schema": ref("PushRequest"), "example": PUSH_EXAMPLE}},
        )
    },
}
