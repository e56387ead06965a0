"""A world that failed → a finding, with what happened in it line by line. Pure. Called by `check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from millpond.testing import faults
from millpond.testing.describe import Evidence, Shown
from millpond.testing.events import SentEvent
from millpond.testing.script import MESSAGES_PER_EVENT, Script
from millpond.testing.worlds import WorldBroke, WrongDocument


def describe_world(
    events: Sequence[SentEvent], script: Script, outcome: WrongDocument | WorldBroke | None, changed: Sequence[str]
) -> Evidence:
    """`changed` are variables of the view that changed while worlds ran."""
    numbers = dict.fromkeys(message // MESSAGES_PER_EVENT for message in script.arrivals)
    chosen, history = [events[number] for number in numbers], list(_history(events, script))
    if isinstance(outcome, WorldBroke):
        is_view = str(outcome).startswith("the view ")
        return Evidence(faults.RAISES if is_view else faults.WORLD_DIFFERS, str(outcome), chosen, history=history)
    cause = faults.KEEPS_STATE if changed else faults.WORLD_DIFFERS
    headline = "its documents differ from the fold of its events"
    if changed:
        headline = f"it keeps state between calls: it changes {', '.join(changed[:3])}, and its documents differ"
    shown: list[Shown] = []
    if outcome is not None:
        headline += f", {outcome.when}"
        shown = [
            Shown(f"{outcome.ref.path} must be", outcome.expected),
            Shown(f"{outcome.ref.path} is", outcome.found),
        ]
    return Evidence(cause, headline, chosen, shown, history)


def _history(events: Sequence[SentEvent], script: Script) -> Iterator[str]:
    seen: set[int] = set()
    for at, message in enumerate(script.arrivals):
        if at % script.at_once == 0 and script.at_once > 1 and at:
            yield "(the next arrive together)"
        number = events[message // MESSAGES_PER_EVENT].number
        again = " again, with the same message id" if message in seen else ""
        copy = " republished, with another message id" if message % MESSAGES_PER_EVENT else ""
        seen.add(message)
        yield f"#{number} arrives{copy}{again}"
    for n in sorted(script.replies_lost):
        yield f"the reply of commit {n + 1} was lost, although it was applied"
    for n in sorted(script.refused):
        yield f"commit {n + 1} failed"
    for steps in script.crashes:
        yield f"the engine died after {steps} steps, and a new one was started"
    if script.ending is not None:
        yield f"then everything was {script.ending}"
