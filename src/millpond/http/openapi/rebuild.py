"""Rebuilding a view in the OpenAPI description."""

from __future__ import annotations

from millpond.http.openapi import answers
from millpond.http.openapi.answers import Shape
from millpond.http.openapi.parts import Operation, in_path, ok
from millpond.http.openapi.schemas import COUNT, TEXT, TEXT_OR_NULL, Schema, closed, described, list_of, ref
from millpond.reprocess.diff import DifferenceKind
from millpond.reprocess.jobs import Phase

_COUNTS: Schema = {"type": "object", "additionalProperties": COUNT}
REBUILD_SCHEMAS: dict[str, Schema] = {
    "Rebuild": closed(
        "How far a rebuild is. `report` once it is folded, `written` once it is swapped, `error` where it failed.",
        {
            "view": TEXT,
            "phase": {"enum": [*map(str, Phase)]},
            "entries": described(COUNT, "How much of the event log was read."),
            "report": {"anyOf": [ref("RebuildReport"), {"type": "null"}]},
            "written": {"type": ["integer", "null"], "minimum": 0},
            "error": TEXT_OR_NULL,
        },
    ),
    "RebuildReport": closed(
        "The view's documents beside the fold of the log; up to 1,000 differences are listed.",
        {
            **dict.fromkeys(
                ("entries", "documents", "equal", "different", "new", "changed", "notCheckable"), COUNT
            ),
            "unfolded": described(_COUNTS, "Entries the view cannot fold, by why."),
            "differences": list_of(ref("Difference")),
            "notCheckableBecause": _COUNTS,
            "notCheckableDocs": list_of(TEXT),
        },
    ),
    "Difference": closed(
        "A document that is not what the log says, and the stamps that decide.",
        {
            "doc": TEXT,
            "view": TEXT_OR_NULL,
            "kind": {"enum": [*map(str, DifferenceKind)]},
            "stored": TEXT_OR_NULL,
            "folded": TEXT_OR_NULL,
            "fields": list_of(TEXT),
        },
    ),
    "RebuildDropped": closed("Its shadow is gone.", {"view": TEXT, "dropped": {"const": True}}),
}
_VIEW = in_path("view", "The view's name.", "ops_services")
REBUILD_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/api/rebuilds/{view}": {
        "POST": Operation(
            "rebuild",
            "Fold the event log into a shadow of one view's documents",
            {
                202: [Shape("Rebuild")],
                409: [Shape("Failure", ("no_event_log", "rebuild_under_way"))],
                **answers.NOT_FOUND,
            },
            "Nothing of the view changes before it is swapped. One rebuild at a time.",
            (_VIEW,),
        ),
        "GET": Operation(
            "rebuildState",
            "How far the rebuild is, and what differs",
            {**ok("Rebuild"), **answers.NOT_FOUND},
            parameters=(_VIEW,),
        ),
        "DELETE": Operation(
            "dropRebuild",
            "Stop the rebuild and remove its shadow",
            {**ok("RebuildDropped"), **answers.NOT_FOUND},
            parameters=(_VIEW,),
        ),
    },
    "/api/rebuilds/{view}/swap": {
        "POST": Operation(
            "swapRebuild",
            "Put the fold in the place of what differs",
            {202: [Shape("Rebuild")], 409: [Shape("Failure", ("not_folded",))], **answers.NOT_FOUND},
            "Live traffic goes on. What the log did not decide is left as it is.",
            (_VIEW,),
        )
    },
}
