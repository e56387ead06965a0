"""Trade signals → `trade_signals`: one document per signal, merged field by field over its lifecycle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millpond import (
    SEQUENCE_LAST,
    Document,
    Event,
    InvalidEvent,
    Merge,
    adopted_stamp,
    find_counter,
    hash_of,
    is_blank,
    parse_sequence,
    text_or_none,
    to_datetime,
)
from millpond.views.common import (
    BY_EVENT_TIME,
    EVENT_TIMES,
    adopt_by_event_time,
    common_fields,
    fields_by_event,
    put_present,
    put_times,
    shown_time,
)
from millpond.views.symbols import instrument_symbol

_FIELDS = (
    *("strategyId", "strategy", "symbol", "timeframe"),
    *("action", "side", "confidence", "reason", "price", "targets", "risk", "state"),
)
# The time of an update, the first that is present.
_UPDATED = ("updatedAt?", "decisionAt", "producedAt", "publishedAt", "envelope.ts", "timestamp", "ts", "time")
# The same for documents by event id, which need no time: text that is no time is skipped.
_UPDATED_OR_NOT = tuple(f"{name.removesuffix('?')}?" for name in _UPDATED)
# When a signal was decided. It distinguishes a signal from a later, similar one; an update's own time does not.
_DECIDED = (
    *("decisionAt", "createdAt", "envelope.ts", "timestamp", "ts", "time"),
    *("producedAt", "publishedAt"),
)


class TradeSignals(Merge):
    """Each signal as its newest updates describe it; no order is inferred from `state`."""

    topics = ("trade-signals",)
    event_types = ("trade.signal", "trade.signals")
    collection = "trade_signals"
    representable = True
    single_key = True
    time: str | tuple[str, ...] = _UPDATED
    sequence_first = True
    ingested_at = True

    def __init__(self, *, id_form: str, distinct_by_version: bool, max_future_skew_us: int) -> None:
        self._by_event = id_form == "event"
        self._by_version = distinct_by_version
        self._skew = max_future_skew_us
        if self._by_event:
            self.time, self.order = EVENT_TIMES, BY_EVENT_TIME
            self.sequence_first, self.stamp_prefix = False, SEQUENCE_LAST

    def key_of(self, event: Event) -> Sequence[str]:
        if self._by_event:
            return (event.event_id or event.message_id,)
        given = _signal_id(event) or event.text("id", "dedupeKey", "fingerprint") or event.event_id
        return (given or self._fingerprint(event),)

    def identity_time_of(self, event: Event, own_time: int | None) -> int | None:
        """The decision time: it does not order updates, but distinguishes a republished signal from a new one."""
        return event.time("createdAt") if own_time is None else own_time

    def sequence_of(self, event: Event) -> int | None:
        """`sequence`; else `version`, unless it is no counter (such as `1.2.0`)."""
        value = event.get("sequence")
        return find_counter(event.get("version")) if value is None else parse_sequence(value, "sequence")

    def fields(self, event: Event) -> Document:
        if self._by_event:
            fields = fields_by_event(event, self.id_of(event), self.time_of(event), self._skew)
        else:
            fields = common_fields(event, self.id_of(event), shown_time(event))
            put_times(fields, event, "producedAt", "publishedAt")
        signal_id = _signal_id(event)
        if signal_id is not None:
            fields["signalId"] = signal_id
        # Only fields that the payload names: a partial update must not clear the others.
        put_present(fields, event, _FIELDS)
        put_times(fields, event, "createdAt", "decisionAt")
        if is_blank(fields.get("symbol")) and (symbol := text_or_none(instrument_symbol(event))) is not None:
            fields["symbol"] = symbol
        updated = event.time(*_UPDATED_OR_NOT) if self._by_event else self.time_of(event)
        fields["updatedAt"] = to_datetime(event.publish_time if updated is None else updated)
        sequence = self.sequence_of(event)
        if sequence is not None:
            fields["sequence"] = sequence
        return fields

    def adopt(self, document: Document) -> str | None:
        if self._by_event:
            stamp = adopt_by_event_time(document, self._skew)
            return None if stamp is None else self.stamp_prefix + stamp
        times = ("updatedAt", "eventTime", "producedAt", "publishedAt")
        return adopted_stamp(document, times, max_future_skew=self._skew, sequence="sequence", sequence_first=True)

    def _fingerprint(self, event: Event) -> str:
        """A hash of the fields that define a signal: equal each time the same signal is sent.

        Without any time, two equal signals and one signal sent twice look alike, so each message is a signal.
        """
        envelope_sha = event.envelope.get("git_sha")
        basis: dict[str, Any] = {
            "strategyId": event.text("strategyId", "strategy"),
            "symbol": event.text("symbol") or text_or_none(instrument_symbol(event)),
            "timeframe": event.text("timeframe"),
            "side": event.text("side", "action"),
            "version": (event.text("modelVersion", "git_sha") or envelope_sha) if self._by_version else None,
        }
        if all(value is None for value in basis.values()):
            # A time alone would merge all signals decided at that moment.
            raise InvalidEvent("nothing identifies the signal: give it a signalId, or a symbol and a side")
        decided = event.time(*_DECIDED)
        if decided is None and event.time(*_UPDATED) is None:
            return event.message_id
        return hash_of({**basis, "decisionAt": decided})


def _signal_id(event: Event) -> str | None:
    return event.text("signalId", "signal_id")
