"""View: which events feed which documents, and how. This is the API users write against.

    class Parcels(Latest):
        topics = ("parcel-scans",)
        collection = "parcels"
        key = "parcelId"
        time = "scannedAt"

        def document(self, event):
            return {"parcelId": event.require("parcelId"), "depot": event.get("depot")}

Everything a view computes must be a function of the event alone: no clock, no randomness, no I/O. Raise through
`event.require(...)` or `InvalidEvent` for an event that can never be right; any other exception is taken for a bug
in the view, and the message is retried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from millpond.core import timestamps
from millpond.core.errors import InvalidEvent
from millpond.core.ids import encode_id, encode_name
from millpond.core.model import Document, Event
from millpond.core.returned import check_parts, check_stamp
from millpond.core.stamp import clamp_event_time, encode_stamp, find_counter, parse_sequence

# Only a document that records the publish time of its event can be ahead of it.
_FUTURE_SKEW_US: Final = 300 * timestamps.SECOND_US


class _DeleteType:
    """What a `Latest` view returns to delete: a tombstone stays, so that no older event can resurrect it."""

    def __repr__(self) -> str:
        return "DELETE"


DELETE: Final = _DeleteType()
# For `existing`: a document that another program wrote is overwritten.
REPLACE: Final = "replace"
TOMBSTONE: Final[Mapping[str, Any]] = {"deleted": True}


class View:
    """The attributes and methods of every kind of view. Subclass `Latest`, `Merge` or `Tally`."""

    kind: ClassVar[str]
    # The view's name in answers, logs and receipts; the collection's first segment unless given.
    name: str = ""
    # Topics it feeds on, and event types that select them if a message names no topic.
    topics: Sequence[str] = ()
    event_types: Sequence[str] = ()
    collection: str = ""
    # Payload field(s) that make the document id; several are joined.
    key: str | Sequence[str] = ()
    # Whether the id always has one part; it is then stored unescaped if Firestore allows it. None: true if `key` is
    # one name and `key_of` is not overridden.
    single_key: bool | None = None
    # Fields of the order time; the first one present wins, else publish time. `envelope.ts` is a field of the
    # envelope. A `?` after a name skips text that is not a time.
    time: str | tuple[str, ...] = ()
    # Fields of a producer's counter; the first one present wins.
    sequence: str | Sequence[str] = ()
    # True: a sequence outranks time, and events without one sort below all that have one.
    sequence_first: bool = False
    # The name of the rule that makes its stamps, if its collection has had more than one. Stamps of different rules
    # are not compared: a document with a stamp of another rule is adopted from its fields.
    order: str = ""
    # The prefix of its stamps (see `stamp.py`).
    stamp_prefix: str = ""
    # Events older than publish time minus this are `too_old_ignored`.
    late_after_s: float | None = None
    # Documents expire this long after publish time (`expireAt`).
    retention_days: float | None = None
    # Whether events of this view leave receipts. `Tally` needs them.
    receipts: bool = True
    # True: each event makes a document of its own, so an unknown document is assumed absent, not read.
    one_per_event: bool = False
    # How to adopt a document that another program wrote: the field(s) of its time, the latest counts, or a method
    # `adopt(self, document)` that returns its stamp, or None for a document that is not adopted.
    adopt: str | Sequence[str] | Callable[[Document], str | None] = ()
    # For a document that another program wrote and that is not adopted: its events become dead letters
    # (`unowned_document`), or, with "replace", the document is overwritten and begins anew.
    existing: str = ""
    # True: `ingestedAt`, the time of this process, is written. Comparisons ignore it.
    ingested_at: bool = False
    # True only if every value of its documents is representable by construction, as in the built-in views. The
    # documents of all other views are checked before they are sent.
    representable: bool = False

    def matches(self, payload: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """Whether a payload that names no topic belongs to this view, by its fields."""
        return False

    def wants(self, event: Event) -> bool:  # noqa: ARG002
        """False for an event this view has no document for (`filtered`). Called before the other methods."""
        return True

    def collection_of(self, event: Event) -> str:  # noqa: ARG002
        return self.collection

    def id_of(self, event: Event) -> str:
        """The document id, encoded for the store."""
        parts = self.key_of(event)
        if not (self.representable or type(self).key_of is View.key_of):
            check_parts(self, parts, single=self.has_single_key)
        return self.id_from(parts)

    def id_from(self, parts: Sequence[str]) -> str:
        """The document id of the parts of a key, encoded for the store."""
        return encode_name(*parts) if self.has_single_key else encode_id(*parts)

    @property
    def has_single_key(self) -> bool:
        if self.single_key is not None:
            return self.single_key
        one_name = isinstance(self.key, str) or len(self.key) == 1
        return one_name and type(self).key_of is View.key_of

    def key_of(self, event: Event) -> Sequence[str]:
        """The parts of the document id."""
        names = (self.key,) if isinstance(self.key, str) else self.key
        parts = [event.text(name) for name in names]
        missing = [name for name, part in zip(names, parts, strict=True) if part is None]
        if missing or not parts:
            raise InvalidEvent(f"{', '.join(missing) or 'the key'} is missing, which the document id needs")
        return [part for part in parts if part is not None]

    def time_of(self, event: Event) -> int | None:
        """The event's own order time in microseconds, or None to use publish time."""
        memo, names = event.memo, self.time
        if names not in memo:
            memo[names] = event.time(names) if isinstance(names, str) else event.time(*names)
        return memo[names]  # type: ignore[no-any-return]

    def identity_time_of(self, event: Event, own_time: int | None) -> int | None:  # noqa: ARG002
        """The time that distinguishes an event from a genuine repetition; None if it has no time of its own."""
        return own_time

    def sequence_of(self, event: Event) -> int | None:
        for name in (self.sequence,) if isinstance(self.sequence, str) else self.sequence:
            value = event.get(name)
            if value is not None:
                return parse_sequence(value, name)
        return None

    def late_time_of(self, event: Event, order_time: int) -> int:  # noqa: ARG002
        """The time that `late_after_s` applies to."""
        return order_time


class Latest(View):
    """The document is that of the event with the greatest stamp."""

    kind = "latest"

    def document(self, event: Event) -> Document | _DeleteType | None:  # noqa: ARG002
        """The whole document, `DELETE`, or None for an event this view does not want."""
        raise _not_defined(self, "document")


class Merge(View):
    """Each field has its value from the event with the greatest stamp among those that set it."""

    kind = "merge"

    def fields(self, event: Event) -> Document | None:  # noqa: ARG002
        """The fields this event sets, or None for an event this view does not want."""
        raise _not_defined(self, "fields")


class Tally(View):
    """The document is a fold that counts each logical event once. The fold must not depend on order."""

    kind = "tally"

    def fold(self, event: Event, current: Document) -> Document:  # noqa: ARG002
        """The document after `event`; `current` is empty for the first."""
        raise _not_defined(self, "fold")


# The method that each kind must define. Checked when views are loaded. Not with abc: its isinstance is slow.
METHOD_OF_KIND: Final = {"latest": "document", "merge": "fields", "tally": "fold"}


def _not_defined(view: View, method: str) -> TypeError:
    return TypeError(f"{type(view).__name__} must define {method}()")


def adopted_by(view: View, document: Document) -> str | None:
    """The stamp that the view adopts a document with: of its method, or of the fields it names."""
    adopt = view.adopt
    if callable(adopt):
        # A copy: the method may change its argument, and must not change the snapshot.
        return check_stamp(view, adopt(msgspec.msgpack.decode(msgspec.msgpack.encode(document), type=dict)))
    names = (adopt,) if isinstance(adopt, str) else adopt
    if not names:
        return None
    counters = (view.sequence,) if isinstance(view.sequence, str) else view.sequence
    stamp = adopted_stamp(
        document,
        names,
        max_future_skew=_FUTURE_SKEW_US,
        sequence=next((name for name in counters if document.get(name) is not None), None),
        sequence_first=view.sequence_first,
    )
    return None if stamp is None else view.stamp_prefix + stamp


def adopted_stamp(
    document: Document,
    times: Sequence[str],
    *,
    max_future_skew: int,
    sequence: str | None = None,
    sequence_first: bool = False,
) -> str | None:
    """The stamp of a document that an earlier consumer wrote: from the latest of `times`, clamped, and `source`."""
    source = document.get("source")
    source = source if isinstance(source, dict) else {}
    known = [us for us in (_as_us(document.get(name)) for name in times) if us is not None]
    published = _as_us(source.get("publishedAt"))
    if not known and published is None:
        return None
    event_time = max(known) if known else published
    assert event_time is not None  # noqa: S101 - narrowed by the lines above
    published = event_time if published is None else published
    rank = find_counter(document.get(sequence)) if sequence else None
    message_id = source.get("messageId")
    return encode_stamp(
        clamp_event_time(event_time, published, max_future_skew),
        rank,
        published,
        message_id if isinstance(message_id, str) else "",
        sequence_first=sequence_first,
    )


def _as_us(value: Any) -> int | None:
    try:
        found = timestamps.from_datetime(value) if hasattr(value, "tzinfo") else timestamps.parse(value, "time")
    except (InvalidEvent, TypeError):
        return None
    # A year like 1 or 9999 stands for "never" in other programs, and no stamp can hold it.
    return found if 0 <= found <= timestamps.LATEST_US else None
