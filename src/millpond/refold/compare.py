"""A stored document beside what the fold of the event log says it should be. Pure.

The fold can only judge what the log decided: where the log does not hold the event that decided a document, that
document is not checkable, and never called wrong.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from millpond import timestamps
from millpond.errors import ViewError
from millpond.model import Document
from millpond.plan import stamp_and_key
from millpond.stamp import StampParts, decode_stamp
from millpond.view import Merge, Tally, View

# Our clock, which takes part in no comparison.
_OWN_CLOCK = frozenset({"ingestedAt"})
_FIELDS_SHOWN_MAX = 20
_NO_VIEW = View()


class Kind(enum.StrEnum):
    """How a document differs from the fold."""

    MISSING = "missing"
    BEHIND = "behind"
    AHEAD = "ahead"
    DIFFERENT = "different"
    EXTRA = "extra"


MEANING = {
    Kind.MISSING: "the log makes it, and it is not there",
    Kind.BEHIND: "the log holds an event with a greater stamp",
    Kind.AHEAD: "its stamp is greater than any the log gives it now",
    Kind.DIFFERENT: "it was decided by the same event, and holds something else",
    Kind.EXTRA: "no event in the log makes it now",
}


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One document that is not what the log says. Stamps are those that decide; `fields` are those that differ."""

    doc: str
    view: str | None
    kind: Kind
    stored: str | None = None
    folded: str | None = None
    fields: list[str] = []


def is_expired(document: Document | None, now: int) -> bool:
    expires = (document or {}).get("expireAt")
    return expires is not None and hasattr(expires, "tzinfo") and timestamps.from_datetime(expires) <= now


def differing_fields(view: View | None, stored: Document, folded: Document) -> list[str]:
    """The fields that differ. Of a tally, its source depends on which copy came first, and says nothing."""
    ignored = _OWN_CLOCK | {"source"} if isinstance(view, Tally) else _OWN_CLOCK
    names = sorted(stored.keys() | folded.keys())
    return [name for name in names if name not in ignored and not _same(stored.get(name), folded.get(name))]


def compare(view: View | None, doc: str, stored: Document | None, folded: Document | None) -> Difference | None:
    """How the stored document differs from the fold; None where it does not."""
    if stored is None:
        if folded is None:
            return None
        return Difference(doc=doc, view=_name(view), kind=Kind.MISSING, folded=_stamp(view, folded))
    if folded is None:
        return Difference(doc=doc, view=_name(view), kind=Kind.EXTRA, stored=_stamp(view, stored))
    fields = differing_fields(view, stored, folded)
    if not fields:
        return None
    mine, theirs = _stamp(view, stored), _stamp(view, folded)
    return Difference(
        doc=doc,
        view=_name(view),
        kind=_kind(view, mine, theirs),
        stored=mine,
        folded=theirs,
        fields=fields[:_FIELDS_SHOWN_MAX],
    )


def deciding_stamps(view: View | None, stored: Document) -> list[StampParts]:
    """The stamps a document says it was made from: of a merged one, whichever hold a field. None, if in doubt."""
    source = stored.get("source")
    groups = source.get("stamps") if isinstance(source, dict) and isinstance(view, Merge) else None
    try:
        stamps = [group["stamp"] for group in groups] if isinstance(groups, list) else [_stamp(view, stored)]
        return [decode_stamp(stamp) for stamp in stamps if stamp is not None]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _kind(view: View | None, stored: str | None, folded: str | None) -> Kind:
    if isinstance(view, Tally) or stored == folded:
        return Kind.DIFFERENT
    return Kind.BEHIND if (stored or "") < (folded or "") else Kind.AHEAD


def _stamp(view: View | None, document: Document) -> str | None:
    """The stamp it carries, or is adopted under. What a view cannot adopt has none."""
    try:
        return stamp_and_key(view or _NO_VIEW, document)[0]
    except ViewError:
        return None


def _name(view: View | None) -> str | None:
    return None if view is None else view.name


def _same(one: Any, other: Any) -> bool:
    """Equal in value and in type: 1, 1.0 and true are three things in a document. NaN is itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or (one != one and other != other)  # noqa: PLR0124 - NaN
