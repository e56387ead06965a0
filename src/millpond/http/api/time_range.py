"""The parameters `since` and `until` of a request, as every list that people filter by time takes them."""

from __future__ import annotations

import time

from starlette.datastructures import QueryParams

from millpond.core.time_range import ALLOWED, TimeRange, parse_range
from millpond.http.access import RequestFault
from millpond.http.operation import parameter

PARAMETERS = (
    parameter("query", "since", f"Only from this time on: {ALLOWED}.", example="1h"),
    parameter("query", "until", f"Only before this time: {ALLOWED}."),
)


def time_range(query: QueryParams) -> TimeRange:
    """The range that the request asks for."""
    try:
        return parse_range(query.get("since"), query.get("until"), time.time_ns() // 1_000)
    except ValueError as error:
        raise RequestFault(400, "invalid_query", str(error)) from None
