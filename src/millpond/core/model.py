"""The nouns of Millpond. Immutable values, no behaviour that touches the world.

`docs/glossary.md` says what each word means; the names here are those words.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from millpond.core import timestamps
from millpond.core.errors import InvalidEvent, as_value, json_type

# What documents hold: None, bool, int (64-bit), float, str, bytes, aware datetime, list, dict with text keys.
Document = dict[str, Any]

# A number as text. float() alone also takes underscores, white space and digits of every script.
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")

# A document's version: opaque, never reused, and the same version means the same content.
Version = int | str


class Ref(NamedTuple):
    """Where a document lives: collection path and id."""

    collection: str
    id: str

    @property
    def path(self) -> str:
        return f"{self.collection}/{self.id}"


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One arrival of a message, before anybody looked inside."""

    message_id: str
    publish_time: int
    data: bytes | None
    attributes: dict[str, str] = {}
    subscription: str = ""
    ordering_key: str | None = None
    attempt: int | None = None
    # Set where `data` could not be read as base64: it then holds the text as it came.
    data_fault: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """The decoded fact. `payload` is the inner payload; `envelope` is what stood around it, or empty."""

    message_id: str
    publish_time: int
    # The topic its views feed on.
    topic: str
    payload: dict[str, Any]
    envelope: dict[str, Any] = {}
    attributes: dict[str, str] = {}
    event_type: str | None = None
    event_id: str | None = None
    # The topic's own name as the message or its subscription gave it, where that is another one.
    source_topic: str | None = None
    # NAIVE_TIMES=utc: times without an offset are UTC.
    naive_as_utc: bool = False
    # What was worked out from it once and is asked for again.
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
        """The first of `names` that holds text, trimmed (numbers are written out); other types make it poison."""
        payload = self.payload
        for name in names:
            text = trimmed(payload.get(name), name)
            if text is not None:
                return text
        return None

    def number(self, name: str) -> Any:
        """A number, or a decimal written as text, kept as sent: prices must not lose digits on the way."""
        value = self.payload.get(name)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        if isinstance(value, str) and _DECIMAL.fullmatch(value) and abs(float(value)) < float("inf"):
            return value
        what = "text that is none" if isinstance(value, str) else json_type(value)
        raise InvalidEvent(f"{name} must be a finite number, not {what}")

    def time(self, *names: str) -> int | None:
        """Microseconds of the first of `names` that is present; `envelope.ts` names an envelope field.

        A `?` after a name passes over text that is no time at all ("n/a"); without it such text is poison.
        """
        payload, envelope = self.payload, self.envelope
        for field, in_envelope, passes_over, name in _time_fields(names):
            value = envelope.get(field) if in_envelope else payload.get(field)
            if value is None or is_blank(value):
                continue
            try:
                return timestamps.parse(value, name, naive_as_utc=self.naive_as_utc)
            except InvalidEvent:
                # Looked at only now: nearly every time can be read.
                if not (passes_over and timestamps.is_no_time(value)):
                    raise
        return None


@lru_cache(maxsize=1_024)
def _time_fields(names: tuple[str, ...]) -> tuple[tuple[str, bool, bool, str], ...]:
    """Of each name: the field, whether it is the envelope's, whether words are passed over, and what to call it."""
    fields = []
    for name in names:
        called = name.removesuffix("?")
        field = called.removeprefix("envelope.")
        fields.append((field, field != called, name != called, called))
    return tuple(fields)


def is_blank(value: Any) -> bool:
    """Whether a field counts as missing: absent, null, or text of nothing but white space."""
    return value is None or (type(value) is str and (not value or value.isspace()))


def text_or_none(value: Any) -> str | None:
    """An optional field as trimmed text; what is neither text nor a number says nothing."""
    return trimmed(value, "") if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def trimmed(value: Any, name: str) -> str | None:
    """A field that must be text, without white space around it; None where it is blank."""
    if type(value) is str:
        return value.strip() or None
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise InvalidEvent(f"{name} must be text, not {json_type(value)}")


class Snapshot(msgspec.Struct, frozen=True):
    """A document as it was read, or its absence (`version` and `data` are None)."""

    ref: Ref
    version: Version | None
    data: Document | None


class Put(msgspec.Struct, frozen=True):
    """Write the whole document. `base` is the version it must have now; None means it must be absent."""

    ref: Ref
    base: Version | None
    data: Document
    # True for what we made ourselves from values that are representable; everything else is walked before sending.
    checked: bool = False


class Patch(msgspec.Struct, frozen=True):
    """Set the named field paths of a document others own, and touch nothing else of it."""

    ref: Ref
    base: Version
    fields: Mapping[tuple[str, ...], Any]


class Delete(msgspec.Struct, frozen=True):
    ref: Ref
    base: Version


Write = Put | Patch | Delete


class Committed(NamedTuple):
    """Everything was applied. `versions` are the new ones, in the order of the writes; None for a delete."""

    versions: Sequence[Version | None]


class Conflict(NamedTuple):
    """Nothing was applied: a precondition failed. `refs` are the culprits, where the store can tell."""

    refs: frozenset[Ref] = frozenset()


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
    # As it comes, Python 3.11 asks code written in Python for a member each time it is named.
    type.__setattr__(Outcome, _outcome.name, _outcome)

OUTCOME_RANK = {outcome: rank for rank, outcome in enumerate(Outcome)}


class ViewResult(msgspec.Struct, frozen=True):
    """What became of an event in one view. `stamp` is its own, `winner` the document's afterwards."""

    view: str
    # Empty where the view did not want the event and so never said which document it would be about.
    doc: str
    outcome: Outcome
    reason: str
    stamp: str | None = None
    winner: str | None = None
    # Whether the document was written: a republished copy is a duplicate, and takes over the provenance.
    wrote: bool = False


class Result(msgspec.Struct, frozen=True):
    """What became of a message."""

    outcome: Outcome
    reason: str
    topic: str = ""
    views: list[ViewResult] = []
    error: BaseException | None = None
    receipt: str | None = None
    # What was decoded, for the log line; None where nothing could be.
    event: Event | None = None
    # True once the message lies in the letters, so that it may be acknowledged although it is poison.
    buried: bool = False

    def __post_init__(self) -> None:
        if self.error is not None:
            as_value(self.error)

    @property
    def settled(self) -> bool:
        """Whether the store holds what makes an acknowledgement right."""
        return self.buried or (self.outcome is not Outcome.RETRY and self.outcome is not Outcome.POISON)

    @property
    def refused_by(self) -> str | None:
        """The view whose refusal or bug is the error; None where there is none, or no view was asked."""
        return getattr(self.error, "view", None)


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the event log: the delivery, whole, and what became of it."""

    delivery: Delivery
    topic: str
    event_id: str | None
    arrived_at: int
    result: Result
    # A replayed letter replaces the poison entry its burial left, so that each message still counts once.
    replay: bool = False


class LogPage(NamedTuple):
    """Some of the event log, in the order it was kept.

    `position` is where to read on: now where there is `more`, later for what was appended meanwhile.
    """

    entries: list[LogEntry]
    position: str | None
    more: bool
