"""Plans the move of a document from the escaped id of an earlier build to its current id. Pure.

A view whose key is one part keeps ids as they are (`strat__SPY__1`); earlier builds escaped them
(`strat_%5FSPY_%5F1`). New events go to the new id, so both ids may hold a document. Called by `move_ids`, which
finds the documents and commits the writes.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from millpond.core.errors import UnownedDocument, ViewError
from millpond.core.ids import unescaped_id
from millpond.core.model import Delete, Document, Put, Ref, Snapshot, Write
from millpond.core.stored_stamps import field_holders, merged_source, owned, stamp_and_key
from millpond.core.view import Merge, Tally, View


class Moved(enum.StrEnum):
    """What became of a document under an old id."""

    # The new id was free.
    MOVED = "moved"
    # Both ids held a document: the one under the old id was newer and replaced the other.
    REPLACED = "replaced"
    # Both ids held a document: the one under the new id was newer, and the other was deleted.
    SUPERSEDED = "superseded"
    # Both ids held a document: each field is that of the greater stamp.
    MERGED = "merged"
    # Nothing was written: an operator has to decide.
    LEFT = "left"
    # There is no document under the old id: another run moved it, or it expired.
    GONE = "gone"


class Move(NamedTuple):
    """The writes for one document, for one commit. `why` is given only if the document is left."""

    outcome: Moved
    writes: list[Write]
    why: str = ""


def new_place(view: View, old: Ref) -> Ref | None:
    """The current reference of a document of the view; None if it has that already."""
    new_id = unescaped_id(old.id) if view.has_single_key else None
    return None if new_id is None else Ref(old.collection, new_id)


def plan_move(view: View, old: Snapshot, new: Snapshot) -> Move:
    """Takes both documents as they were read. The writes are valid only while neither has changed."""
    if old.data is None or old.version is None:
        return Move(Moved.GONE, [])
    try:
        for one in (old, new):
            owned(view, one.data, one.ref.path)
    except (UnownedDocument, ViewError) as error:
        return Move(Moved.LEFT, [], str(error))
    if new.data is None:
        return _writing(Moved.MOVED, old, new, old.data)
    if isinstance(view, Tally):
        way_out = f"millpond rebuild {view.name} counts anew under the new id, and leaves this one"
        return Move(Moved.LEFT, [], f"two counts cannot be made one: {way_out}")
    try:
        return _plan_both(view, old, old.data, new, new.data)
    except ViewError as error:
        return Move(Moved.LEFT, [], str(error))


def _plan_both(view: View, old: Snapshot, old_data: Document, new: Snapshot, new_data: Document) -> Move:
    old_stamp, new_stamp = stamp_and_key(view, old_data)[0], stamp_and_key(view, new_data)[0]
    old_is_newer = (old_stamp or "") > (new_stamp or "")
    if isinstance(view, Merge):
        newest, other = (old_data, new_data) if old_is_newer else (new_data, old_data)
        return _writing(Moved.MERGED, old, new, _merged(view, newest, other))
    if old_is_newer:
        return _writing(Moved.REPLACED, old, new, old_data)
    # Written again unchanged, for its precondition: if another writer deletes it, the old one must stay.
    return _writing(Moved.SUPERSEDED, old, new, new_data)


def _merged(view: View, newest: Document, other: Document) -> Document:
    """Each field from the document with its greater stamp. Fields that no event gave are the newest document's."""
    document = {**other, **newest}
    holders = field_holders(view, newest)
    for name, holder in field_holders(view, other).items():
        if name not in holders or holder["stamp"] > holders[name]["stamp"]:
            holders[name] = holder
            if name in other:
                document[name] = other[name]
    document["source"] = merged_source(view, newest.get("source"), stamp_and_key(view, newest)[0], holders)
    return document


def _writing(outcome: Moved, old: Snapshot, new: Snapshot, document: Document) -> Move:
    assert old.version is not None  # noqa: S101 - the old document is there
    if document.get("docId") == old.ref.id:
        document = {**document, "docId": new.ref.id}
    return Move(outcome, [Put(new.ref, new.version, document), Delete(old.ref, old.version)])
