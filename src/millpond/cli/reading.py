"""Reads for `get`, `ls`, `why`, `cost`, `dlq list`, `dlq show`: from the store, or with --url from a server's API.

Commands are written once, against `DocumentReader`, and get one from `open_reader`. Both kinds return the answers
of the HTTP API, so that output and exit codes are the same. Never writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from millpond.cli.exit_codes import WrongUsage
from millpond.cli.server import admin_headers, api_prefix, find_other_server, same_documents, token_refused
from millpond.cli.store import open_for_reading, refuse_missing
from millpond.core import timestamps
from millpond.core.collections import LETTERS
from millpond.core.errors import Unreachable
from millpond.core.model import Ref
from millpond.core.ports import StoreWithCatalog
from millpond.cost.answer import Cost
from millpond.cost.examine import examine
from millpond.dead_letters.filter import LetterFilter
from millpond.dead_letters.store import StoredLetters, matching_letters
from millpond.http.api.cost import NO_BILL
from millpond.http.api.documents import Collection, Collections, Document, DocumentPage, as_document, split_page
from millpond.http.api.letter_answers import LetterEdit, LetterPage, LetterRefusal, opened, summary
from millpond.http_client import Address, Client
from millpond.live.day import read_spending
from millpond.reprocess.why import Why, explain
from millpond.service.views import load_views
from millpond.settings import Settings
from millpond.stores.operations import BilledStore

_TIMEOUT_S = 30.0
T = TypeVar("T")
Answer = dict[str, Any]


class DocumentReader(Protocol):
    # The options that make another command ask about the same documents, with a space before them.
    options: str

    async def hint(self) -> str:
        """For the end of an error about something missing: another server that may have it; or empty."""

    async def collections(self) -> Collections: ...

    async def documents(self, collection: str, limit: int, after: str | None) -> DocumentPage: ...

    async def document(self, ref: Ref) -> Document | None: ...

    async def why(self, any_id: str) -> Why | None: ...

    async def letters(self, wanted: LetterFilter, limit: int, after: str | None) -> Answer:
        """As GET /api/letters."""

    async def letter(self, letter_id: str) -> Answer | None:
        """As GET /api/letters/ID."""

    async def cost(self) -> Cost:
        """As GET /api/cost. Raises WrongUsage if the store has no bill."""


@contextlib.asynccontextmanager
async def open_reader(settings: Settings, url: Address | None) -> AsyncIterator[DocumentReader]:
    """The server at `url`; the store if there is none."""
    if url is not None:
        client = Client(url, timeout_s=_TIMEOUT_S)
        try:
            yield ServerReader(client, settings)
        finally:
            client.close()
        return
    path = settings.store_path
    if path is not None and not path.exists():
        refuse_missing(path, await _other_server(settings))
    async with open_for_reading(settings) as store:
        yield StoreReader(store, settings)


class StoreReader:
    def __init__(self, store: StoreWithCatalog, settings: Settings) -> None:
        self.options = same_documents(settings, None)
        self._store = store
        self._settings = settings

    async def hint(self) -> str:
        return await _other_server(self._settings)

    async def collections(self) -> Collections:
        return Collections([Collection(name, n) for name, n in await self._store.collections()])

    async def documents(self, collection: str, limit: int, after: str | None) -> DocumentPage:
        page, following = split_page(await self._store.list_documents(collection, limit + 1, after), limit)
        return DocumentPage([as_document(snapshot) for snapshot in page], following)

    async def document(self, ref: Ref) -> Document | None:
        (snapshot,) = await self._store.read([ref])
        return None if snapshot.data is None else as_document(snapshot)

    async def why(self, any_id: str) -> Why | None:
        return await explain(self._store, any_id)

    async def letters(self, wanted: LetterFilter, limit: int, after: str | None) -> Answer:
        found = []
        async for snapshot in matching_letters(self._store, wanted, after):
            found.append(snapshot)
            if len(found) > limit:
                break
        page, following = split_page(found, limit)
        answer: Answer = msgspec.to_builtins(LetterPage([summary(snapshot) for snapshot in page], following))
        return answer

    async def letter(self, letter_id: str) -> Answer | None:
        letters = StoredLetters(self._store, keep=0, wall_clock=lambda: 0)
        found = await letters.open_letter(Ref(LETTERS, letter_id))
        answer: Answer | None = None if found is None else msgspec.to_builtins(opened(*found))
        return answer

    async def cost(self) -> Cost:
        if not isinstance(self._store, BilledStore):
            raise WrongUsage(f"STORE={self._settings.store} has no bill")
        spending = await read_spending(self._store)
        return await examine(self._store, load_views(self._settings), spending)


class _Letters(msgspec.Struct):
    """A page of letters. A letter that an earlier build stored has fewer fields, so none is required."""

    letters: list[Answer]
    next: str | None


class _OpenedLetter(msgspec.Struct):
    """What a command takes apart of a letter that it shows."""

    data: str
    original: str = ""
    edit_count: int = msgspec.field(default=0, name="editCount")
    edits: list[LetterEdit] = []
    refusals: list[LetterRefusal] = []
    trace: str = ""


class ServerReader:
    def __init__(self, client: Client, settings: Settings) -> None:
        self.options = same_documents(settings, client.address)
        self._client = client
        self._settings = settings
        self._prefix = f"{api_prefix(client.address)}/api"

    async def hint(self) -> str:
        return ""

    async def collections(self) -> Collections:
        return _there(await self._ask("/collections", Collections))

    async def documents(self, collection: str, limit: int, after: str | None) -> DocumentPage:
        query = _query(limit=str(limit), after=after)
        return _there(await self._ask(f"/docs/{_quoted(collection)}{query}", DocumentPage))

    async def document(self, ref: Ref) -> Document | None:
        return await self._ask(f"/docs/{_quoted(ref.collection)}/{_quoted(ref.id)}", Document)

    async def why(self, any_id: str) -> Why | None:
        return await self._ask(f"/why/{_quoted(any_id)}", Why)

    async def letters(self, wanted: LetterFilter, limit: int, after: str | None) -> Answer:
        (state,) = wanted.states if len(wanted.states) == 1 else (None,)
        bounds = zip(("since", "until"), wanted.buried, strict=True)
        filters = {"reason": wanted.reason, "view": wanted.view, "topic": wanted.topic, "state": state}
        filters |= {name: timestamps.to_text(us) for name, us in bounds if us is not None}
        query = _query(limit=str(limit), after=after, **filters)
        return msgspec.structs.asdict(_there(await self._ask(f"/letters{query}", _Letters)))

    async def letter(self, letter_id: str) -> Answer | None:
        return await self._ask(f"/letters/{_quoted(letter_id)}", Answer, check=_OpenedLetter)

    async def cost(self) -> Cost:
        return _there(await self._ask("/cost", Cost))

    async def _ask(self, path: str, kind: type[T], check: type | None = None) -> T | None:
        """The answer, which must also decode as `check`; None if the server says that there is no such thing."""
        base = self._client.address.base
        reply = await self._client.request("GET", self._prefix + path, headers=admin_headers(self._settings))
        if reply.status == 401:
            raise token_refused(self._settings, base)
        if reply.status == 404 and reply.answer.get("reason") == "not_found":
            return None
        if reply.status == 404 and reply.answer.get("reason") == NO_BILL:
            raise WrongUsage(f"{base}: {reply.answer.get('error')}")
        if reply.status != 200:
            raise Unreachable(f"{base} answered {reply.status}: {reply.answer.get('error')}")
        try:
            msgspec.json.decode(reply.body, type=check or kind)
            return msgspec.json.decode(reply.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Unreachable(f"{base} did not answer as Millpond does: check --url") from None


def _there(found: T | None) -> T:
    """For paths that every Millpond has: a server without them is another service."""
    if found is None:
        raise Unreachable("the server at --url has no such API: it is another service, or Millpond is under a path")
    return found


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _query(**given: str | None) -> str:
    return "?" + urlencode({name: value for name, value in given.items() if value is not None})


async def _other_server(settings: Settings) -> str:
    other = await find_other_server(settings)
    return "" if other is None else f"; a server answers at {other.base}: --url {other.base} asks that one"
