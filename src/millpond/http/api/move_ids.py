"""Moves documents over HTTP from the ids of an earlier build to the current ones, up to a hundred at a time."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.requests import Request

from millpond.core.ids import ID_BYTES_MAX
from millpond.core.model import Ref
from millpond.http.access import Access
from millpond.http.operation import INVALID_BODY, Body, operation
from millpond.http.routing import Route, decode_body
from millpond.reprocess.move_ids import MovedDocument
from millpond.reprocess.plan_move import Moved
from millpond.service.service import Service

IDS_MAX = 100
COLLECTION_CHARS_MAX = 6_144
_EXAMPLE = {"collection": "trade_signals", "ids": ["strat_%5FSPY_%5F1"]}
_WRITTEN = frozenset({Moved.MOVED, Moved.REPLACED, Moved.SUPERSEDED, Moved.MERGED})


class OldIds(msgspec.Struct, forbid_unknown_fields=True):
    """Documents of one collection, by the ids that an earlier build escaped."""

    collection: Annotated[str, msgspec.Meta(min_length=1, max_length=COLLECTION_CHARS_MAX)]
    ids: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=ID_BYTES_MAX)]],
        msgspec.Meta(min_length=1, max_length=IDS_MAX),
    ]


class MovedDocuments(msgspec.Struct):
    """In the order of the ids."""

    results: list[MovedDocument]


class OldIdsApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        return [Route("/api/old-ids/move", {"POST": self._move}, Access.ADMIN)]

    @operation("moveOldIds", INVALID_BODY, bodies=[Body(OldIds, _EXAMPLE)])
    async def _move(self, request: Request) -> MovedDocuments:
        """Move documents from the ids of an earlier build to the current ones.

        Each by one commit: under the old id or under the new one, never both and never neither. If both hold a
        document, the newer one stays; a merged one has the newer of each field. After a 503 ask again: those
        that were moved are then gone.
        """
        wanted = _wanted(await request.body())
        # A repeated id would be moved once, and then reported as gone.
        refs = [Ref(wanted.collection, document_id) for document_id in dict.fromkeys(wanted.ids)]
        reports = await self._service.mover.move_all(refs)
        written = sum(report.outcome in _WRITTEN for report in reports)
        if written:
            self._service.log.note(
                "NOTICE",
                "documents were moved to the ids of today",
                collection=wanted.collection,
                documents_moved=written,
            )
        return MovedDocuments([report.answer() for report in reports])


def _wanted(body: bytes) -> OldIds:
    return decode_body(body, OldIds, f'{{"collection": "…", "ids": […]}} with 1 to {IDS_MAX} ids of documents')
