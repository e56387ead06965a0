"""Checks whether documents have ids that an earlier build escaped. Reads ids only, up to a limit per collection.

Moving them is `millpond move-ids`. Called by the checks of the stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from millpond.core.view import View
from millpond.doctor.findings import Finding, fine, warning
from millpond.reprocess.move_ids import Listing, OldDocument, collections_of, old_documents, pages

CHECK = "ids"
_EXAMPLES = 3


class Looked(NamedTuple):
    """The old ids of one collection. `whole`: all of its documents were checked."""

    view: View
    collection: str
    documents: int
    old: Sequence[OldDocument]
    whole: bool


async def check_ids(listing: Listing, views: Iterable[View], most: int) -> list[Finding]:
    """`most`: how many documents of each collection are checked."""
    looked = [
        await _look(listing, view, collection, most)
        for view in views
        if view.has_single_key
        for collection in await collections_of(listing, view)
    ]
    return judge_ids(looked)


async def _look(listing: Listing, view: View, collection: str, most: int) -> Looked:
    documents, old = 0, []
    # One more than is checked shows whether there are more.
    async for page in pages(listing, collection, most + 1):
        old += old_documents(view, page[: most - documents])
        documents += len(page)
    return Looked(view, collection, min(documents, most), old, documents <= most)


def judge_ids(looked: Sequence[Looked]) -> list[Finding]:
    if not looked:
        return []
    found = [_old_ids(one) for one in looked if one.old]
    if found:
        return found
    text = f"{sum(one.documents for one in looked):,} documents of {_counted(len(looked), 'collection')} looked at"
    none = fine(CHECK, f"no document lies under an id that an earlier build escaped: {text}")
    partly = [f"of {one.collection} only its first {one.documents:,}" for one in looked if not one.whole]
    if not partly:
        return [none]
    advice = "millpond move-ids --dry-run looks at all of them"
    return [none._replace(found=f"{none.found} ({', '.join(partly)})", advice=advice)]


def _old_ids(looked: Looked) -> Finding:
    examples = ", ".join(f"{found.old.id} → {found.new.id}" for found in looked.old[:_EXAMPLES])
    count = len(looked.old)
    examples += ", …" if count > _EXAMPLES else ""
    lie = "lies under an id" if count == 1 else "lie under ids"
    where = "" if looked.whole else f" among its first {looked.documents:,} documents, more were not looked at"
    text = (
        f"{looked.collection}: {_counted(count, 'document')} {lie} that an earlier build escaped{where}: {examples}"
    )
    command = f"millpond move-ids --view {looked.view.name}"
    return warning(CHECK, text, f"{command}; until then new events go to a second document, under the new id")


def _counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
