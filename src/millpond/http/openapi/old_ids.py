"""Moving documents to the ids of today in the OpenAPI description."""

from __future__ import annotations

from millpond.core.ids import ID_BYTES_MAX
from millpond.http.api.old_ids import COLLECTION_CHARS_MAX, IDS_MAX
from millpond.http.openapi.answers import JSON, Shape
from millpond.http.openapi.parts import Operation, ok
from millpond.http.openapi.schemas import TEXT, TEXT_OR_NULL, Schema, closed, described, list_of, ref
from millpond.reprocess.old_ids import Moved

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX}
OLD_IDS_SCHEMAS: dict[str, Schema] = {
    "OldIds": closed(
        "Documents of one collection, by the ids that an earlier build escaped.",
        {
            "collection": {"type": "string", "minLength": 1, "maxLength": COLLECTION_CHARS_MAX},
            "ids": {**list_of(_ID), "minItems": 1, "maxItems": IDS_MAX},
        },
    ),
    "MovedDocuments": closed("In the order of the ids.", {"results": list_of(ref("MovedDocument"))}),
    "MovedDocument": closed(
        "What became of one document.",
        {
            "id": TEXT,
            "newId": described(TEXT_OR_NULL, "Null if the id is none that an earlier build escaped."),
            "outcome": {"enum": [*map(str, Moved)]},
            "error": described(TEXT_OR_NULL, "Why it was left where it is."),
        },
    ),
}
_EXAMPLE = {"collection": "trade_signals", "ids": ["strat_%5FSPY_%5F1"]}
OLD_IDS_OPERATIONS: dict[str, dict[str, Operation]] = {
    "/api/old-ids/move": {
        "POST": Operation(
            "moveOldIds",
            "Move documents from the ids of an earlier build to those of today",
            {**ok("MovedDocuments"), 400: [Shape("Failure", ("invalid_body",))]},
            "Each by one commit: under the old id or under the new one, never both and never neither. Where both "
            "hold a document the newer one stays, and a merged one has the newer of each field. After a 503 ask "
            "again: those that were moved are then gone.",
            body={JSON: {"schema": ref("OldIds"), "example": _EXAMPLE}},
        )
    },
}
