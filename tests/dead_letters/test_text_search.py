"""A search through letters ends at each of its bounds, says where, and reads every payload that there is."""

from __future__ import annotations

import zlib
from itertools import count
from typing import Any

import msgspec
import pytest

from millpond.core.collections import LETTERS
from millpond.core.model import Delivery, Put, Ref
from millpond.dead_letters.text_search import SearchLimits, TextSearch, find_text
from millpond.stores.memory import MemoryStore

LETTER_BYTES = 1_000


async def bury(store: MemoryStore, name: str, text: str = "hay", **more: Any) -> None:
    data = text.encode().ljust(LETTER_BYTES)
    delivery = Delivery(message_id=name, publish_time=0, data=data, attributes={}, subscription="s")
    packed = zlib.compress(msgspec.msgpack.encode(delivery))
    letter = {"messageId": name, "reason": "poor", "size": len(data), "delivery": packed, "parts": [], **more}
    await store.commit([Put(Ref(LETTERS, name), None, letter)])


async def filled(letters: int) -> MemoryStore:
    store = MemoryStore()
    for number in range(letters):
        await bury(store, f"l{number:03d}", "a needle" if number == letters - 1 else "hay")
    return store


async def searched(store: MemoryStore, limits: SearchLimits, **more: Any) -> list[TextSearch]:
    """Every step of a search."""
    steps = [await find_text(store, "Needle", None, limits, **more)]
    while steps[-1].position is not None:
        steps.append(await find_text(store, "Needle", steps[-1].position, limits, **more))
        assert len(steps) < 100, "the search does not end"
    return steps


@pytest.mark.parametrize(
    ("limits", "scanned"),
    [
        (SearchLimits(), [60]),
        (SearchLimits(letters=25), [25, 25, 10]),
        (SearchLimits(payload_bytes=40 * LETTER_BYTES), [40, 20]),
        (SearchLimits(payload_bytes=LETTER_BYTES), [1] * 60),
    ],
)
async def test_a_search_ends_at_its_bounds_and_goes_on(limits: SearchLimits, scanned: list[int]) -> None:
    """Each letter is looked at once, and the one that holds the text is found at last."""
    steps = await searched(await filled(60), limits)
    assert [step.scanned for step in steps] == scanned
    assert [found.letter.ref.id for step in steps for found in step.found] == ["l059"]


async def test_a_search_ends_after_its_time() -> None:
    """With at least one letter looked at."""
    ticks = count()
    steps = await searched(await filled(9), SearchLimits(seconds=2.0), clock=lambda: float(next(ticks)))
    assert [step.scanned for step in steps][:2] == [2, 2]
    assert sum(step.scanned for step in steps) == 9


async def test_a_letter_over_the_bound_is_told_and_passed_over() -> None:
    """Its fields are looked at all the same."""
    limits = SearchLimits(payload_bytes=LETTER_BYTES - 1)
    (step,) = await searched(await filled(3), limits)
    assert (step.found, step.scanned, step.unopened) == ([], 3, 3)


@pytest.mark.parametrize(
    "damaged",
    [
        {"delivery": b"no zlib"},
        {"delivery": zlib.compress(b"no map")},
        {"delivery": None},
        {"refusals": ["of another program"]},
    ],
)
async def test_a_damaged_letter_hides_no_other(damaged: dict[str, Any]) -> None:
    store = await filled(2)
    await bury(store, "l000a", **damaged)
    (step,) = await searched(store, SearchLimits())
    assert ([found.letter.ref.id for found in step.found], step.scanned, step.unopened) == (["l001"], 3, 1)


async def test_a_corrected_payload_is_searched_too() -> None:
    store = await filled(1)
    await bury(store, "m", correction="x-edit")
    part = {"data": zlib.compress(b'{"now": "NEEDLE"}')}
    await store.commit([Put(Ref(f"{LETTERS}/m/parts", "x-edit"), None, part)])
    (step,) = await searched(store, SearchLimits())
    assert [(found.letter.ref.id, found.field) for found in step.found] == [
        ("l000", "payload"),
        ("m", "corrected payload"),
    ]


async def test_an_excerpt_shows_the_text_where_folding_changes_its_length() -> None:
    """A sharp s becomes two letters when case is ignored."""
    store = MemoryStore()
    await bury(store, "m", reason="ß" * 500 + " Needle here")
    (step,) = await searched(store, SearchLimits())
    assert "Needle" in step.found[0].excerpt
