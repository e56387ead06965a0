"""What the built-in views share: common fields, the order by event time, and ways to read a payload."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from millpond import (
    Document,
    Event,
    adopted_stamp,
    clamp_event_time,
    decode_stamp,
    find_counter,
    representable,
    to_datetime,
)

# The time of an event whose document is named by event id; publish time comes last. Text that is no time is
# skipped, because such a document needs no time of its own.
EVENT_TIMES: Final = (
    *("producedAt?", "publishedAt?", "timestamp?", "ts?", "time?", "at?"),
    *("envelope.ts?", "envelope.timestamp?", "envelope.producedAt?"),
)
# The same if another time decides the order: then a time that cannot be read is poison.
_SHOWN_TIMES: Final = (
    *("producedAt", "publishedAt", "timestamp", "ts", "time"),
    *("at?", "envelope.ts?", "envelope.timestamp?", "envelope.producedAt?"),
)
# The name of this order in `source.order`: `eventTime` decides, and a sequence only breaks ties.
BY_EVENT_TIME: Final = "eventTime"


def adopt_by_event_time(document: Document, max_future_skew: int) -> str | None:
    """The stamp of a document that has none comparable, from `eventTime` and the sequence that breaks ties."""
    found = {"eventTime": document.get("eventTime"), "source": document.get("source")}
    found["sequence"] = _stored_sequence(document)
    return adopted_stamp(found, ("eventTime",), max_future_skew=max_future_skew, sequence="sequence")


def _stored_sequence(document: Document) -> int | None:
    """The sequence in the stamp of an earlier build; else the one that another program stored as a field."""
    source, data = document.get("source"), document.get("data")
    stamp = source.get("stamp") if isinstance(source, dict) else None
    if isinstance(stamp, str):
        with contextlib.suppress(ValueError):
            return decode_stamp(stamp).sequence
    fields = data if isinstance(data, dict) else {}
    known = (document.get("sequence"), fields.get("sequence"), fields.get("seq"))
    return next((counter for counter in map(find_counter, known) if counter is not None), None)


def shown_time(event: Event, *, revised: bool = False) -> int:
    """The event's time if it is only shown; `revised`: `producedAt` may be text that is no time."""
    own = event.time("producedAt?", *_SHOWN_TIMES[1:]) if revised else event.time(*_SHOWN_TIMES)
    return event.publish_time if own is None else own


def common_fields(event: Event, doc_id: str, event_time: int) -> Document:
    """`docId, eventId, eventTime, data`; `ingestedAt` is added when it is written."""
    document: Document = {
        "docId": doc_id,
        "eventTime": to_datetime(event_time),
        "data": representable(event.payload),
    }
    if event.event_id is not None:
        document["eventId"] = event.event_id
    return document


def fields_by_event(event: Event, doc_id: str, own_time: int | None, max_future_skew: int) -> Document:
    """The common fields of a document by event id: `eventTime` decides the order; no other time is required."""
    published = event.publish_time
    decides = published if own_time is None else clamp_event_time(own_time, published, max_future_skew)
    document = common_fields(event, doc_id, decides)
    put_times(document, event, "producedAt?", "publishedAt?")
    return document


def put_times(document: Document, event: Event, *names: str) -> None:
    """Copy the times that are present, as times; a `?` after a name skips text that is no time."""
    for name in names:
        us = event.time(name)
        if us is not None:
            document[name.removesuffix("?")] = to_datetime(us)


def put_present(document: Document, event: Event, names: Sequence[str]) -> None:
    """Copy the fields that are present, unchanged; values that no document can hold become JSON text."""
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
