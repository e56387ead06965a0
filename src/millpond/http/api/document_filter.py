"""Which documents of a collection a request asks for: a time range, and texts in fields.

They are read page by page, and those that do not match are never kept: a collection may hold millions. Used by the
endpoints `documents` and `export`. Never writes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.datastructures import QueryParams

from millpond.concurrency import in_thread
from millpond.core import timestamps
from millpond.core.errors import InvalidEvent
from millpond.core.model import Document, Snapshot
from millpond.core.ports import Catalog
from millpond.core.time_range import ALL_TIME, TimeRange
from millpond.http.access import RequestFault
from millpond.http.api import time_range
from millpond.http.operation import parameter

# How many documents one request looks at. With none among them that matches, it answers an empty page with `next`.
SCANNED_MAX = 10_000
WHERE_MAX = 8
WHERE_CHARS_MAX = 500
_SCANNED_AT_ONCE = 100
_WHERE = (
    "PATH=TEXT: the field at this dotted path, as text, contains TEXT in any case of letters. With an empty TEXT "
    "the document has the field. Repeated: all of them."
)
PARAMETERS = (
    *time_range.PARAMETERS,
    parameter(
        "query",
        "where",
        _WHERE,
        {
            "type": "array",
            "maxItems": WHERE_MAX,
            "items": {"type": "string", "maxLength": WHERE_CHARS_MAX, "pattern": "^[^=]+="},
        },
        example=["status=healthy"],
    ),
)
_encode = msgspec.json.Encoder().encode


class Where(NamedTuple):
    """`text` is folded already (`str.casefold`)."""

    path: tuple[str, ...]
    text: str

    def matches(self, document: Document) -> bool:
        return any(self.text in as_text(value).casefold() for value in values_at(document, self.path))


class DocumentFilter(NamedTuple):
    """A document's time is the publish time of the message that wrote it last."""

    times: TimeRange = ALL_TIME
    where: tuple[Where, ...] = ()

    @property
    def takes_all(self) -> bool:
        return not self.where and not self.times.is_bounded

    def matches(self, document: Document) -> bool:
        if self.times.is_bounded and not self.times.holds(published_at(document)):
            return False
        return all(one.matches(document) for one in self.where)


def document_filter(query: QueryParams) -> DocumentFilter:
    """The filter that the request asks for."""
    texts = query.getlist("where")
    if len(texts) > WHERE_MAX or any(len(text) > WHERE_CHARS_MAX for text in texts):
        limits = f"at most {WHERE_MAX} times, with at most {WHERE_CHARS_MAX} characters each"
        raise RequestFault(400, "invalid_query", f"where may be given {limits}")
    return DocumentFilter(time_range.time_range(query), tuple(map(_where, texts)))


def _where(text: str) -> Where:
    path, equals, wanted = text.partition("=")
    if not path or not equals:
        raise RequestFault(400, "invalid_query", "where must be PATH=TEXT, such as where=address.city=berlin")
    return Where(tuple(path.split(".")), wanted.casefold())


def published_at(document: Document) -> int | None:
    """In microseconds; None if the document does not say it, as those of other programs may not."""
    source = document.get("source")
    found = source.get("publishedAt") if isinstance(source, dict) else None
    try:
        if isinstance(found, dt.datetime):
            return timestamps.from_datetime(found)
        return timestamps.parse(found, "publishedAt")
    except (InvalidEvent, TypeError):
        return None


def values_at(value: Any, path: Sequence[str]) -> Iterator[Any]:
    """The values at a dotted path. There may be several: a field's own name may contain dots.

    Each map on the way is visited once, because what leads to it uses up a fixed part of the path.
    """
    if not path:
        yield value
    elif isinstance(value, dict):
        for n in range(1, len(path) + 1):
            name = ".".join(path[:n])
            if name in value:
                yield from values_at(value[name], path[n:])


def as_text(value: Any) -> str:
    """A value as the API shows it: text as it is, times and bytes without quotes, everything else as JSON."""
    if isinstance(value, str):
        return value
    encoded = _encode(value).decode()
    return encoded[1:-1] if encoded.startswith('"') else encoded


async def _judged(page: Sequence[Snapshot], wanted: DocumentFilter) -> list[bool]:
    """Whether each matches. In a thread if fields are searched: a hundred documents of a megabyte take seconds."""

    def judge() -> list[bool]:
        return [wanted.matches(snapshot.data or {}) for snapshot in page]

    return await in_thread(judge) if wanted.where else judge()


async def matching_documents(
    catalog: Catalog, collection: str, wanted: DocumentFilter
) -> AsyncGenerator[Snapshot, None]:
    """All documents that match, by id."""
    after = None
    while True:
        page = await catalog.list_documents(collection, _SCANNED_AT_ONCE, after)
        for snapshot, matches in zip(page, await _judged(page, wanted), strict=True):
            if matches:
                yield snapshot
        if len(page) < _SCANNED_AT_ONCE:
            return
        after = page[-1].ref.id


async def matching_page(
    catalog: Catalog, collection: str, wanted: DocumentFilter, limit: int, after: str | None
) -> tuple[list[Snapshot], str | None]:
    """Up to `limit` documents that match, and the id to go on after; None if there are no more."""
    found: list[Snapshot] = []
    for _ in range(SCANNED_MAX // _SCANNED_AT_ONCE):
        page = await catalog.list_documents(collection, _SCANNED_AT_ONCE, after)
        for snapshot, matches in zip(page, await _judged(page, wanted), strict=True):
            if matches:
                if len(found) == limit:
                    return found, after
                found.append(snapshot)
            after = snapshot.ref.id
        if len(page) < _SCANNED_AT_ONCE:
            return found, None
    return found, after
