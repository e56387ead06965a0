"""Reads a symbol's minutes from the store: one source for each value of BARS_ID. Called by `find.py`.

No source queries by a field or in descending order, so no store needs an index for them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from millpond import Document, Documents, Snapshot, StepFailed, decode_id, encode_id, to_datetime, to_text
from millpond.charts.bars import Minute, bar_of, minute_of
from millpond.charts.times import DAY_US, MINUTE_US

COLLECTION = "market_bars_1m"
COLLECTION_NESTED = "market_bars_1m_by_symbol"
PAGE_DOCUMENTS = 1_000
SCAN_DOCUMENTS_MAX = 50_000


class BarSource(Protocol):
    """The minutes of one symbol. `lower` and `upper` are whole minutes in microseconds; `upper` is not included."""

    def pages(self, lower: int, upper: int, limit: int = PAGE_DOCUMENTS) -> AsyncGenerator[list[Minute], None]:
        """The minutes from `lower` to before `upper`, oldest first, read at most `limit` documents at a time."""

    async def has_any(self, lower: int, upper: int) -> bool:
        """Whether `pages` would find a document; reads as few documents as possible."""


def open_source(documents: Documents, bars_id: str, symbol: str) -> BarSource:
    """The source for a BARS_ID setting."""
    kinds: dict[str, type[NaturalIds | NestedIds | EventIds]] = {
        "natural": NaturalIds,
        "nested": NestedIds,
        "event": EventIds,
    }
    return kinds[bars_id](documents, symbol)


class NaturalIds:
    """`market_bars_1m/{SYMBOL}__{minute}`: a window of a symbol is a range of ids."""

    def __init__(self, documents: Documents, symbol: str) -> None:
        self._documents = documents
        self._symbol = symbol

    async def pages(
        self, lower: int, upper: int, limit: int = PAGE_DOCUMENTS
    ) -> AsyncGenerator[list[Minute], None]:
        after, end = self._id(lower - MINUTE_US), self._id(upper)
        # A minute is one document, so this bounds the window: nothing after its end is read.
        left = (upper - lower) // MINUTE_US
        while left > 0:
            wanted = min(limit, left, PAGE_DOCUMENTS)
            page = await self._documents.list_documents(COLLECTION, wanted, after)
            inside = [snapshot for snapshot in page if snapshot.ref.id < end]
            yield _within(lower, upper, [self._minute(snapshot) for snapshot in inside])
            if len(inside) < wanted:
                return
            left -= len(inside)
            after = inside[-1].ref.id

    async def has_any(self, lower: int, upper: int) -> bool:
        page = await self._documents.list_documents(COLLECTION, 1, self._id(lower - MINUTE_US))
        return bool(page) and page[0].ref.id < self._id(upper)

    def _id(self, minute: int) -> str:
        return encode_id(self._symbol, to_text(minute))

    def _minute(self, snapshot: Snapshot) -> Minute | None:
        document = snapshot.data or {}
        start = minute_of(document)
        if start is None:
            start = minute_of({"ts": decode_id(snapshot.ref.id)[-1]})
        return None if start is None else Minute(start, bar_of(document, start))


class NestedIds:
    """`market_bars_1m_by_symbol/{SYMBOL}/days/{YYYYMMDD}/minutes/{HHMM}`: one collection for each day."""

    def __init__(self, documents: Documents, symbol: str) -> None:
        self._documents = documents
        self._days = f"{COLLECTION_NESTED}/{encode_id(symbol)}/days"

    async def pages(
        self, lower: int, upper: int, limit: int = PAGE_DOCUMENTS
    ) -> AsyncGenerator[list[Minute], None]:
        for collection, before, end in self._parts(lower, upper):
            after, is_full = before, True
            while is_full:
                page = await self._documents.list_documents(collection, limit, after)
                inside = [snapshot for snapshot in page if snapshot.ref.id < end]
                yield _within(lower, upper, [_minute(snapshot.data or {}) for snapshot in inside])
                is_full = len(inside) == limit
                after = inside[-1].ref.id if inside else after

    async def has_any(self, lower: int, upper: int) -> bool:
        # The newest day first: it is the most likely to have bars.
        for collection, after, end in reversed(self._parts(lower, upper)):
            page = await self._documents.list_documents(collection, 1, after)
            if page and page[0].ref.id < end:
                return True
        return False

    def _parts(self, lower: int, upper: int) -> list[tuple[str, str | None, str]]:
        """For each day: its collection, the id to read after, and the id to stop before."""
        parts = []
        for day in range(lower - lower % DAY_US, upper, DAY_US):
            first, end = max(lower, day), min(upper, day + DAY_US)
            date = to_datetime(day).strftime("%Y%m%d")
            after = None if first == day else _hhmm(first - MINUTE_US)
            # An id after every minute of the day.
            before = "24" if end == day + DAY_US else _hhmm(end)
            parts.append((f"{self._days}/{date}/minutes", after, before))
        return parts


class EventIds:
    """`market_bars_1m/{event id}`: ids say nothing, so the whole collection is read once, up to a limit."""

    def __init__(self, documents: Documents, symbol: str) -> None:
        self._documents = documents
        self._symbol = symbol
        self._minutes: list[Minute] | None = None

    async def pages(
        self, lower: int, upper: int, limit: int = PAGE_DOCUMENTS
    ) -> AsyncGenerator[list[Minute], None]:
        del limit
        yield _within(lower, upper, await self._all())

    async def has_any(self, lower: int, upper: int) -> bool:
        return bool(_within(lower, upper, await self._all()))

    async def _all(self) -> list[Minute]:
        if self._minutes is None:
            self._minutes = await self._scan()
        return self._minutes

    async def _scan(self) -> list[Minute]:
        # Every revision of a minute has a document of its own here; the greatest stamp is the newest.
        newest: dict[int, tuple[str, Minute]] = {}
        after: str | None = None
        for _ in range(SCAN_DOCUMENTS_MAX // PAGE_DOCUMENTS):
            page = await self._documents.list_documents(COLLECTION, PAGE_DOCUMENTS, after)
            for document in (snapshot.data or {} for snapshot in page):
                minute = _minute(document) if self._is_ours(document) else None
                if minute is not None and _stamp(document) >= newest.get(minute.start, ("", minute))[0]:
                    newest[minute.start] = (_stamp(document), minute)
            if len(page) < PAGE_DOCUMENTS:
                return [newest[start][1] for start in sorted(newest)]
            after = page[-1].ref.id
        raise StepFailed(
            "TOO_MANY_DOCUMENTS",
            f"{COLLECTION} holds {SCAN_DOCUMENTS_MAX:,} documents or more, and with BARS_ID=event all are read: "
            "set BARS_ID=natural, so that a symbol's bars can be found by their ids",
        )

    def _is_ours(self, document: Document) -> bool:
        symbol = document.get("symbol")
        return isinstance(symbol, str) and symbol.strip().upper() == self._symbol


def _minute(document: Document) -> Minute | None:
    start = minute_of(document)
    return None if start is None else Minute(start, bar_of(document, start))


def _within(lower: int, upper: int, minutes: Sequence[Minute | None]) -> list[Minute]:
    """Those in the window by their own time: if a document's `ts` and its id differ, `ts` decides."""
    return [minute for minute in minutes if minute is not None and lower <= minute.start < upper]


def _stamp(document: Document) -> str:
    source = document.get("source")
    stamp = source.get("stamp") if isinstance(source, dict) else None
    return stamp if isinstance(stamp, str) else ""


def _hhmm(minute: int) -> str:
    return to_datetime(minute).strftime("%H%M")
