"""The dashboard's files: read once when the server starts, and served from memory.

They hold no data, so every client that reaches the port may have them: their scripts get all data from the API.
Only names that were found in the folder are served: a request never becomes a file path. Called by the table of
routes.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from millpond.http.access import Access
from millpond.http.operation import NOT_FOUND, Answers, in_path, operation
from millpond.http.routing import Route, failure

FOLDER = Path(__file__).parent / "static"
INDEX = "index.html"
# Made from docs/runbook.md: `millpond.alerts.runbook_page`.
RUNBOOK = "runbook.html"
_UNCHANGED: Answers = {304: []}
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    # Only our own code and styles, no other origin, no frames: text of a message that got into the page as markup
    # still could not run.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class Page(NamedTuple):
    content: bytes
    # The same content with gzip: a third of the size.
    compressed: bytes
    media_type: str
    etag: str


def read_pages(folder: Path) -> dict[str, Page]:
    """The folder's files by name."""
    return {
        path.name: _page(path.read_bytes(), _MEDIA_TYPES[path.suffix])
        for path in sorted(folder.glob("*"))
        if path.suffix in _MEDIA_TYPES and path.is_file()
    }


def _page(content: bytes, media_type: str) -> Page:
    # Without a time stamp: the same content gives the same bytes.
    compressed = gzip.compress(content, mtime=0)
    return Page(content, compressed, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


class Pages:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._pages = read_pages(folder)

    def routes(self) -> list[Route]:
        return [
            Route("/", {"GET": self._index}, Access.OPEN),
            Route("/runbook", {"GET": self._runbook}, Access.OPEN),
            Route("/static/{file}", {"GET": self._file}, Access.OPEN),
        ]

    @operation("dashboard", _UNCHANGED, media_types=["text/html"])
    async def _index(self, request: Request) -> Response:
        """The dashboard."""
        return self._answer(request, INDEX)

    @operation("runbook", _UNCHANGED, media_types=["text/html"])
    async def _runbook(self, request: Request) -> Response:
        """The runbook: what each alert means and what to do. The heading of an alert is its id."""
        return self._answer(request, RUNBOOK)

    @operation(
        "file",
        _UNCHANGED,
        NOT_FOUND,
        parameters=[in_path("file", "Its name.", INDEX)],
        media_types=["text/html", "text/javascript", "text/css", "image/svg+xml"],
    )
    async def _file(self, request: Request, name: str) -> Response:
        """A file of the dashboard."""
        return self._answer(request, name)

    def _answer(self, request: Request, name: str) -> Response:
        page = self._pages.get(name)
        if page is None:
            return failure(404, "not_found", "there is no such file", _HEADERS)
        headers = {**_HEADERS, "etag": page.etag, "vary": "accept-encoding"}
        if _is_known(request.headers.get("if-none-match", ""), page.etag):
            return Response(status_code=304, headers=headers)
        if _takes_gzip(request.headers.get("accept-encoding", "")):
            headers["content-encoding"] = "gzip"
            return Response(page.compressed, headers=headers, media_type=page.media_type)
        return Response(page.content, headers=headers, media_type=page.media_type)


def _takes_gzip(accepted: str) -> bool:
    """True only if gzip is named without a weight: any other client gets plain bytes."""
    return any(choice.strip().lower() in {"gzip", "x-gzip"} for choice in accepted.split(","))


def _is_known(given: str, etag: str) -> bool:
    """Whether the client has this content already. A proxy that compresses makes the tag a weak one."""
    return any(tag.strip().removeprefix("W/") in {etag, "*"} for tag in given.split(","))
