"""Trade signals → `trade_signals`: one document per signal, merged field by field over its lifecycle."""

from __future__ import annotations

from collections.abc import Sequence

from millpond import timestamps
from millpond.digest import base32_sha256
from millpond.errors import InvalidEvent
from millpond.ids import encode_id
from millpond.model import Document, Event
from millpond.settings import Settings
from millpond.shape import canonical_json
from millpond.view import Merge, View, adopted_stamp
from millpond.views.common import common_fields, put_present, put_times

_FIELDS = (
    *("signalId", "strategyId", "strategy", "symbol", "timeframe"),
    *("action", "side", "confidence", "reason", "price", "targets", "risk", "state"),
)


class TradeSignals(Merge):
    """Each signal as its newest updates describe it; no order is inferred from `state`."""

    topics = ("trade-signals",)
    event_types = ("trade.signal", "trade.signals")
    collection = "trade_signals"
    representable = True
    time = ("updatedAt", "decisionAt", "producedAt", "publishedAt", "envelope.ts", "timestamp", "ts", "time")
    sequence = ("sequence", "version")
    sequence_first = True
    ingested_at = True

    def __init__(self, settings: Settings) -> None:
        self._by_event = settings.signals_id == "event"
        self._by_version = settings.signals_distinct_by_version
        self._skew = settings.max_future_skew_us

    def key_of(self, event: Event) -> Sequence[str]:
        if self._by_event:
            return (event.event_id or event.message_id,)
        given = event.text("signalId", "id", "dedupeKey", "fingerprint") or event.event_id
        return (given or self._fingerprint(event),)

    def fields(self, event: Event) -> Document:
        own = self.time_of(event)
        fields = common_fields(event, encode_id(*self.key_of(event)))
        # Only what the payload names: a partial update must not blank what it does not mention.
        put_present(fields, event, _FIELDS)
        put_times(fields, event, ("createdAt", "decisionAt"))
        fields["updatedAt"] = timestamps.to_datetime(event.publish_time if own is None else own)
        sequence = self.sequence_of(event)
        if sequence is not None:
            fields["sequence"] = sequence
        return fields

    def adopt(self, document: Document) -> str | None:
        times = ("updatedAt", "eventTime", "producedAt", "publishedAt")
        return adopted_stamp(document, times, max_future_skew=self._skew, sequence="sequence", sequence_first=True)

    def _fingerprint(self, event: Event) -> str:
        """The same signal however often it is sent: a hash of what defines it."""
        envelope_sha = event.envelope.get("git_sha")
        basis = {
            "strategyId": event.text("strategyId", "strategy"),
            "symbol": event.text("symbol"),
            "timeframe": event.text("timeframe"),
            "side": event.text("side", "action"),
            "decisionAt": event.time("decisionAt", "envelope.ts"),
            "version": (event.text("modelVersion", "git_sha") or envelope_sha) if self._by_version else None,
        }
        if all(value is None for value in basis.values()):
            raise InvalidEvent("nothing identifies the signal: give it a signalId, or a symbol and a decisionAt")
        return base32_sha256(canonical_json(basis))


def views(settings: Settings) -> list[View]:
    return [TradeSignals(settings)]
