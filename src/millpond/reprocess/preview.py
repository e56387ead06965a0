"""Previews a replay: routes and plans letters as a replay does, on the store as it is.

Never writes. Called by the service and by `dlq replay --dry-run`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from millpond.core.collections import LETTERS, RECEIPTS
from millpond.core.document import encode_document
from millpond.core.errors import WriteRefused, allow_details, gravest
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Delivery, Document, Outcome, Put, Ref, Result, Snapshot
from millpond.core.plan import needs_of, plan
from millpond.core.ports import Store
from millpond.core.receipts import Receipts
from millpond.core.route import Router
from millpond.dead_letters.describe import ReplayAnswer, ReplayResult, replay_answer, untried_answer
from millpond.dead_letters.store import StoredLetters, views_of


class DocumentChange(msgspec.Struct, frozen=True):
    """A document as it is, and as it would be."""

    doc: str
    before: Document | None
    after: Document


class ReplayPreview(msgspec.Struct, frozen=True):
    """What replaying the letters, in their order, would lead to, and the documents it would write."""

    letters: list[ReplayResult]
    changes: list[DocumentChange]


class Preview:
    """Plans replays one after the other: each sees what those before it would have written."""

    def __init__(
        self, store: Store, router: Router, receipts: Receipts, *, view_errors_in_full: bool = False
    ) -> None:
        self._store = store
        self._router = router
        self._receipts = receipts
        self._view_errors_in_full = view_errors_in_full
        self._before: dict[Ref, Snapshot] = {}
        self._after: dict[Ref, Snapshot] = {}

    async def replay(
        self, letter_id: str, delivery: Delivery, views: frozenset[str] | None, now: int
    ) -> ReplayAnswer:
        """What would become of a letter, in the form of a replay's answer. `views` are those it asks; None: all."""
        item = self._router.route(delivery, now, replay=True, only=views)
        await self._read(item)
        result = self._replay(item, now)
        allow_details(result.faults, in_full=self._view_errors_in_full)
        return replay_answer(letter_id, result)

    def _replay(self, item: Item, now: int) -> Result:
        if not item.targets:
            return _buried_again(item)
        snapshots = {ref: self._after.get(ref) or self._before[ref] for ref in needs_of(item).all}
        planned = plan([item], snapshots, now, self._receipts)
        puts = [write for write in planned.writes if isinstance(write, Put)]
        for put in puts:
            try:
                encode_document(put.ref, put.data, checked=put.checked)
            except WriteRefused as refusal:
                return self._replay(_without(item, put.ref, refusal), now)
        self._after.update((put.ref, Snapshot(put.ref, put.base, put.data)) for put in puts)
        (result,) = planned.results
        if not result.faults:
            return result
        taken = [view for view in result.views if view.outcome is not Outcome.POISON]
        return _buried_again(msgspec.structs.replace(item, committed=taken, faults=list(result.faults)))

    def changes(self) -> list[DocumentChange]:
        """Every document that would be written, as it is and as it would be."""
        return [
            DocumentChange(ref.path, self._before[ref].data, after.data)
            for ref, after in sorted(self._after.items())
            if ref.collection != RECEIPTS and after.data is not None
        ]

    async def _read(self, item: Item) -> None:
        unknown = [ref for ref in needs_of(item).all if ref not in self._before]
        if unknown:
            self._before.update((found.ref, found) for found in await self._store.read(unknown))


async def preview_letters(
    preview: Preview, letters: StoredLetters, letter_ids: Sequence[str], now: int
) -> list[ReplayResult]:
    """What would become of each, in this order; `not_found` if there is no such letter.

    Letters are opened one after the other, so that a hundred of ten megabytes are never in memory together.
    """
    answers: list[ReplayResult] = []
    for letter_id in dict.fromkeys(letter_ids):
        found = await letters.open_letter(Ref(LETTERS, letter_id))
        if found is None:
            text = f"there is no letter {letter_id}"
            answers.append(untried_answer(letter_id, "not_found", "not_found", text))
        else:
            letter, delivery = found
            answers.append(await preview.replay(letter_id, delivery, views_of(letter), now))
    return answers


def _without(item: Item, ref: Ref, refusal: WriteRefused) -> Item:
    """The item without the view that writes this document: the store would refuse the write."""
    targets = [target for target in item.targets if target.ref != ref]
    refusal.view = next((target.view.name for target in item.targets if target.ref == ref), None)
    return msgspec.structs.replace(item, targets=targets, faults=[*item.faults, refusal])


def _buried_again(item: Item) -> Result:
    """The result of a replay that does not succeed in every view: the letter stays."""
    return item.buried(DeadLetter(None, None, gravest(item.faults).reason))
