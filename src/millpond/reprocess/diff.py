"""Compares a stored document with the fold of the event log. Pure. Called by `report`, `rebuild` and the CLI.

The fold can only judge what the log decided. If the log does not hold the event that decided a document, that
document is not checkable, and is never reported as wrong.
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

# Set from our own clock, so it is never compared.
_OWN_CLOCK = frozenset({"ingestedAt"})
_FIELDS_SHOWN_MAX = 20
_NO_VIEW = View()
_ABSENT = object()
# Relative tolerance, for sums of the same fractions in another order.
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

    A tally's `source` depends on which copy arrived first, and its sums of fractions on the order of arrival.
    Fields of a merged document that no event gave are older than its events, and are not compared.
    """
    ignored = _OWN_CLOCK | ({"source"} if isinstance(view, Tally) else set())
    if _source_of(stored).get("order") != _source_of(folded).get("order"):
        # Written by a build with another order rule: its other stamp is not a fault.
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
    """Whether fields of a merged document have the stamp of their adoption, not that of an event."""
    groups = _source_of(merged).get("stamps")
    return isinstance(groups, list) and any(
        isinstance(group, dict) and group.get("key") is None for group in groups
    )


def _source_of(document: Document) -> Document:
    source = document.get("source")
    return source if isinstance(source, dict) else {}


def unheld_fields(merged: Document) -> set[str]:
    """Fields of a merged document that no event gave: another writer stored them before."""
    groups = _source_of(merged).get("stamps")
    if not isinstance(groups, list):
        return set()
    held = {name for group in groups if isinstance(group, dict) for name in group.get("fields") or ()}
    return merged.keys() - held - {"source", *_OWN_CLOCK}


def counted_events(tally: Document) -> int | None:
    """How many events a tally has counted, by its own record; None if it has none."""
    events = _source_of(tally).get("events")
    return events if isinstance(events, int) else None


def compare(view: View | None, doc: str, stored: Document | None, folded: Document | None) -> Difference | None:
    """How the stored document differs from the fold; None if it does not."""
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
    """The stamps of a document; of a merged one, each that holds a field. Empty if Millpond did not write it."""
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
    """The document's stamp, or that of its adoption; None if the view cannot adopt it."""
    try:
        return stamp_and_key(view or _NO_VIEW, document)[0]
    except ViewError:
        return None


def _name(view: View | None) -> str | None:
    return None if view is None else view.name
