"""Makes a failing world smaller: fewer events, fewer deliveries, fewer failures. Called by `check`.

A removal is kept if the world still fails. Each try runs on a copy of the view as it was before the check, if it
can be copied, so that what earlier tries left behind does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from millpond.testing.script import MESSAGES_PER_EVENT, Script

_TRIES_MAX = 400


def shrink(script: Script, fails: Callable[[Script], bool]) -> Script:
    """The smallest script found that still fails."""
    best, tries, found = script, 0, True
    while found:
        found = False
        for candidate in _smaller(best):
            tries += 1
            if tries > _TRIES_MAX:
                return best
            if fails(candidate):
                best, found = candidate, True
                break
    return best


def _smaller(script: Script) -> Iterator[Script]:
    """Every script with one thing less, those that remove most first."""
    replace = msgspec.structs.replace
    events = list(dict.fromkeys(message // MESSAGES_PER_EVENT for message in script.arrivals))
    for kept in (events[: len(events) // 2], events[len(events) // 2 :]):
        if 0 < len(kept) < len(events):
            yield replace(script, arrivals=tuple(m for m in script.arrivals if m // MESSAGES_PER_EVENT in kept))
    for event in events if len(events) > 1 else ():
        yield replace(script, arrivals=tuple(m for m in script.arrivals if m // MESSAGES_PER_EVENT != event))
    for field, never in (
        ("crashes", ()),
        ("replies_lost", frozenset()),
        ("refused", frozenset()),
        ("ending", None),
    ):
        if getattr(script, field) != never:
            yield replace(script, **{field: never})
    for at in range(len(script.arrivals)):
        rest = (*script.arrivals[:at], *script.arrivals[at + 1 :])
        if rest:
            yield replace(script, arrivals=rest)
    for simple in ({"batch_max": 500}, {"at_once": 1}):
        changed = replace(script, **simple)
        if changed != script:
            yield changed
