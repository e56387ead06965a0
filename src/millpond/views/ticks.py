"""Market ticks → `market_ticks_latest` (one document per symbol) and `market_ticks` (one per tick)."""

from __future__ import annotations

from collections.abc import Sequence

from millpond.core import timestamps
from millpond.core.model import Document, Event
from millpond.core.view import Latest, View, adopted_stamp
from millpond.settings import Settings
from millpond.views.common import (
    BY_EVENT_TIME,
    EVENT_TIMES,
    adopt_by_event_time,
    fields_by_event,
    find_symbol,
    put_numbers,
    symbol_of,
)

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
    # Stamps alone keep it right, and a receipt per tick would double what the busiest topic costs.
    receipts = False

    def __init__(self, settings: Settings) -> None:
        self.late_after_s = settings.ticks_max_late_s or None
        self._skew = settings.max_future_skew_us
        self._kept_elsewhere = settings.tick_history

    def wants(self, event: Event) -> bool:
        """A tick of no symbol belongs to the history alone; without a history it is poison, not lost.

        One that carries a `payload` of its own was not taken out of its envelope, and would be lost in the history.
        """
        return not self._kept_elsewhere or find_symbol(event) is not None or "payload" in event.payload

    def key_of(self, event: Event) -> Sequence[str]:
        return (symbol_of(event),)

    def document(self, event: Event) -> Document:
        own = self.time_of(event)
        document: Document = {
            "symbol": symbol_of(event),
            "lastTickAt": timestamps.to_datetime(event.publish_time if own is None else own),
        }
        put_numbers(document, event, ("price", "bid", "ask", "size"))
        if "price" not in document and (last := event.number("last")) is not None:
            document["price"] = last
        return document

    def adopt(self, document: Document) -> str | None:
        return adopted_stamp(document, ("lastTickAt",), max_future_skew=self._skew)


class TickHistory(Latest):
    """Every tick, for as long as TICK_HISTORY_TTL_DAYS."""

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

    def __init__(self, settings: Settings) -> None:
        self.retention_days = settings.tick_history_ttl_days
        self._skew = settings.max_future_skew_us

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


def views(settings: Settings) -> list[View]:
    return [LatestTicks(settings), TickHistory(settings)] if settings.tick_history else [LatestTicks(settings)]
