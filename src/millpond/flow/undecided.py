"""Our claims whose commit outcome is unknown: when their event comes again, the token says that a claim is ours.

Bounded in both directions. A claim that is forgotten costs a wait until its lease is over, and nothing else.
"""

from __future__ import annotations

STEPS_MAX = 1_000
# Of one step: deliveries of one event that were undecided one after the other.
TOKENS_MAX = 50


class UndecidedClaims:
    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def take(self, run_id: str, step_id: str) -> tuple[str, ...]:
        """The tokens of a step, oldest first. They are taken out: no two deliveries go on with the same claim."""
        return self._tokens.pop((run_id, step_id), ())

    def remember(self, run_id: str, step_id: str, tokens: tuple[str, ...]) -> None:
        kept = (*self.take(run_id, step_id), *tokens)
        self._tokens[run_id, step_id] = kept[-TOKENS_MAX:]
        if len(self._tokens) > STEPS_MAX:
            # The oldest: its event went elsewhere, or will not come again.
            del self._tokens[next(iter(self._tokens))]
