"""`GET /api/events`: past events from the event log, newest first, by time, topic and outcome. Never writes."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.datastructures import QueryParams
from starlette.requests import Request

from millpond.core import timestamps
from millpond.core.answers import Reason, TimeText, Topic, ViewAnswer
from millpond.core.log_filter import LogFilter
from millpond.core.model import LogEntry, LogPage, Outcome
from millpond.http.access import Access, RequestFault
from millpond.http.api import time_range
from millpond.http.api.documents import PAGE, Next, page_limit
from millpond.http.operation import INVALID_QUERY, operation, parameter
from millpond.http.routing import Route
from millpond.service.service import Service

# After this time a page ends although it is not full: a store looks at a bounded part of the log in each call.
_SECONDS_MAX = 2.0
_OUTCOMES = {str(outcome): outcome for outcome in Outcome}
_POSITION = re.compile(r"[0-9]{1,18}( [^/\x00]{1,1500})?", re.ASCII)


class PastEvent(msgspec.Struct, rename="camel"):
    """A message as the event log has it, without its payload."""

    message_id: str
    event_id: str | None
    topic: Topic
    publish_time: TimeText
    arrived_at: TimeText
    outcome: Outcome
    reason: Reason
    views: list[ViewAnswer]


class PastEvents(msgspec.Struct, rename="camel"):
    """Newest first. A page may have fewer events than asked for, or none, although there is a `next` one."""

    events: list[PastEvent]
    next: Next
    keeps_log: Annotated[bool, Meta(description="Whether this server keeps an event log: `EVENT_LOG`.")]


class PastEventsApi:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        return [Route("/api/events", {"GET": self._events}, Access.ADMIN)]

    @operation(
        "events",
        INVALID_QUERY,
        parameters=[
            *time_range.PARAMETERS,
            parameter("query", "topic", "Only messages of this topic; empty: of none."),
            parameter("query", "outcome", "Only messages with this outcome.", {"enum": [*_OUTCOMES]}),
            *PAGE,
        ],
        leads_to={"why": {"id": "$response.body#/events/0/messageId"}},
    )
    async def _events(self, request: Request) -> PastEvents:
        """Past events, newest first.

        By the arrival of a message. One that a later delivery or a replay completed stands where that was, or on
        Firestore where it first arrived. It may be missing from a range that ends before it was completed.
        """
        query = request.query_params
        limit, wanted, position = page_limit(query), _wanted(query), _after(query)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _SECONDS_MAX
        found: list[LogEntry] = []
        while True:
            page = await self._page(wanted, limit - len(found), position)
            found += page.entries
            position = page.position
            if not page.more or len(found) == limit or loop.time() >= ends_at:
                break
        following = position if page.more else None
        return PastEvents([_event(entry) for entry in found], following, self._service.store.keeps_log)

    async def _page(self, wanted: LogFilter, limit: int, position: str | None) -> LogPage:
        try:
            return await self._service.store.list_events(wanted, limit, position)
        except (ValueError, OverflowError):
            if position is None:
                raise
            # The position of another kind of store.
            raise _not_next() from None


def _wanted(query: QueryParams) -> LogFilter:
    outcome = query.get("outcome")
    if outcome is not None and outcome not in _OUTCOMES:
        raise RequestFault(400, "invalid_query", f"outcome must be {' or '.join(_OUTCOMES)}")
    chosen = None if outcome is None else _OUTCOMES[outcome]
    return LogFilter(time_range.time_range(query), query.get("topic"), chosen)


def _after(query: QueryParams) -> str | None:
    after = query.get("after") or None
    if after is not None and _POSITION.fullmatch(after) is None:
        raise _not_next()
    return after


def _not_next() -> RequestFault:
    return RequestFault(400, "invalid_query", "after must be `next` of the page before")


def _event(entry: LogEntry) -> PastEvent:
    return PastEvent(
        message_id=entry.delivery.message_id,
        event_id=entry.event_id,
        topic=entry.topic,
        publish_time=timestamps.to_text(entry.delivery.publish_time),
        arrived_at=timestamps.to_text(entry.arrived_at),
        outcome=entry.result.outcome,
        reason=entry.result.reason,
        views=[ViewAnswer(view.view, view.doc, view.outcome, view.reason) for view in entry.result.views],
    )
