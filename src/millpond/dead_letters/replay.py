"""Replays: sends the message of a letter through the engine again, as it arrived or as it was corrected.

Called by the API and the CLI.
"""

from __future__ import annotations

import time

from millpond.core.ack import settle_replay
from millpond.core.collections import LETTERS
from millpond.core.model import Delivery, Ref, Result
from millpond.dead_letters.store import StoredLetters
from millpond.engine.engine import Engine
from millpond.engine.pace import Pace, take_turn
from millpond.live.outcomes import Outcomes


class Replays:
    def __init__(
        self, engine: Engine, letters: StoredLetters, outcomes: Outcomes, pace: Pace | None = None
    ) -> None:
        self._engine = engine
        self._letters = letters
        self._outcomes = outcomes
        self._pace = pace

    async def replay_letter(self, letter_id: str) -> Result | None:
        """Send a letter's message through the engine again; None if there is no such letter."""
        async with take_turn(self._pace):
            return await self._letters.replay(Ref(LETTERS, letter_id), self._replay)

    async def replay_delivery(self, delivery: Delivery, only: frozenset[str] | None = None) -> Result:
        """Send a message through the engine that its source keeps until this succeeds, so it is never buried."""
        async with take_turn(self._pace):
            return await self._replay(delivery, only, bury=False)

    async def _replay(self, delivery: Delivery, only: frozenset[str] | None, *, bury: bool = True) -> Result:
        began = time.perf_counter()
        result = await self._engine.handle(delivery, replay=True, bury=bury, only=only)
        self._outcomes.publish(delivery, result, settle_replay(result), time.perf_counter() - began, counts=False)
        return result
