"""Letters over HTTP: list, group and select them, open one, replay and purge, one or up to a hundred at a time.

There may be very many: they are read a page at a time, and letters that do not match are never kept in memory.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from functools import partial
from typing import TypeVar

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from millpond.concurrency import raise_first, run_all
from millpond.core.collections import LETTERS
from millpond.core.decode import decode_push
from millpond.core.errors import InternalError, MalformedEnvelope, Overloaded, StoreError, Unavailable
from millpond.core.model import Outcome, Ref, Result
from millpond.dead_letters import store as in_store
from millpond.dead_letters.describe import ReplayAnswer, ReplayResult, replay_answer, untried_answer
from millpond.dead_letters.filter import (
    ALL_LETTERS,
    REPLAYED,
    LetterFilter,
    ReplayState,
    only,
    state_of,
    views_text,
)
from millpond.http import operation as op
from millpond.http.access import Access, RequestFault
from millpond.http.api import time_range
from millpond.http.api.documents import PAGE, page_limit, split_page
from millpond.http.api.letter_answers import (
    IDS_MAX,
    SELECTED_MAX,
    Letter,
    LetterGroup,
    LetterGroups,
    LetterIds,
    LetterPage,
    Purged,
    PurgedLetters,
    ReplayResults,
    SelectedLetters,
    SelectedToPurge,
    opened,
    summary,
)
from millpond.http.request_schemas import PUSH_EXAMPLE
from millpond.http.routing import Route, decode_body, failure, json_response
from millpond.reprocess.preview import ReplayPreview
from millpond.service.service import Service

# Few enough to leave the engine room for its own traffic.
AT_ONCE = 16
GROUPS_FRESH_S = 2.0
_STATES = {str(state): state for state in ReplayState}
S = TypeVar("S", bound=SelectedLetters)
_ONE = [op.in_path("id", "The letter's id.", "health__1002")]
_FILTERS = (
    op.parameter("query", "reason", "Only letters of this reason."),
    op.parameter("query", "view", "Only letters of this view; empty: of none."),
    op.parameter("query", "topic", "Only letters of this topic; empty: of none."),
    op.parameter("query", "state", "Only letters in this replay state.", {"enum": [*_STATES]}),
    op.parameter(
        "query",
        "replayed",
        "The same as `state`: `yes` is `succeeded`, `no` is `never`.",
        {"enum": [*REPLAYED]},
    ),
    *time_range.PARAMETERS,
)
_NOT_REPLAYED: op.Answers = {**op.fails(429, *op.FULL), 503: [op.Shape(ReplayAnswer, op.UNSETTLED)]}


class LettersApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._grouping = asyncio.Lock()
        self._groups = LetterGroups(0, [])
        self._groups_at = float("-inf")

    def routes(self) -> list[Route]:
        """Fixed paths come before `{id}`: the first route that matches is used."""
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

    # --- reading --------------------------------------------------------------------------------------------------

    @op.operation(
        "letters",
        op.INVALID_QUERY,
        parameters=[*PAGE, *_FILTERS],
        leads_to={
            name: {"id": "$response.body#/letters/0/id"}
            for name in ("letter", "editLetter", "replayLetter", "purge")
        },
    )
    async def _letters(self, request: Request) -> LetterPage:
        """The dead letters."""
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
        return LetterPage([summary(letter) for letter in letters], following)

    @op.operation("letterGroups")
    async def _grouped(self, _: Request) -> LetterGroups:
        """How many letters there are, by reason, view and topic."""
        loop = asyncio.get_running_loop()
        async with self._grouping:
            if loop.time() - self._groups_at >= GROUPS_FRESH_S:
                self._groups = await self._group()
                self._groups_at = loop.time()
        return self._groups

    async def _group(self) -> LetterGroups:
        counts: dict[tuple[str, str | None, str], Counter[ReplayState]] = defaultdict(Counter)
        async for letter in in_store.matching_letters(self._service.store, ALL_LETTERS):
            data = letter.data or {}
            counts[data.get("reason", ""), views_text(data) or None, data.get("topic", "")][state_of(data)] += 1
        largest_first = sorted(counts.items(), key=lambda found: (-found[1].total(), str(found[0])))
        groups = [
            LetterGroup(*why, states.total(), states[ReplayState.SUCCEEDED], states[ReplayState.FAILED])
            for why, states in largest_first
        ]
        return LetterGroups(sum(group.letters for group in groups), groups)

    @op.operation("letterIds", op.INVALID_QUERY, parameters=_FILTERS)
    async def _ids(self, request: Request) -> LetterIds:
        """The ids of all letters that match.

        A selection that does not move while it is worked through.
        """
        found: list[str] = []
        async for letter in in_store.matching_letters(self._service.store, _filter(request.query_params)):
            if len(found) == SELECTED_MAX:
                return LetterIds(found, more=True)
            found.append(letter.ref.id)
        return LetterIds(found, more=False)

    @op.operation("letter", op.NOT_FOUND, parameters=_ONE)
    async def _letter(self, _: Request, key: str) -> Letter | Response:
        """One letter, with its payload."""
        found = await self._service.letters.open_letter(Ref(LETTERS, key))
        return _no_letter(key) if found is None else opened(*found)

    @op.operation("previewReplay", op.INVALID_BODY, bodies=[op.Body(SelectedLetters, {"ids": ["health__1002"]})])
    async def _preview(self, request: Request) -> ReplayPreview:
        """What a replay of several letters would change.

        Nothing is written.
        """
        return await self._service.preview_replay(_selected(await request.body(), SelectedLetters).ids)

    # --- writing --------------------------------------------------------------------------------------------------

    @op.operation("purge", op.NOT_FOUND, parameters=_ONE)
    async def _purge(self, _: Request, key: str) -> Purged | Response:
        """Delete a letter for ever."""
        return Purged(key) if await self._purge_one(key, ALL_LETTERS) else _no_letter(key)

    @op.operation(
        "purgeLetters",
        op.INVALID_BODY,
        bodies=[op.Body(SelectedToPurge, {"ids": ["health__1005"], "state": "never"})],
    )
    async def _purge_many(self, request: Request) -> PurgedLetters:
        """Delete several letters for ever.

        After a 503 ask again: those that are gone are then missing.
        """
        selected = _selected(await request.body(), SelectedToPurge)
        ids, wanted = selected.ids, LetterFilter(states=only(selected.state or None))
        answers = await run_all(partial(self._purge_one, wanted=wanted), ids, AT_ONCE)
        away = next((answer for answer in answers if isinstance(answer, StoreError)), None)
        if away is not None:
            # The client can send the same request again: letters that are purged already are then missing.
            text = f"{answers.count(True)} of {len(ids)} letters were purged: ask for the rest again ({away})"
            raise RequestFault(503, Unavailable.reason, text)
        raise_first(answers)
        purged = [key for key, gone in zip(ids, answers, strict=True) if gone is True]
        missing = [key for key, gone in zip(ids, answers, strict=True) if gone is False]
        return PurgedLetters(purged, missing)

    async def _purge_one(self, key: str, wanted: LetterFilter) -> bool:
        gone = await self._service.letters.purge(Ref(LETTERS, key), wanted)
        self._letters_changed()
        return gone

    @op.operation(
        "replayLetter",
        {200: [op.Shape(ReplayAnswer, (*op.DONE, *op.BURIED), own_words=True)]},
        _NOT_REPLAYED,
        op.NOT_FOUND,
        parameters=_ONE,
    )
    async def _replay(self, _: Request, key: str) -> Response:
        """Send a letter's message through the engine again.

        200 says what became of it, poison included. The letter stays until it is purged or expires.
        """
        result = await self._service.replay_letter(key)
        self._letters_changed()
        return _no_letter(key) if result is None else _replayed(key, result)

    @op.operation(
        "replayLetters",
        op.INVALID_BODY,
        bodies=[op.Body(SelectedLetters, {"ids": ["health__1002", "health__1003"]})],
    )
    async def _replay_many(self, request: Request) -> ReplayResults:
        """Send the messages of several letters through the engine again.

        200 says of each letter what became of it; no letter keeps another from being tried.
        """
        ids = _selected(await request.body(), SelectedLetters).ids
        answers = await run_all(self._replay_one, ids, AT_ONCE)
        self._letters_changed()
        results = []
        for key, answer in zip(ids, answers, strict=True):
            if isinstance(answer, BaseException):
                self._service.log.unexpected(answer)
                results.append(untried_answer(key, "retry", InternalError.reason, str(InternalError(answer))))
            else:
                results.append(answer)
        return ReplayResults(results)

    async def _replay_one(self, key: str) -> ReplayResult:
        try:
            result = await self._service.replay_letter(key)
        except (Overloaded, StoreError) as error:
            # Only this letter failed; the others may still succeed.
            return untried_answer(key, Outcome.RETRY, getattr(error, "reason", Unavailable.reason), str(error))
        if result is None:
            return untried_answer(key, "not_found", "not_found", f"there is no letter {key}")
        return replay_answer(key, result)

    @op.operation(
        "replayMessage",
        {200: [op.Shape(ReplayAnswer, op.DONE)], 422: [op.Shape(ReplayAnswer, op.CONTENT, own_words=True)]},
        op.fails(400, *op.ENVELOPE),
        _NOT_REPLAYED,
        parameters=[op.parameter("query", "view", "Ask only this view; may be repeated. Without: every view.")],
        bodies=[op.Body("PushRequest", PUSH_EXAMPLE)],
    )
    async def _replay_delivery(self, request: Request) -> Response:
        """Send a message of a dead-letter subscription through the engine.

        The message is given as a push body. It is never buried: poison is answered 422, and stays in its
        subscription.
        """
        try:
            delivery = decode_push(await request.body())
        except MalformedEnvelope as error:
            raise RequestFault(400, error.reason, str(error)) from None
        views = frozenset(request.query_params.getlist("view")) or None
        return _replayed(delivery.message_id, await self._service.replay_delivery(delivery, views))

    def _letters_changed(self) -> None:
        self._groups_at = float("-inf")
        self._service.monitor.changes.letters()


def _filter(query: QueryParams) -> LetterFilter:
    states = only(_state(query, "state", _STATES)) & only(_state(query, "replayed", REPLAYED))
    buried = time_range.time_range(query)
    return LetterFilter(query.get("reason"), query.get("view"), query.get("topic"), states, buried)


def _state(query: QueryParams, name: str, states: dict[str, ReplayState]) -> ReplayState | None:
    value = query.get(name)
    if value is not None and value not in states:
        raise RequestFault(400, "invalid_query", f"{name} must be {' or '.join(states)}")
    return None if value is None else states[value]


def _selected(body: bytes, shape: type[S]) -> S:
    selected = decode_body(body, shape, f'{{"ids": […]}} with 1 to {IDS_MAX} ids of letters')
    if len(set(selected.ids)) < len(selected.ids):
        raise RequestFault(400, "invalid_body", "ids names a letter twice: send each id once")
    return selected


def _no_letter(key: str) -> Response:
    return failure(404, "not_found", f"there is no letter {key}")


def _replayed(key: str, result: Result) -> Response:
    status = 503 if result.outcome is Outcome.RETRY else 200 if result.settled else 422
    return json_response(replay_answer(key, result), status)
