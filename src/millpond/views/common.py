"""What the built-in views share: specification 002's common fields and a few ways to read a payload."""

from __future__ import annotations

from collections.abc import Sequence

from millpond import timestamps
from millpond.errors import InvalidEvent
from millpond.model import Document, Event
from millpond.shape import representable

# 002's preference for an event's time; publish time comes last, for everybody.
EVENT_TIMES = ("producedAt", "publishedAt", "timestamp", "ts", "time")


def common_fields(event: Event, doc_id: str) -> Document:
    """`docId, eventId, eventTime, producedAt, publishedAt, data`; `ingestedAt` is added when it is written."""
    own = event.time(*EVENT_TIMES)
    document: Document = {
        "docId": doc_id,
        "eventTime": timestamps.to_datetime(event.publish_time if own is None else own),
        "data": representable(event.payload),
    }
    if event.event_id is not None:
        document["eventId"] = event.event_id
    put_times(document, event, ("producedAt", "publishedAt"))
    return document


def put_times(document: Document, event: Event, names: Sequence[str]) -> None:
    """Copy the times that are present, as times."""
    for name in names:
        us = event.time(name)
        if us is not None:
            document[name] = timestamps.to_datetime(us)


def put_present(document: Document, event: Event, names: Sequence[str]) -> None:
    """Copy the fields that are present, as they are; what no document can hold becomes JSON text."""
    for name in names:
        value = event.payload.get(name)
        if value is not None:
            document[name] = representable(value)


def put_numbers(document: Document, event: Event, names: Sequence[str]) -> None:
    """Copy the numbers that are present; anything else under these names is poison."""
    for name in names:
        value = event.number(name)
        if value is not None:
            document[name] = value


def symbol_of(event: Event) -> str:
    """Upper-case, so that `spy` and `SPY` are one instrument."""
    symbol = event.text("symbol")
    symbol = symbol.strip().upper() if symbol else ""
    if not symbol:
        raise InvalidEvent("symbol is missing")
    return symbol
