"""`GET /api/export/{collection}`: all documents that match a filter, as one file. Never writes.

Documents are read and sent page by page, as fast as the client reads: a file of any size costs the memory of one
page. A file that cannot be finished ends with a broken connection, never as if it were complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from millpond.core.errors import StoreError, Unavailable
from millpond.core.model import Snapshot
from millpond.http.access import Access, RequestFault
from millpond.http.api.csv_rows import COLUMNS_MAX, CsvColumns
from millpond.http.api.document_filter import PARAMETERS, DocumentFilter, document_filter, matching_documents
from millpond.http.api.documents import COLLECTION, as_document
from millpond.http.operation import INVALID_QUERY, fails, operation, parameter
from millpond.http.routing import Route
from millpond.http.streams import Streams
from millpond.service.service import Service

EXPORTS_MAX = 4
# The columns of a CSV file are the fields of this many documents; those of later ones are in its last column.
LEARNED_FROM = 1_000
_PIECE_BYTES = 64 * 1024
_MEDIA_TYPES = {"csv": "text/csv; charset=utf-8; header=present", "json": "application/json"}
_encode = msgspec.json.Encoder().encode
_FORMAT = parameter(
    "query",
    "format",
    "JSON: an array of documents as `/api/docs/{collection}` has them. CSV: a row for each.",
    {"enum": sorted(_MEDIA_TYPES), "default": "json"},
    example="csv",
)


class ExportApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._streams = Streams(EXPORTS_MAX)

    def routes(self) -> list[Route]:
        return [Route("/api/export/{collection}", {"GET": self._export}, Access.ADMIN)]

    @operation(
        "export",
        INVALID_QUERY,
        fails(429, "too_many_streams"),
        fails(505, "http_version_not_supported"),
        parameters=[COLLECTION, _FORMAT, *PARAMETERS],
        description=f"The CSV columns are `id`, then the dotted paths of the first {LEARNED_FROM:,} documents' "
        f"fields, at most {COLUMNS_MAX}, and `more`: as JSON, the fields without a column. At most {EXPORTS_MAX} "
        "exports at once. docs/http-api.md has the details.",
        media_types=["text/csv", "application/json"],
    )
    async def _export(self, request: Request, collection: str) -> Response:
        """All documents of a collection that match, as a file.

        By id. An export that fails on its way ends with a broken connection.
        """
        kind = request.query_params.get("format", "json")
        if kind not in _MEDIA_TYPES:
            raise RequestFault(400, "invalid_query", f"format must be one of {', '.join(sorted(_MEDIA_TYPES))}")
        wanted = document_filter(request.query_params)
        if request.scope.get("http_version") == "1.0":
            text = "an export needs HTTP/1.1: without it, a file that broke off looks complete"
            raise RequestFault(505, "http_version_not_supported", text)
        # A store that is away is answered as everywhere, not with a broken file.
        await self._service.store.list_documents(collection, 1, None)
        # No await between this and `start`, or more exports than allowed would find room.
        self._streams.check_room()
        pieces = self._csv(collection, wanted) if kind == "csv" else self._json(collection, wanted)
        headers = {
            "content-type": _MEDIA_TYPES[kind],
            "content-disposition": f'attachment; filename="{file_name(collection)}.{kind}"',
        }
        return self._streams.start(self._sent(pieces, collection), lambda: None, headers)

    async def _sent(self, pieces: AsyncGenerator[bytes, None], collection: str) -> AsyncGenerator[bytes, None]:
        """The pieces joined to bigger ones. An error is logged here, and breaks the connection."""
        waiting = bytearray()
        try:
            async for piece in pieces:
                waiting += piece
                if len(waiting) >= _PIECE_BYTES:
                    if not self._service.engine.accepting:
                        # It would hold up the end of the process.
                        raise Unavailable("the server is shutting down")
                    yield bytes(waiting)
                    waiting.clear()
                    # Messages are answered between two pieces, also while the client reads as fast as we send.
                    await asyncio.sleep(0)
        except StoreError as error:
            self._service.log.note(
                "ERROR", "export_interrupted", collection=collection[:200], error=str(error)[:500]
            )
            raise
        finally:
            await pieces.aclose()
        yield bytes(waiting)

    def _matching(self, collection: str, wanted: DocumentFilter) -> AsyncGenerator[Snapshot, None]:
        return matching_documents(self._service.store, collection, wanted)

    async def _json(self, collection: str, wanted: DocumentFilter) -> AsyncGenerator[bytes, None]:
        before = b"["
        async for snapshot in self._matching(collection, wanted):
            yield before + _encode(as_document(snapshot))
            before = b",\n"
        yield b"]\n" if before != b"[" else b"[]\n"

    async def _csv(self, collection: str, wanted: DocumentFilter) -> AsyncGenerator[bytes, None]:
        """Two passes: the first keeps names only, so that a thousand big documents are never in memory."""
        columns, learned = CsvColumns(), 0
        async with contextlib.aclosing(self._matching(collection, wanted)) as first:
            async for snapshot in first:
                columns.learn(snapshot.data or {})
                learned += 1
                if learned == LEARNED_FROM:
                    break
        yield columns.head()
        async for snapshot in self._matching(collection, wanted):
            yield columns.row(snapshot.ref.id, snapshot.data or {})


def file_name(collection: str) -> str:
    """A name that every system takes and no header can be broken with."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", collection)[:100].strip("_") or "documents"
