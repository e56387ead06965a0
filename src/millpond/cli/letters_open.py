"""Opens one dead letter for a command: the letter, its delivery, and its payload as text. Never writes."""

from __future__ import annotations

from typing import NamedTuple

from millpond.cli.store import open_for_reading
from millpond.core.collections import LETTERS
from millpond.core.model import Delivery, Ref, Snapshot
from millpond.dead_letters.store import StoredLetters
from millpond.settings import Settings


class Opened(NamedTuple):
    snapshot: Snapshot
    delivery: Delivery


async def open_letter(settings: Settings, letter_id: str) -> Opened | None:
    async with open_for_reading(settings) as store:
        letters = StoredLetters(store, keep=0, wall_clock=lambda: 0)
        opened = await letters.open_letter(Ref(LETTERS, letter_id))
        return None if opened is None else Opened(*opened)


def payload_texts(delivery: Delivery) -> tuple[str, str | None]:
    """(the payload that a replay sends, the payload as it arrived if that is another one)."""
    arrived = (delivery.data or b"").decode("utf-8", "replace")
    if delivery.correction is None:
        return arrived, None
    return delivery.correction.decode("utf-8", "replace"), arrived
