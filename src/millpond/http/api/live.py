"""The live streams: `/api/live` for the dashboard, `/api/tail` for outcomes, and the prices of its sparklines.

`live` makes the frames. This module only chooses which of them a request gets, and in which order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from millpond._version import __version__
from millpond.core import timestamps
from millpond.core.model import Outcome
from millpond.core.view import View
from millpond.http.access import Access, RequestFault
from millpond.http.operation import INVALID_QUERY, TEXT, Schema, fails, operation, parameter
from millpond.http.routing import Route
from millpond.http.streams import MEDIA_TYPE, STREAMS_MAX, Streams
from millpond.live.mailbox import KEEP_ALIVE, Mailbox, frame
from millpond.live.minutes import DayShown
from millpond.live.tails import Tail, Wanted
from millpond.service.service import Service
from millpond.service.views import is_built_in

LIVE_PATH = "/api/live"
TAIL_PATH = "/api/tail"
KEEP_ALIVE_S = 15.0
# Outcomes that arrive during this pause share one write.
_TAIL_PAUSE_S = 0.05
_TAIL_LOOK_S = 1.0
_FILTER_VALUES_MAX = 100


_FULL = fails(429, "too_many_streams")
_ENDS = f"Ends when the server does. At most {STREAMS_MAX} streams at once. docs/http-api.md has every event."


def _repeated(name: str, description: str, schema: Schema) -> Schema:
    return parameter("query", name, description, {"type": "array", "items": schema})


class Point(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """Epoch seconds and a price."""

    second: int
    price: float


class Sparklines(msgspec.Struct):
    """Prices this process saw, by document id."""

    market_ticks_latest: dict[str, list[Point]]


class LiveApi:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._streams = Streams(STREAMS_MAX)

    def routes(self) -> list[Route]:
        return [
            Route(LIVE_PATH, {"GET": self._live}, Access.ADMIN),
            Route(TAIL_PATH, {"GET": self._tail}, Access.ADMIN),
            Route("/api/history", {"GET": self._history}, Access.ADMIN),
            Route("/api/sparklines", {"GET": self._sparklines}, Access.ADMIN),
        ]

    @operation("watch", _FULL, description=_ENDS, media_types=[MEDIA_TYPE])
    async def _live(self, _: Request) -> Response:
        """What happens, as it happens: a stream for a page.

        Server-sent events: `hello`, `alerts`, `totals`, then `sample`, `changed` and again those. A sample holds
        `outcomes` of messages, and `views`: outcomes of each view's events, only those that occurred.
        """
        self._streams.check_room()
        watch = self._service.monitor
        mailbox = watch.open_page()
        # No await since the mailbox was opened: no sample is missing between the two, and none is sent twice.
        hello = frame("hello", self._hello()) + watch.alerts_frame()
        return self._streams.start(_page_frames(hello, mailbox), lambda: watch.close_page(mailbox))

    @operation(
        "tail",
        _FULL,
        INVALID_QUERY,
        description=_ENDS,
        parameters=[
            _repeated("topic", "Only messages of this topic.", TEXT),
            _repeated("view", "Only messages that reached this view.", TEXT),
            _repeated("outcome", "Only messages with this outcome.", {"enum": [*map(str, Outcome)]}),
        ],
        media_types=[MEDIA_TYPE],
    )
    async def _tail(self, request: Request) -> Response:
        """What becomes of each message, as it is answered: a stream.

        Server-sent events: `outcome`, and `skipped` if there were more than are shown. Each parameter may be
        repeated: any of its values, and all parameters together.
        """
        wanted = _wanted(request)
        self._streams.check_room()
        watch = self._service.monitor
        tail = watch.open_tail(wanted)
        return self._streams.start(_tail_frames(tail), lambda: watch.close_tail(tail))

    @operation("history")
    async def _history(self, _: Request) -> DayShown:
        """The last 24 hours, minute by minute.

        Of all instances and also from before a restart, from what is kept in the store. What the other instances
        counted is up to two minutes old. With HISTORY=off it is what this process counted.
        """
        return await self._service.day.shown()

    @operation("sparklines")
    async def _sparklines(self, _: Request) -> Sparklines:
        """The last prices of each symbol."""
        return msgspec.convert(self._service.monitor.sparklines.shown(), Sparklines)

    def _hello(self) -> dict[str, Any]:
        service = self._service
        return {
            "version": __version__,
            "env": service.settings.env,
            "store": service.settings.store,
            "startedAt": service.monitor.started_at,
            "now": timestamps.to_text(time.time_ns() // 1_000),
            "accepting": service.engine.accepting,
            "views": [
                {
                    "name": view.name,
                    "kind": view.kind,
                    "collection": view.collection,
                    "topics": list(view.topics),
                    "builtIn": is_built_in(view),
                    # Its documents may be in collections below this one.
                    "nested": type(view).collection_of is not View.collection_of,
                }
                for view in service.views
            ],
            "history": service.monitor.history.shown(),
        }


async def _page_frames(hello: bytes, mailbox: Mailbox) -> AsyncGenerator[bytes, None]:
    yield hello
    while (content := await mailbox.take(KEEP_ALIVE_S)) is not None:
        yield content or KEEP_ALIVE


async def _tail_frames(tail: Tail) -> AsyncGenerator[bytes, None]:
    loop = asyncio.get_running_loop()
    # Sent immediately, so that the client knows that the stream has begun.
    yield KEEP_ALIVE
    silent_since = loop.time()
    while (content := await tail.mailbox.take(_TAIL_LOOK_S)) is not None:
        content += tail.take_skipped()
        if not content and loop.time() - silent_since >= KEEP_ALIVE_S:
            content = KEEP_ALIVE
        if content:
            yield content
            silent_since = loop.time()
            await asyncio.sleep(_TAIL_PAUSE_S)


def _wanted(request: Request) -> Wanted:
    query = request.query_params
    found = [frozenset(query.getlist(name)) for name in ("topic", "view", "outcome")]
    if any(len(values) > _FILTER_VALUES_MAX for values in found):
        raise RequestFault(400, "invalid_query", f"at most {_FILTER_VALUES_MAX} values of one parameter")
    unknown = found[2] - {str(outcome) for outcome in Outcome}
    if unknown:
        text = f"outcome must be one of {', '.join(Outcome)}"
        raise RequestFault(400, "invalid_query", text)
    return Wanted(*found)
