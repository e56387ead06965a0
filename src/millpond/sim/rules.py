"""What every checker needs: the limits of the world, and the exception for a broken promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

# The longest time of a delivery, with its instance frozen in the middle of it. For so long after a person deleted a
# document, an instance's answer may rest on the state before.
AT_ONCE_S = 120


class Broken(AssertionError):
    """A broken promise: `checker` names it, the text describes it."""

    def __init__(self, checker: str, text: str) -> None:
        super().__init__(f"{checker}: {text}")
        self.checker = checker
        self.text = text


class Rules(NamedTuple):
    """Limits of the world that the checks need. Times in microseconds."""

    now: Callable[[], int]
    receipts_kept: int
    # The skew that the product allows for, and the actual skew of instances' clocks.
    skew_allowed: int
    skew_max: int
    parked_after: int
    # Attempts of a step of a flow run.
    attempts_max: int
