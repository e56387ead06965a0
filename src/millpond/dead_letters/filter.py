"""The filter of letters for the command line, the API and the page, and the three replay states. Pure.

A letter records its last completed replay. Every letter is in exactly one of three states:

- never: no replay is recorded. A replay that ended as `retry` is not recorded, so it does not count.
- succeeded: the recorded outcome settled the message: `applied`, `duplicate`, `stale_ignored`, `too_old_ignored` or
  `filtered`. The message was applied, or had nothing to change, so the letter can be purged without loss.
- failed: every other case. The message was poison again, or the letter does not record how its replay ended.

An outcome that this build does not know counts as failed: purging such a letter could lose its message.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from millpond.core import timestamps
from millpond.core.model import Outcome
from millpond.core.time_range import ALL_TIME, TimeRange

SETTLING_OUTCOMES = frozenset(str(outcome) for outcome in Outcome) - {Outcome.POISON, Outcome.RETRY}


class ReplayState(enum.StrEnum):
    """The state of a letter's last recorded replay."""

    NEVER = "never"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


# The meaning of the older option `--replayed` (yes) and parameter `replayed`. Neither value selects a letter that
# it did not select before there were three states, so that no script purges more than before.
REPLAYED = {"yes": ReplayState.SUCCEEDED, "no": ReplayState.NEVER}


def state_of(letter: Mapping[str, Any]) -> ReplayState:
    """The state of a letter, given its document."""
    outcome = letter.get("replayOutcome")
    if isinstance(outcome, str) and outcome in SETTLING_OUTCOMES:
        return ReplayState.SUCCEEDED
    if outcome is None and not letter.get("replays"):
        return ReplayState.NEVER
    return ReplayState.FAILED


def only(state: ReplayState | None) -> frozenset[ReplayState]:
    """The set of one state; of every state for None."""
    return frozenset(ReplayState) if state is None else frozenset({state})


class LetterFilter(NamedTuple):
    """Matches letters that meet every condition; None is no condition. A missing view or topic is empty text.

    A view is one that refused the message, or all that did, joined as in `views_text`. `buried` is about the time
    of burial, which a replay does not change.
    """

    reason: str | None = None
    view: str | None = None
    topic: str | None = None
    states: frozenset[ReplayState] = only(None)
    buried: TimeRange = ALL_TIME

    def matches(self, letter: Mapping[str, Any]) -> bool:
        return (
            (self.reason is None or letter.get("reason") == self.reason)
            and (self.view is None or self.view in {*refusing_views(letter), views_text(letter)})
            and (self.topic is None or (letter.get("topic") or "") == self.topic)
            and state_of(letter) in self.states
            and (not self.buried.is_bounded or self.buried.holds(_buried_at(letter)))
        )


def _buried_at(letter: Mapping[str, Any]) -> int | None:
    at = letter.get("buriedAt")
    return timestamps.from_datetime(at) if isinstance(at, dt.datetime) else None


def refusing_views(letter: Mapping[str, Any]) -> list[str]:
    """The views that refused the message; none if the whole message was at fault."""
    listed = letter.get("refusals") or ([letter] if letter.get("view") else [])
    return sorted(refusal["view"] for refusal in listed)


def views_text(letter: Mapping[str, Any]) -> str:
    """The same as one text, which groups go by: each letter is in one group."""
    return ", ".join(refusing_views(letter))


ALL_LETTERS = LetterFilter()
