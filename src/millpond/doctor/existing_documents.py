"""Checks whether collections of the loaded views hold documents that another program wrote.

Such a document has no stamp. Its view adopts it, replaces it, or does not touch it (docs/cutover.md). Reads up to a
limit per collection. Called by the checks of the stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from millpond.core.errors import UnownedDocument, ViewError
from millpond.core.model import Snapshot
from millpond.core.stamp import decode_stamp
from millpond.core.stored_stamps import is_stamped, owned, stamp_and_key
from millpond.core.view import View
from millpond.doctor.findings import Finding, fine, warning
from millpond.reprocess.move_ids import Listing, collections_of, pages

CHECK = "documents"
_LEFT_ALONE = (
    'name the field of their time in the view (adopt = "updatedAt") or overwrite them (existing = "replace"), then '
    "replay the letters: docs/cutover.md"
)


class ForeignDocuments(NamedTuple):
    """The documents of one collection that another program wrote, by what the view does with them."""

    view: View
    collection: str
    documents: int
    whole: bool
    left_alone: list[str]
    adopted: list[str]
    # Adopted with a time after now: no event before that time changes them.
    frozen: list[str]


async def check_existing(listing: Listing, views: Iterable[View], most: int, now: int) -> list[Finding]:
    """`most`: how many documents of each collection are read."""
    found = [
        await _look(listing, view, collection, most, now)
        for view in views
        for collection in await collections_of(listing, view)
    ]
    findings = [finding for one in found for finding in _judge(one)]
    if findings or not found:
        return findings
    documents = sum(one.documents for one in found)
    return [fine(CHECK, f"Millpond wrote all documents of the loaded views: {documents:,} looked at")]


async def _look(listing: Listing, view: View, collection: str, most: int, now: int) -> ForeignDocuments:
    found = ForeignDocuments(view, collection, 0, whole=True, left_alone=[], adopted=[], frozen=[])
    documents = 0
    async for page in pages(listing, collection, most + 1):
        for snapshot in page[: most - documents]:
            _sort(found, snapshot, now)
        documents += len(page)
    return found._replace(documents=min(documents, most), whole=documents <= most)


def _sort(found: ForeignDocuments, snapshot: Snapshot, now: int) -> None:
    document, path = snapshot.data, snapshot.ref.path
    if document is None or is_stamped(document):
        return
    try:
        if owned(found.view, document, path) is None:
            # The view replaces it, and says so.
            return
        stamp, _ = stamp_and_key(found.view, document)
    except (UnownedDocument, ViewError):
        found.left_alone.append(path)
        return
    is_ahead = stamp is not None and decode_stamp(stamp).event_time > now
    (found.frozen if is_ahead else found.adopted).append(path)


def _judge(found: ForeignDocuments) -> list[Finding]:
    seen = "" if found.whole else f" among the first {found.documents:,}, more were not looked at"
    findings = []
    if found.left_alone:
        what = f"{_counted(found.left_alone)} of {found.collection} written by another program{seen}"
        text = f"{what}, which the view {found.view.name} does not adopt: their events become dead letters"
        findings.append(warning(CHECK, f"{text} ({_examples(found.left_alone)})", _LEFT_ALONE))
    if found.frozen:
        text = f"{_counted(found.frozen)} of {found.collection} adopted with a time in the future{seen}"
        advice = "correct the time in the document: until then every event is older, and changes nothing"
        findings.append(warning(CHECK, f"{text} ({_examples(found.frozen)})", advice))
    if found.adopted:
        text = f"{_counted(found.adopted)} of {found.collection} written by another program{seen}, and adopted"
        findings.append(fine(CHECK, text))
    return findings


def _counted(paths: list[str]) -> str:
    return "1 document" if len(paths) == 1 else f"{len(paths):,} documents"


def _examples(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (", …" if len(paths) > 3 else "")
