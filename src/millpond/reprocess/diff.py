"""A stored document beside what the fold of the event log says it should be. Pure.

The fold can only judge what the log decided: where the log does not hold the event that decided a document, that
document is not checkable, and never called wrong.
"""

from __future__ import annotations

import enum

import msgspec

from millpond.core.document import same_value
from millpond.core.errors import ViewError
from millpond.core.model import Document
from millpond.core.stamp import StampParts, decode_stamp
from millpond.core.stored_stamps import stamp_and_key
from millpond.core.view import Merge, Tally, View

# Our clock, which takes part in no comparison.
_OWN_CLOCK = frozenset({"ingestedAt"})
_FIELDS_SHOWN_MAX = 20
_NO_VIEW = View()
_ABSENT = object()
# Sums of the same fractions in another order.
_SUMS_APART = 1e-9


class DifferenceKind(enum.StrEnum):
    """How a document differs from the fold."""

    MISSING = "missing"
    BEHIND = "behind"
    AHEAD = "ahead"
    DIFFERENT = "different"
    EXTRA = "extra"


MEANING = {
    DifferenceKind.MISSING: "the log makes it, and it is not there",
    DifferenceKind.BEHIND: "the log holds an event with a greater stamp",
    DifferenceKind.AHEAD: "its stamp is greater than any the log gives it now",
    DifferenceKind.DIFFERENT: "it was decided by the same event, and holds something else",
    DifferenceKind.EXTRA: "no event in the log makes it now",
}


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A document that is not what the log says, the stamps that decide, and the fields that differ."""

    doc: str
    view: str | None
    kind: DifferenceKind
    stored: str | None = None
    folded: str | None = None
    fields: list[str] = []


def differing_fields(view: View | None, stored: Document, folded: Document) -> list[str]:
    """The fields that differ.

    Of a tally, its source depends on which copy came first, and sums of fractions on the order they came in. Of a
    merged document, what no event has given was there before.
    """
    ignored = _OWN_CLOCK | ({"source"} if isinstance(view, Tally) else set())
    if _source_of(stored).get("order") != _source_of(folded).get("order"):
        # Written by a build that ordered them by another rule: that one's stamp is no fault.
        ignored |= {"source"}
    if isinstance(view, Merge):
        ignored |= unheld_fields(stored) - folded.keys()
        if _is_adopted(stored):
            ignored |= {"source"}
    tolerance = _SUMS_APART if isinstance(view, Tally) else 0.0
    names = sorted((stored.keys() | folded.keys()) - ignored)
    return [
        name for name in names if not same_value(stored.get(name, _ABSENT), folded.get(name, _ABSENT), tolerance)
    ]


def _is_adopted(merged: Document) -> bool:
    """Whether fields of a merged document stand under the stamp they were adopted with, not their events' own."""
    groups = _source_of(merged).get("stamps")
    return isinstance(groups, list) and any(
        isinstance(group, dict) and group.get("key") is None for group in groups
    )


def _source_of(document: Document) -> Document:
    source = document.get("source")
    return source if isinstance(source, dict) else {}


def unheld_fields(merged: Document) -> set[str]:
    """Fields of a merged document that no event gave: somebody else's, from before."""
    groups = _source_of(merged).get("stamps")
    if not isinstance(groups, list):
        return set()
    held = {name for group in groups if isinstance(group, dict) for name in group.get("fields") or ()}
    return merged.keys() - held - {"source", *_OWN_CLOCK}


def counted_events(tally: Document) -> int | None:
    """How many events a tally says it has counted."""
    events = _source_of(tally).get("events")
    return events if isinstance(events, int) else None


def compare(view: View | None, doc: str, stored: Document | None, folded: Document | None) -> Difference | None:
    """How the stored document differs from the fold; None where it does not."""
    if stored is None:
        if folded is None:
            return None
        return Difference(doc=doc, view=_name(view), kind=DifferenceKind.MISSING, folded=_stamp(view, folded))
    if folded is None:
        return Difference(doc=doc, view=_name(view), kind=DifferenceKind.EXTRA, stored=_stamp(view, stored))
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
    """The stamps a document carries: of a merged one, whichever hold a field. None where it is not one of ours."""
    source = stored.get("source")
    if not isinstance(source, dict):
        return []
    groups = source.get("stamps") if isinstance(view, Merge) else None
    try:
        stamps = [group["stamp"] for group in groups] if isinstance(groups, list) else [source["stamp"]]
        return [decode_stamp(stamp) for stamp in stamps]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _kind(view: View | None, stored: str | None, folded: str | None) -> DifferenceKind:
    if isinstance(view, Tally) or stored == folded:
        return DifferenceKind.DIFFERENT
    return DifferenceKind.BEHIND if (stored or "") < (folded or "") else DifferenceKind.AHEAD


def _stamp(view: View | None, document: Document) -> str | None:
    """The stamp it carries, or is adopted under. What a view cannot adopt has none."""
    try:
        return stamp_and_key(view or _NO_VIEW, document)[0]
    except ViewError:
        return None


def _name(view: View | None) -> str | None:
    return None if view is None else view.name
