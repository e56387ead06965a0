"""What a replay would change: letters routed and planned as in a replay, beside the store as it is.

Nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from millpond.letters.describe import replay_answer, untried_answer
from millpond.letters.in_store import COLLECTION, StoredLetters
from millpond.model import Delivery, Document, Outcome, Put, Ref, Result, Snapshot
from millpond.plan import plan, refs_of
from millpond.ports import Store
from millpond.receipts import Receipts
from millpond.route import RECEIPT_COLLECTION, Item, Router


class Change(msgspec.Struct, frozen=True):
    """A document as it is, and as it would be."""

    doc: str
    before: Document | None
    after: Document


class Preview:
    """Replays in thought, one after the other: each sees what those before it would have done."""

    def __init__(self, store: Store, router: Router, receipts: Receipts) -> None:
        self._store = store
        self._router = router
        self._receipts = receipts
        self._before: dict[Ref, Snapshot] = {}
        self._after: dict[Ref, Snapshot] = {}

    async def replay(self, letters: Sequence[tuple[str, Delivery]], now: int) -> list[dict[str, Any]]:
        """What would become of each letter, in the words of a replay's answer."""
        items = [self._router.route(delivery, now, replay=True) for _, delivery in letters]
        fine = [item for item in items if item.fault is None]
        snapshots = await self._look(fine)
        planned = plan(fine, snapshots, now, self._receipts)
        for write in planned.writes:
            if isinstance(write, Put):
                self._after[write.ref] = Snapshot(write.ref, write.base, write.data)
        results = iter(planned.results)
        answers = []
        for (letter_id, _), item in zip(letters, items, strict=True):
            result = next(results) if item.fault is None else _buried_again(item, item.fault)
            if result.error is not None and item.fault is None:
                result = _buried_again(item, result.error)
            answers.append(replay_answer(letter_id, result))
        return answers

    def changes(self) -> list[Change]:
        """Every document that would be written, as it is and as it would be."""
        return [
            Change(ref.path, self._before[ref].data, after.data)
            for ref, after in sorted(self._after.items())
            if ref.collection != RECEIPT_COLLECTION and after.data is not None
        ]

    async def _look(self, items: Sequence[Item]) -> dict[Ref, Snapshot]:
        refs = list({ref: None for item in items for ref in refs_of(item)[0]})
        unknown = [ref for ref in refs if ref not in self._before]
        self._before.update((found.ref, found) for found in await self._store.read(unknown))
        return {ref: self._after.get(ref) or self._before[ref] for ref in refs}


async def preview_letters(
    preview: Preview, letters: StoredLetters, letter_ids: Sequence[str], now: int
) -> list[dict[str, Any]]:
    """What would become of each, in this order; `not_found` where there is no such letter."""
    opened: list[tuple[str, Delivery]] = []
    told: dict[str, dict[str, Any]] = {}
    for letter_id in letter_ids:
        found = await letters.open_letter(Ref(COLLECTION, letter_id))
        if found is None:
            told[letter_id] = untried_answer(letter_id, "not_found", "not_found", f"there is no letter {letter_id}")
        else:
            opened.append((letter_id, found[1]))
    told.update((answer["id"], answer) for answer in await preview.replay(opened, now))
    return [told[letter_id] for letter_id in dict.fromkeys(letter_ids)]


def _buried_again(item: Item, error: BaseException) -> Result:
    """A replay that cannot succeed leaves its letter where it is."""
    reason = getattr(error, "reason", "poison")
    return Result(Outcome.POISON, reason, item.topic, error=error, event=item.event, buried=True)
