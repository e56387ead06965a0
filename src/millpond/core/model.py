"""The values of Millpond: delivery, event, snapshot, write, outcome, result, log entry. Immutable, no I/O.

The names are those of `docs/glossary.md`. Every other module uses them.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, overload

import msgspec

from millpond.core import fields, timestamps
from millpond.core.errors import Fault, InvalidEvent, as_value
from millpond.core.fields import is_blank, time_fields, trimmed

# What documents hold: None, bool, int (64-bit), float, str, bytes, aware datetime, list, dict with text keys.
Document = dict[str, Any]

# A document's version: opaque, never reused, and the same version means the same content.
Version = int | str


class Ref(NamedTuple):
    """The address of a document: collection path and id."""

    collection: str
    id: str

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.id}"


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One arrival of a message, not decoded yet."""

    message_id: str
    publish_time: int
    data: bytes | None
    attributes: dict[str, str] = {}
    subscription: str = ""
    ordering_key: str | None = None
    attempt: int | None = None
    # Set if the data is not valid base64: `data` then holds the text as received.
    data_fault: str | None = None
    # The payload as an operator corrected it in the dead letter, to be read instead of `data`. `data` stays as it
    # arrived, because it identifies the message.
    correction: bytes | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded message. `payload` is the inner payload; `envelope` holds the fields around it, or is empty."""

    message_id: str
    publish_time: int
    # The topic that selects its views.
    topic: str
    payload: dict[str, Any]
    envelope: dict[str, Any] = {}
    attributes: dict[str, str] = {}
    event_type: str | None = None
    event_id: str | None = None
    # The topic's name as the message or its subscription gave it, if that differs from `topic`.
    source_topic: str | None = None
    # NAIVE_TIMES=utc: times without an offset are UTC.
    naive_as_utc: bool = False
    # Values that were computed from the event once and are needed again.
    memo: dict[Any, Any] = {}

    def get(self, name: str, default: Any = None) -> Any:
        value = self.payload.get(name)
        return default if value is None else value

    def require(self, name: str) -> Any:
        """The payload's value under `name`; missing, null or blank text makes the event poison."""
        value = self.payload.get(name)
        if is_blank(value):
            raise InvalidEvent(f"{name} is missing")
        return value

    def text(self, *names: str) -> str | None:
        """The first of `names` that holds text, trimmed; numbers become text. Another type makes it poison."""
        payload = self.payload
        for name in names:
            text = trimmed(payload.get(name), name)
            if text is not None:
                return text
        return None

    def number(self, name: str) -> Any:
        """A number, or a decimal as text, returned as sent, so that prices lose no digits."""
        return fields.number_as_sent(self.payload.get(name), name)

    @overload
    def integer(self, name: str, default: None = None) -> int | None: ...
    @overload
    def integer(self, name: str, default: int) -> int: ...
    def integer(self, name: str, default: int | None = None) -> int | None:
        """A whole number: 3, "3" and 3.0 are the integer 3. `default` if missing; poison if it is none."""
        value = fields.integer(self.payload.get(name), name)
        return default if value is None else value

    @overload
    def decimal(self, name: str, default: None = None) -> Decimal | None: ...
    @overload
    def decimal(self, name: str, default: Decimal) -> Decimal: ...
    def decimal(self, name: str, default: Decimal | None = None) -> Decimal | None:
        """An exact decimal, to compute with. No store holds a Decimal: store `str(value)`, or whole cents."""
        value = fields.decimal(self.payload.get(name), name)
        return default if value is None else value

    def datetime(self, *names: str) -> dt.datetime | None:
        """The same as `time`, as a datetime in UTC, which a document can hold."""
        us = self.time(*names)
        return None if us is None else timestamps.to_datetime(us)

    def time(self, *names: str) -> int | None:
        """Microseconds of the first of `names` that is present; `envelope.ts` names an envelope field.

        A `?` after a name skips text that is not a time ("n/a"); without it such text makes the event poison.
        """
        payload, envelope = self.payload, self.envelope
        for field, in_envelope, passes_over, name in time_fields(names):
            value = envelope.get(field) if in_envelope else payload.get(field)
            if value is None or is_blank(value):
                continue
            try:
                return timestamps.parse(value, name, naive_as_utc=self.naive_as_utc)
            except InvalidEvent:
                # Checked last, because nearly every time is valid.
                if not (passes_over and timestamps.is_no_time(value)):
                    raise
        return None


class Snapshot(msgspec.Struct, frozen=True):
    """A document as it was read; `version` and `data` are None if it does not exist."""

    ref: Ref
    version: Version | None
    data: Document | None


class Put(msgspec.Struct, frozen=True):
    """Write the whole document. `base` is the version it must have now; None means it must be absent."""

    ref: Ref
    base: Version | None
    data: Document
    # True if every value is known to be representable; otherwise the store checks every value before sending.
    checked: bool = False


class Patch(msgspec.Struct, frozen=True):
    """Set the named field paths of a document that another program owns, and change no other field."""

    ref: Ref
    base: Version
    fields: Mapping[tuple[str, ...], Any]


class Delete(msgspec.Struct, frozen=True):
    ref: Ref
    base: Version


Write = Put | Patch | Delete


class Committed(NamedTuple):
    """All writes were applied. `versions` are the new ones, in the order of the writes; None for a delete."""

    versions: Sequence[Version | None]


class Conflict(NamedTuple):
    """Nothing was applied: a precondition failed. `refs` are the conflicting documents, if the store knows them."""

    refs: frozenset[Ref] = frozenset()
    # Whether a document that was to be created may exist. False if only versions can have been in the way.
    exists: bool = True


class Outcome(enum.StrEnum):
    """What became of an event. Ordered: over several views the one that stands first here is the message's."""

    RETRY = "retry"
    POISON = "poison"
    APPLIED = "applied"
    DUPLICATE = "duplicate"
    STALE = "stale_ignored"
    TOO_OLD = "too_old_ignored"
    FILTERED = "filtered"


for _outcome in Outcome:
    # Set on the class, because Python 3.11 runs a Python-level lookup for each access to an enum member.
    type.__setattr__(Outcome, _outcome.name, _outcome)

OUTCOME_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}


class ViewResult(msgspec.Struct, frozen=True):
    """What became of an event in one view. `stamp` is its own, `winner` the document's afterwards."""

    view: str
    # Empty if the view did not want the event: it was then not asked for a document.
    doc: str
    outcome: Outcome
    reason: str
    stamp: str | None = None
    winner: str | None = None
    # Whether the document was written. A republished copy is a duplicate and may still update the provenance.
    wrote: bool = False


class Result(msgspec.Struct, frozen=True):
    """What became of a message."""

    outcome: Outcome
    reason: str
    topic: str = ""
    views: list[ViewResult] = []
    error: BaseException | None = None
    # Why views refused the event, or failed on it. `error` is the gravest of them.
    faults: Sequence[Fault] = ()
    receipt: str | None = None
    # The decoded event, for the log line; None if decoding failed.
    event: Event | None = None
    # True once the message is stored as a dead letter: it may then be acknowledged although it is poison.
    buried: bool = False

    def __post_init__(self) -> None:
        if self.error is not None:
            as_value(self.error)
        for fault in self.faults:
            as_value(fault)

    @property
    def settled(self) -> bool:
        """Whether the message may be acknowledged: its outcome, or its letter, is durable."""
        return self.buried or (self.outcome is not Outcome.RETRY and self.outcome is not Outcome.POISON)

    @property
    def refused_by(self) -> str | None:
        """The view that refused the event or failed on it; None if no view did."""
        return getattr(self.error, "view", None)


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the event log: the whole delivery and its result."""

    delivery: Delivery
    topic: str
    event_id: str | None
    arrived_at: int
    result: Result
    # The entry of a replayed letter replaces the poison entry of its burial, so that each message counts once.
    replay: bool = False
    # View → the corrected payload that it was asked with; the other views were asked with the delivery's data.
    corrected: dict[str, bytes] = {}


class LogPage(NamedTuple):
    """A page of the event log, in log order.

    `position` is where the next read continues: at once if there is `more`, else later, for new entries.
    """

    entries: list[LogEntry]
    position: str | None
    more: bool
