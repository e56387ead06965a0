"""One-minute bars → `market_bars_1m`: one document per symbol and minute, the newest revision wins."""

from __future__ import annotations

from collections.abc import Sequence

from millpond import Document, Event, InvalidEvent, Latest, adopted_stamp, encode_id, to_datetime, to_text
from millpond.views.common import (
    BY_EVENT_TIME,
    EVENT_TIMES,
    adopt_by_event_time,
    common_fields,
    fields_by_event,
    put_numbers,
    put_times,
    shown_time,
)
from millpond.views.symbols import find_symbol, symbol_of

_MINUTE_US = 60_000_000
_PRICES = ("open", "high", "low", "close", "volume")
# When a bar was revised: the first of these that is present and readable.
_REVISED = ("producedAt?", "envelope.ts?")
_STARTS = ("ts", "timestamp", "time", "start", "startAt")


class MinuteBars(Latest):
    """Open, high, low, close and volume of one minute."""

    topics = ("market-bars-1m",)
    event_types = ("market.bars.1m", "market.bar.1m")
    collection = "market_bars_1m"
    representable = True
    time: str | tuple[str, ...] = _REVISED
    sequence = ("sequence", "seq")
    ingested_at = True

    def __init__(self, *, id_form: str, late_after_s: float | None, max_future_skew_us: int) -> None:
        self._id = id_form
        self._skew = max_future_skew_us
        self.late_after_s = late_after_s
        if self._id == "nested":
            self.collection = "market_bars_1m_by_symbol"
        elif self._id == "event":
            self.one_per_event = self.single_key = True
            self.time, self.order = EVENT_TIMES, BY_EVENT_TIME

    def collection_of(self, event: Event) -> str:
        if self._id != "nested":
            return self.collection
        day = to_datetime(_minute_of(event)).strftime("%Y%m%d")
        return f"{self.collection}/{encode_id(symbol_of(event))}/days/{day}/minutes"

    def key_of(self, event: Event) -> Sequence[str]:
        if self._id == "event":
            return (event.event_id or event.message_id,)
        if self._id == "nested":
            return (to_datetime(_minute_of(event)).strftime("%H%M"),)
        return (symbol_of(event), to_text(_minute_of(event)))

    def late_time_of(self, event: Event, order_time: int) -> int:
        """A backfill is recognised by its minute, not by its revision time."""
        minute = _find_minute(event) if self._id == "event" else _minute_of(event)
        return order_time if minute is None else minute

    def document(self, event: Event) -> Document:
        document = self._of_event(event) if self._id == "event" else self._of_minute(event)
        revised = event.time(*_REVISED)
        document["timeframe"] = event.text("timeframe") or "1m"
        document["source"] = {"revisionAt": to_datetime(event.publish_time if revised is None else revised)}
        put_numbers(document, event, _PRICES)
        for name in ("start", "end"):
            us = event.time(name, f"{name}At")
            if us is not None:
                document[name] = to_datetime(us)
        return document

    def _of_minute(self, event: Event) -> Document:
        """A document by symbol and minute: both are required."""
        document = common_fields(event, self.id_of(event), shown_time(event, revised=True))
        put_times(document, event, "producedAt?", "publishedAt")
        document["symbol"] = symbol_of(event)
        document["ts"] = to_datetime(_minute_of(event))
        return document

    def _of_event(self, event: Event) -> Document:
        """A document by event id: it has symbol and minute if the event has them."""
        document = fields_by_event(event, self.id_of(event), self.time_of(event), self._skew)
        symbol, minute = find_symbol(event), _find_minute(event)
        if symbol is not None:
            document["symbol"] = symbol
        if minute is not None:
            document["ts"] = to_datetime(minute)
        return document

    def adopt(self, document: Document) -> str | None:
        if self._id == "event":
            return adopt_by_event_time(document, self._skew)
        source = document.get("source")
        revised = source.get("revisionAt") if isinstance(source, dict) else None
        if revised is not None:
            document = {**document, "revisionAt": revised}
        times = ("revisionAt",) if revised is not None else ("eventTime", "producedAt", "publishedAt")
        return adopted_stamp(document, times, max_future_skew=self._skew)


def _minute_of(event: Event) -> int:
    at = event.time(*_STARTS)
    if at is None:
        raise InvalidEvent("ts, timestamp, time, start and startAt are missing: which minute is this bar about?")
    return at - at % _MINUTE_US


def _find_minute(event: Event) -> int | None:
    at = event.time(*(f"{name}?" for name in _STARTS))
    return None if at is None else at - at % _MINUTE_US
