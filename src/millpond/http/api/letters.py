"""Letters over HTTP: list, group and select them, open one, replay and purge, one or up to a hundred at a time.

There may be very many, so they are looked through a page at a time, and nothing is kept of those that do not match.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from millpond.concurrency import raise_first, run_all
from millpond.core.collections import LETTERS
from millpond.core.decode import decode_push
from millpond.core.errors import InternalError, MalformedEnvelope, Overloaded, StoreError, Unavailable
from millpond.core.model import Outcome, Ref, Result
from millpond.dead_letters import store as in_store
from millpond.dead_letters.describe import replay_answer, untried_answer
from millpond.dead_letters.filter import ALL_LETTERS, REPLAYED, LetterFilter, ReplayState, only, state_of
from millpond.http.api.documents import page_limit, split_page
from millpond.http.routing import Access, RequestFault, Route, failure, json_response
from millpond.service.service import Service

IDS_MAX = 100
SELECTED_MAX = 100_000
# Few enough to leave the engine room for its own traffic.
AT_ONCE = 16
GROUPS_FRESH_S = 2.0
_ID_CHARS_MAX = 1_500
_STATES = {str(state): state for state in ReplayState}


class Selected(msgspec.Struct, forbid_unknown_fields=True):
    """The body of what is done to several letters."""

    ids: Annotated[
        list[Annotated[str, msgspec.Meta(min_length=1, max_length=_ID_CHARS_MAX)]],
        msgspec.Meta(min_length=1, max_length=IDS_MAX),
    ]


class SelectedToPurge(Selected, forbid_unknown_fields=True):
    """The same for a purge; with `state`, letters that are in another state by now stay."""

    state: ReplayState | None = None


S = TypeVar("S", bound=Selected)


class LettersApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._grouping = asyncio.Lock()
        self._groups: dict[str, Any] = {}
        self._groups_at = float("-inf")

    def routes(self) -> list[Route]:
        """Those with a word in the place of an id come first: the first that matches is taken."""
        return [
            Route("/api/letters", {"GET": self._letters}, Access.ADMIN),
            Route("/api/letters/groups", {"GET": self._grouped}, Access.ADMIN),
            Route("/api/letters/ids", {"GET": self._ids}, Access.ADMIN),
            Route("/api/letters/replay", {"POST": self._replay_many}, Access.ADMIN),
            Route("/api/letters/purge", {"POST": self._purge_many}, Access.ADMIN),
            Route("/api/letters/preview", {"POST": self._preview}, Access.ADMIN),
            Route("/api/letters/{id}", {"GET": self._letter, "DELETE": self._purge}, Access.ADMIN),
            Route("/api/letters/{id}/replay", {"POST": self._replay}, Access.ADMIN),
            Route("/api/replay", {"POST": self._replay_delivery}, Access.ADMIN),
        ]

    # --- looking --------------------------------------------------------------------------------------------------

    async def _letters(self, request: Request) -> Response:
        limit, wanted = page_limit(request.query_params), _filter(request.query_params)
        after = request.query_params.get("after")
        if wanted == ALL_LETTERS:
            found = await self._service.store.list_documents(LETTERS, limit + 1, after)
        else:
            found = []
            async for letter in in_store.matching_letters(self._service.store, wanted, after):
                found.append(letter)
                if len(found) > limit:
                    break
        letters, following = split_page(found, limit)
        return json_response({"letters": [in_store.summary(letter) for letter in letters], "next": following})

    async def _grouped(self, _: Request) -> Response:
        loop = asyncio.get_running_loop()
        async with self._grouping:
            if loop.time() - self._groups_at >= GROUPS_FRESH_S:
                self._groups = await self._group()
                self._groups_at = loop.time()
        return json_response(self._groups)

    async def _group(self) -> dict[str, Any]:
        counts: dict[tuple[str, str | None, str], Counter[ReplayState]] = defaultdict(Counter)
        async for letter in in_store.matching_letters(self._service.store, ALL_LETTERS):
            data = letter.data or {}
            counts[data.get("reason", ""), data.get("view"), data.get("topic", "")][state_of(data)] += 1
        largest_first = sorted(counts.items(), key=lambda found: (-found[1].total(), str(found[0])))
        groups = [
            {
                "reason": reason,
                "view": view,
                "topic": topic,
                "letters": states.total(),
                "replayed": states[ReplayState.SUCCEEDED],
                "failed": states[ReplayState.FAILED],
            }
            for (reason, view, topic), states in largest_first
        ]
        return {"total": sum(states.total() for states in counts.values()), "groups": groups}

    async def _ids(self, request: Request) -> Response:
        """Every letter that matches now: a selection that does not move while it is worked through."""
        found: list[str] = []
        async for letter in in_store.matching_letters(self._service.store, _filter(request.query_params)):
            if len(found) == SELECTED_MAX:
                return json_response({"ids": found, "more": True})
            found.append(letter.ref.id)
        return json_response({"ids": found, "more": False})

    async def _letter(self, _: Request, key: str) -> Response:
        opened = await self._service.letters.open_letter(Ref(LETTERS, key))
        if opened is None:
            return _no_letter(key)
        snapshot, delivery = opened
        whole = {
            "attributes": in_store.attributes_text(delivery),
            "data": (delivery.data or b"").decode("utf-8", "replace"),
        }
        return json_response({**in_store.summary(snapshot), **whole})

    async def _preview(self, request: Request) -> Response:
        """What a replay would change. A POST because of its body; nothing is written."""
        return json_response(await self._service.preview_replay(_selected(await request.body(), Selected).ids))

    # --- doing ----------------------------------------------------------------------------------------------------

    async def _purge(self, _: Request, key: str) -> Response:
        gone = await self._purge_one(key, ALL_LETTERS)
        return json_response({"id": key, "purged": True}) if gone else _no_letter(key)

    async def _purge_many(self, request: Request) -> Response:
        selected = _selected(await request.body(), SelectedToPurge)
        ids, wanted = selected.ids, LetterFilter(states=only(selected.state))
        answers = await run_all(partial(self._purge_one, wanted=wanted), ids, AT_ONCE)
        away = next((answer for answer in answers if isinstance(answer, StoreError)), None)
        if away is not None:
            # Asked for again, those that are gone are missing: nothing is lost by starting over.
            text = f"{answers.count(True)} of {len(ids)} letters were purged: ask for the rest again ({away})"
            raise RequestFault(503, Unavailable.reason, text)
        raise_first(answers)
        purged = [key for key, gone in zip(ids, answers, strict=True) if gone is True]
        missing = [key for key, gone in zip(ids, answers, strict=True) if gone is False]
        return json_response({"purged": purged, "missing": missing})

    async def _purge_one(self, key: str, wanted: LetterFilter) -> bool:
        gone = await self._service.letters.purge(Ref(LETTERS, key), wanted)
        self._letters_changed()
        return gone

    async def _replay(self, _: Request, key: str) -> Response:
        result = await self._service.replay_letter(key)
        self._letters_changed()
        return _no_letter(key) if result is None else _replayed(key, result)

    async def _replay_many(self, request: Request) -> Response:
        ids = _selected(await request.body(), Selected).ids
        answers = await run_all(self._replay_one, ids, AT_ONCE)
        self._letters_changed()
        results = []
        for key, answer in zip(ids, answers, strict=True):
            if isinstance(answer, BaseException):
                self._service.log.unexpected(answer)
                results.append(untried_answer(key, "retry", InternalError.reason, str(InternalError(answer))))
            else:
                results.append(answer)
        return json_response({"results": results})

    async def _replay_one(self, key: str) -> dict[str, Any]:
        try:
            result = await self._service.replay_letter(key)
        except (Overloaded, StoreError) as error:
            # This letter only; the others may still succeed.
            return untried_answer(key, Outcome.RETRY, getattr(error, "reason", Unavailable.reason), str(error))
        if result is None:
            return untried_answer(key, "not_found", "not_found", f"there is no letter {key}")
        return replay_answer(key, result)

    async def _replay_delivery(self, request: Request) -> Response:
        """A message of a dead-letter subscription, as a push body. It stays there unless it succeeds."""
        try:
            delivery = decode_push(await request.body())
        except MalformedEnvelope as error:
            raise RequestFault(400, error.reason, str(error)) from None
        return _replayed(delivery.message_id, await self._service.replay_delivery(delivery))

    def _letters_changed(self) -> None:
        self._groups_at = float("-inf")
        self._service.monitor.changes.letters()


def _filter(query: QueryParams) -> LetterFilter:
    states = only(_state(query, "state", _STATES)) & only(_state(query, "replayed", REPLAYED))
    return LetterFilter(query.get("reason"), query.get("view"), query.get("topic"), states)


def _state(query: QueryParams, name: str, states: dict[str, ReplayState]) -> ReplayState | None:
    value = query.get(name)
    if value is not None and value not in states:
        raise RequestFault(400, "invalid_query", f"{name} must be {' or '.join(states)}")
    return None if value is None else states[value]


def _selected(body: bytes, shape: type[S]) -> S:
    try:
        selected = msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        text = f'send {{"ids": […]}} with 1 to {IDS_MAX} ids of letters: {error}'
        raise RequestFault(400, "invalid_body", text) from None
    if len(set(selected.ids)) < len(selected.ids):
        raise RequestFault(400, "invalid_body", "ids names a letter twice: send each id once")
    return selected


def _no_letter(key: str) -> Response:
    return failure(404, "not_found", f"there is no letter {key}")


def _replayed(key: str, result: Result) -> Response:
    status = 503 if result.outcome is Outcome.RETRY else 200 if result.settled else 422
    return json_response(replay_answer(key, result), status)
