"""One-minute bars → `market_bars_1m`: one document per symbol and minute, the newest revision wins."""

from __future__ import annotations

from collections.abc import Sequence

from millpond import timestamps
from millpond.errors import InvalidEvent
from millpond.ids import encode_id
from millpond.model import Document, Event
from millpond.settings import Settings
from millpond.view import Latest, View, adopted_stamp
from millpond.views.common import common_fields, put_numbers, put_times, symbol_of

_MINUTE_US = 60 * timestamps.SECOND_US
_PRICES = ("open", "high", "low", "close", "volume")


class MinuteBars(Latest):
    """Open, high, low, close and volume of one minute."""

    topics = ("market-bars-1m",)
    event_types = ("market.bars.1m", "market.bar.1m")
    collection = "market_bars_1m"
    representable = True
    time = ("producedAt", "envelope.ts")
    sequence = ("sequence", "seq")
    ingested_at = True

    def __init__(self, settings: Settings) -> None:
        self._id = settings.bars_id
        self._skew = settings.max_future_skew_us
        self.one_per_event = self._id == "event"
        if settings.bars_max_backfill_days:
            self.late_after_s = settings.bars_max_backfill_days * 86_400
        if self._id == "nested":
            self.collection = "market_bars_1m_by_symbol"

    def collection_of(self, event: Event) -> str:
        if self._id != "nested":
            return self.collection
        day = timestamps.to_datetime(_minute_of(event)).strftime("%Y%m%d")
        return f"{self.collection}/{encode_id(symbol_of(event))}/days/{day}/minutes"

    def key_of(self, event: Event) -> Sequence[str]:
        if self._id == "event":
            return (event.event_id or event.message_id,)
        if self._id == "nested":
            return (timestamps.to_datetime(_minute_of(event)).strftime("%H%M"),)
        return (symbol_of(event), timestamps.to_text(_minute_of(event)))

    def late_time_of(self, event: Event, order_time: int) -> int:  # noqa: ARG002
        """A backfill is told by the minute it is about, not by when it was revised."""
        return _minute_of(event)

    def document(self, event: Event) -> Document:
        minute = _minute_of(event)
        revised = self.time_of(event)
        document = {
            **common_fields(event, encode_id(*self.key_of(event))),
            "symbol": symbol_of(event),
            "timeframe": event.text("timeframe") or "1m",
            "ts": timestamps.to_datetime(minute),
            "source": {"revisionAt": timestamps.to_datetime(event.publish_time if revised is None else revised)},
        }
        put_numbers(document, event, _PRICES)
        put_times(document, event, ("start", "end"))
        return document

    def adopt(self, document: Document) -> str | None:
        source = document.get("source")
        revised = source.get("revisionAt") if isinstance(source, dict) else None
        if revised is not None:
            document = {**document, "revisionAt": revised}
        times = ("revisionAt",) if revised is not None else ("eventTime", "producedAt", "publishedAt")
        return adopted_stamp(document, times, max_future_skew=self._skew)


def _minute_of(event: Event) -> int:
    at = event.time("ts", "timestamp", "time", "start")
    if at is None:
        raise InvalidEvent("ts is missing: which minute is this bar about?")
    return at - at % _MINUTE_US


def views(settings: Settings) -> list[View]:
    return [MinuteBars(settings)]
