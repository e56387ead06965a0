"""Search: one text, looked for as a message, event, document or letter id, and as text in letters. Never writes."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.datastructures import QueryParams
from starlette.requests import Request

from millpond.core import timestamps
from millpond.core.answers import Count, Reason, TimeText, Topic
from millpond.core.collections import FLOW_RUNS, LETTERS
from millpond.core.model import LogEntry, Outcome, Ref
from millpond.dead_letters.store import letter_ref
from millpond.dead_letters.text_search import FoundText, TextSearch, find_in_fields, find_text
from millpond.http.access import Access, RequestFault
from millpond.http.api.documents import Next
from millpond.http.operation import INVALID_QUERY, fails, operation, parameter
from millpond.http.routing import Route
from millpond.service.service import Service
from millpond.stores.document_search import find_documents

TEXT_CHARS_MAX = 200
_AFTER_CHARS_MAX = 1_500
_MESSAGES_MAX = 20
# How long a search waits for another one, which reads letters for at most two seconds.
_TURN_S = 3.0
_TEXT = {"type": "string", "maxLength": TEXT_CHARS_MAX, "pattern": r"\S"}
_AFTER = {"type": "string", "maxLength": _AFTER_CHARS_MAX, "pattern": "^[^/]*$"}


class FoundMessage(msgspec.Struct, rename="camel"):
    """A message of the event log that has this message id or event id."""

    message_id: str
    event_id: str | None
    topic: Topic
    arrived_at: TimeText
    outcome: Outcome


class FoundDocument(msgspec.Struct):
    """A document. `exact` if its id is the text, possibly in capitals or escaped; else its id begins with it."""

    collection: str
    id: str
    exact: bool


class FoundLetter(msgspec.Struct, rename="camel"):
    """A letter, the field that holds the text, and what stands around it there."""

    id: str
    message_id: str
    reason: Reason
    topic: Topic
    buried_at: Annotated[datetime, Meta(tz=True)] | None
    field: Annotated[str, Meta(description="`payload`, or a field's name.")]
    excerpt: str


class SearchAnswer(msgspec.Struct):
    """What was found. Letters are looked through one by one, at most 2,000, 64 MiB and two seconds at a time."""

    q: str
    messages: list[FoundMessage]
    documents: list[FoundDocument]
    letters: list[FoundLetter]
    more: Annotated[bool, Meta(description="Whether messages or documents were left out.")]
    scanned: Annotated[Count, Meta(description="How many letters were looked through.")]
    unopened: Annotated[Count, Meta(description="How many of them could not be opened.")]
    next: Next


class SearchApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        # Each search through letters may read 64 MiB.
        self._turn = asyncio.Lock()

    def routes(self) -> list[Route]:
        return [Route("/api/search", {"GET": self._search}, Access.ADMIN)]

    @operation(
        "search",
        INVALID_QUERY,
        fails(429, "too_many_searches"),
        parameters=[
            parameter("query", "q", "The text. Case counts in ids only.", _TEXT, required=True, example="spy"),
            parameter("query", "after", "`next` of the answer before: looks through the letters after it.", _AFTER),
        ],
    )
    async def _search(self, request: Request) -> SearchAnswer:
        """What has this id, or holds this text.

        Messages by message id and event id, documents by id and its beginning, letters by id and by text in their
        fields and payloads.
        """
        text, after = _asked(request.query_params)
        if after is not None:
            return _answer(text, [], [], [], await self._find_text(text, after), more=False)
        store = self._service.store
        entries = await store.find_events(text)
        collections = dict.fromkeys(
            [*(view.collection for view in self._service.views if view.collection), FLOW_RUNS]
        )
        refs = await find_documents(store, list(collections), text)
        documents = [FoundDocument(*ref, exact=True) for ref in refs.exact]
        documents += [FoundDocument(*ref, exact=False) for ref in refs.beginning]
        known = await self._letters_by_id(text, entries[:_MESSAGES_MAX])
        more = refs.more or len(entries) > _MESSAGES_MAX
        scan = await self._find_text(text, None)
        return _answer(text, entries[:_MESSAGES_MAX], documents, known, scan, more=more)

    async def _letters_by_id(self, text: str, entries: list[LogEntry]) -> list[FoundText]:
        """The letter with this id, and those of the messages that were found: also if the scan ends before them."""
        refs = [Ref(LETTERS, text)] if "/" not in text else []
        refs += [letter_ref(entry.delivery) for entry in entries if entry.result.outcome is Outcome.POISON]
        snapshots = await self._service.store.read(list(dict.fromkeys(refs)))
        letters = [letter for letter in snapshots if letter.data is not None]
        return [find_in_fields(letter, text) or FoundText(letter, "message", text) for letter in letters]

    async def _find_text(self, text: str, after: str | None) -> TextSearch:
        try:
            async with asyncio.timeout(_TURN_S):
                await self._turn.acquire()
        except TimeoutError:
            busy = "other searches are looking through the letters: search again"
            raise RequestFault(429, "too_many_searches", busy, {"retry-after": "1"}) from None
        try:
            return await find_text(self._service.store, text, after)
        finally:
            self._turn.release()


def _asked(query: QueryParams) -> tuple[str, str | None]:
    text = query.get("q", "").strip()
    if not 1 <= len(text) <= TEXT_CHARS_MAX:
        raise RequestFault(400, "invalid_query", f"q must have 1 to {TEXT_CHARS_MAX} characters")
    after = query.get("after") or None
    if after is not None and (len(after) > _AFTER_CHARS_MAX or "/" in after):
        raise RequestFault(400, "invalid_query", "after must be `next` of the answer before")
    return text, after


def _answer(
    text: str,
    entries: list[LogEntry],
    documents: list[FoundDocument],
    known: list[FoundText],
    scan: TextSearch,
    *,
    more: bool,
) -> SearchAnswer:
    letters = {one.letter.ref: one for one in [*known, *scan.found]}
    return SearchAnswer(
        q=text,
        messages=[_message(entry) for entry in entries],
        documents=documents,
        letters=[_letter(one) for one in letters.values()],
        more=more,
        scanned=scan.scanned,
        unopened=scan.unopened,
        next=scan.position,
    )


def _message(entry: LogEntry) -> FoundMessage:
    at = timestamps.to_text(entry.arrived_at)
    return FoundMessage(entry.delivery.message_id, entry.event_id, entry.topic, at, entry.result.outcome)


def _letter(found: FoundText) -> FoundLetter:
    data = found.letter.data or {}
    message_id, reason, topic = (str(data.get(name) or "") for name in ("messageId", "reason", "topic"))
    return FoundLetter(
        found.letter.ref.id, message_id, reason, topic, data.get("buriedAt"), found.field, found.excerpt
    )
