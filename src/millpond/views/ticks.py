"""Market ticks → `market_ticks_latest` (one document per symbol) and `market_ticks` (one per tick)."""

from __future__ import annotations

from collections.abc import Sequence

from millpond import Document, Event, Latest, adopted_stamp, to_datetime
from millpond.views.common import (
    BY_EVENT_TIME,
    EVENT_TIMES,
    adopt_by_event_time,
    fields_by_event,
    put_numbers,
)
from millpond.views.symbols import find_symbol, symbol_of

_TOPICS = ("market-ticks",)
_TYPES = ("market.tick", "market.ticks")


class LatestTicks(Latest):
    """The newest tick of each symbol."""

    topics = _TOPICS
    event_types = _TYPES
    collection = "market_ticks_latest"
    representable = True
    single_key = True
    time = ("ts", "timestamp", "time", "at", "envelope.ts", "producedAt", "envelope.producedAt")
    sequence = ("sequence", "seq")
    # Stamps alone keep it right. A receipt per tick would double the writes of the busiest topic.
    receipts = False

    def __init__(self, *, late_after_s: float | None, has_history: bool, max_future_skew_us: int) -> None:
        self.late_after_s = late_after_s
        self._skew = max_future_skew_us
        self._kept_elsewhere = has_history

    def wants(self, event: Event) -> bool:
        """A tick without a symbol belongs to the history alone; if the history is off, it is poison, not lost.

        A tick with a `payload` of its own is an envelope that was not recognised. It is wanted, and so is poison.
        """
        return not self._kept_elsewhere or find_symbol(event) is not None or "payload" in event.payload

    def key_of(self, event: Event) -> Sequence[str]:
        return (symbol_of(event),)

    def document(self, event: Event) -> Document:
        own = self.time_of(event)
        document: Document = {
            "symbol": symbol_of(event),
            "lastTickAt": to_datetime(event.publish_time if own is None else own),
        }
        put_numbers(document, event, ("price", "bid", "ask", "size"))
        if "price" not in document and (last := event.number("last")) is not None:
            document["price"] = last
        return document

    def adopt(self, document: Document) -> str | None:
        return adopted_stamp(document, ("lastTickAt",), max_future_skew=self._skew)


class TickHistory(Latest):
    """Every tick, kept for TICK_HISTORY_TTL_DAYS."""

    topics = _TOPICS
    event_types = _TYPES
    collection = "market_ticks"
    representable = True
    single_key = True
    time = EVENT_TIMES
    order = BY_EVENT_TIME
    sequence = ("sequence", "seq")
    receipts = False
    one_per_event = True
    ingested_at = True

    def __init__(self, *, retention_days: float, max_future_skew_us: int) -> None:
        self.retention_days = retention_days
        self._skew = max_future_skew_us

    def key_of(self, event: Event) -> Sequence[str]:
        return (event.event_id or event.message_id,)

    def document(self, event: Event) -> Document:
        document = fields_by_event(event, self.id_of(event), self.time_of(event), self._skew)
        symbol = find_symbol(event)
        if symbol is not None:
            document["symbol"] = symbol
        return document

    def adopt(self, document: Document) -> str | None:
        return adopt_by_event_time(document, self._skew)
