"""A preview of a replay says what the replay then does, and writes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from millpond import Event, Merge
from millpond.core.collections import LETTERS
from millpond.core.model import Delivery, Document, Ref
from millpond.reprocess.preview import Preview, preview_letters
from tests.common.pond import at, delivery
from tests.reprocess.folding import Works


class Notes(Merge):
    topics = ("notes",)
    collection = "notes"
    key = "note"
    time = "at"
    mended = False

    def fields(self, event: Event) -> Document:
        if not self.mended:
            event.require("never sent")
        return {name: value for name, value in event.payload.items() if name.startswith("text")}


def note(message_id: str, at_s: float, name: str = "n", **texts: str) -> Delivery:
    return delivery({"topic": "notes", "note": name, "at": at(at_s), **texts}, message_id, at_s)


async def buried(works: Works, *deliveries: Delivery) -> list[str]:
    """The letters of these, in their order, with the view mended since."""
    for view in works.router.views:
        view.mended = False  # type: ignore[attr-defined]
    await works.take(*deliveries)
    for view in works.router.views:
        view.mended = True  # type: ignore[attr-defined]
    return [f"s__{sent.message_id}" for sent in deliveries]


async def previewed(works: Works, letters: list[str]) -> tuple[list[Any], dict[str, Document]]:
    preview = Preview(works.store, works.router, works.receipts)
    before = await works.store.collections()
    told = await preview_letters(preview, works.letters, letters, works.now)
    assert await works.store.collections() == before
    return told, {change.doc: change.after for change in preview.changes()}


async def replayed(works: Works, letters: list[str]) -> list[Any]:
    results = []
    for letter_id in letters:
        send = lambda found, views: works.engine.handle(found, replay=True, only=views)  # noqa: E731 - read in one glance
        results.append(await works.letters.replay(Ref(LETTERS, letter_id), send))
    return [str(result.outcome) for result in results if result is not None]


@pytest.mark.parametrize(
    "sent",
    [
        [note("1", 1, text1="a"), note("2", 2, text1="b"), note("3", 0, text2="c")],
        [note("1", 2, text1="a"), note("2", 1, text1="b")],
        [note("1", 1, "one", text1="a"), note("2", 2, "two", text1="b")],
        [note("1", 1, text1="x" * 600_000), note("2", 2, text2="y" * 600_000), note("3", 3, text1="z")],
    ],
    ids=["fields", "stale", "two documents", "too big together"],
)
async def test_the_replay_does_what_the_preview_said(sent: list[Delivery]) -> None:
    """One after the other, each on top of those before it; also where a document cannot hold them all."""
    async with Works([Notes()]) as works:
        letters = await buried(works, *sent)
        told, changes = await previewed(works, letters)
        assert [answer.outcome for answer in told] == await replayed(works, letters)
        for path, after in changes.items():
            assert await works.document(path) == after
        stored = await works.store.list_documents("notes", 10, None)
        assert {found.ref.path for found in stored} == changes.keys()


async def test_a_letter_named_twice_is_told_once_and_one_that_is_gone_is_said_to_be() -> None:
    async with Works([Notes()]) as works:
        (letter,) = await buried(works, note("1", 1, text1="a"))
        told, _ = await previewed(works, [letter, letter, "s__gone"])
        assert [(answer.id, answer.outcome) for answer in told] == [
            (letter, "applied"),
            ("s__gone", "not_found"),
        ]
