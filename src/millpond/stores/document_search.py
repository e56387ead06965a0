"""Finds documents by an id, by the beginning of one, or by a path. Reads only. Called by the API's search.

People type `spy` for `SPY`, and `eu/api` for an id that holds `eu%2Fapi`: each form is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from millpond.concurrency import raise_first, run_all
from millpond.core.document import check_ref
from millpond.core.errors import InvalidEvent, WriteRefused
from millpond.core.ids import encode_name
from millpond.core.model import Ref, Snapshot
from millpond.core.ports import StoreWithCatalog

# Ids that begin with the text, from each collection.
_EACH = 5
_AT_ONCE = 8
# What ids never hold unescaped (`core.ids`). Underscores are escaped at the end of a part; a beginning has none.
_ESCAPED = re.compile(r"[%/\x00]")


class FoundRefs(NamedTuple):
    """`exact` have the text as their id. `beginning` continue it; `more` if some were left out."""

    exact: list[Ref]
    beginning: list[Ref]
    more: bool


async def find_documents(store: StoreWithCatalog, collections: Sequence[str], text: str) -> FoundRefs:
    """Documents of these collections whose id is the text or begins with it; or the one with that path."""
    refs = _legal([Ref(*path)] if (path := _split(text)) else [])
    refs += _legal(Ref(collection, form) for collection in collections for form in _whole(text))
    exact = [snapshot.ref for snapshot in await store.read(list(dict.fromkeys(refs))) if snapshot.data is not None]

    async def following(ref: Ref) -> list[Snapshot]:
        return await store.list_documents(ref.collection, _EACH + 1, ref.id)

    # The ids that follow a text are first of all those that begin with it.
    beginnings = _legal(Ref(collection, form) for collection in collections for form in _beginnings(text))
    pages = await run_all(following, beginnings, _AT_ONCE)
    raise_first(pages)
    found: dict[Ref, None] = {}
    more = False
    for ref, page in zip(beginnings, pages, strict=True):
        continued = [one.ref for one in page if one.ref.id.startswith(ref.id)] if isinstance(page, list) else []
        more = more or len(continued) > _EACH
        found.update(dict.fromkeys(continued[:_EACH]))
    return FoundRefs(exact, [ref for ref in found if ref not in exact], more)


def _split(text: str) -> tuple[str, str] | None:
    collection, slash, key = text.rpartition("/")
    return (collection, key) if slash else None


def _whole(text: str) -> list[str]:
    forms = [text, text.upper()]
    try:
        forms += [encode_name(form) for form in forms]
    except InvalidEvent:
        # It is too long to be an id.
        return []
    return list(dict.fromkeys(forms))


def _beginnings(text: str) -> list[str]:
    forms = [text, text.upper()]
    escaped = [_ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", form) for form in forms]
    return list(dict.fromkeys([*forms, *escaped]))


def _legal(refs: Iterable[Ref]) -> list[Ref]:
    """Without those that no store accepts; Firestore refuses to look for them."""
    found = []
    for ref in refs:
        try:
            check_ref(ref)
        except WriteRefused:
            continue
        found.append(ref)
    return found
