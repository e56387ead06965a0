"""What happens in one small world, drawn from a seed: which messages arrive in which order, and what fails.

A script is a value: shrinking takes parts of it away, and the failure shows what is left. Called by `check`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

# A world with more events than this finds nothing that a smaller one would not, and takes longer.
EVENTS_MAX = 12
# A message and its republished copy, under another id and at another publish time.
MESSAGES_PER_EVENT = 2
AGAIN, WITHOUT_RECEIPTS, REPLAYED = "delivered again", "delivered again without receipts", "replayed"


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """Messages are numbered as in the pool: event `n` is message `2 * n`, and its republished copy the next one."""

    # The messages in the order of arrival; a message that stands twice is a duplicate.
    arrivals: tuple[int, ...]
    # How many arrive at once, again and again until all have arrived.
    at_once: int
    batch_max: int
    # Commits, counted from 0, that are applied and whose reply is lost; and those that fail before.
    replies_lost: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    # The engine dies after so many steps of its event loop, and a new one is started.
    crashes: tuple[int, ...] = ()
    # What comes after everything has arrived.
    ending: str | None = None
    # The order in which the event loop runs what is ready.
    loop_seed: int = 0


def draw(seed: int, number: int, groups: Sequence[Sequence[int]], *, receipts_matter: bool) -> Script:
    """The script of a world. `groups` are the events of each document: those that can disturb each other."""
    # A number, not text: seeding with text takes as long as drawing the rest.
    dice = random.Random((seed << 32) ^ number)  # noqa: S311 - repeatable on purpose
    chance = dice.random
    chosen = _choose(dice, groups)
    arrivals: list[int] = []
    republished, duplicated = dice.choice((0.0, 0.2, 0.5)), dice.choice((0.0, 0.15, 0.3))
    for event in chosen:
        arrivals.append(MESSAGES_PER_EVENT * event)
        if chance() < republished:
            arrivals.append(MESSAGES_PER_EVENT * event + 1)
    arrivals += [message for message in arrivals if chance() < duplicated]
    dice.shuffle(arrivals)
    # Most worlds have no ending, because an ending costs as much as the world before it.
    endings = (AGAIN, REPLAYED) if receipts_matter else (AGAIN, REPLAYED, WITHOUT_RECEIPTS)
    return Script(
        arrivals=tuple(arrivals),
        at_once=dice.choice((1, 3, 6, len(arrivals), len(arrivals), len(arrivals))),
        batch_max=dice.choice((1, 2, 500, 500)),
        replies_lost=frozenset(n for n in range(6) if chance() < 0.3) if chance() < 0.3 else frozenset(),
        refused=frozenset(n for n in range(6) if chance() < 0.3) if chance() < 0.2 else frozenset(),
        crashes=tuple(dice.randint(1, 40) for _ in range(dice.randint(1, 3))) if chance() < 0.3 else (),
        ending=dice.choice(endings) if chance() < 0.3 else None,
        loop_seed=dice.getrandbits(32),
    )


def _choose(dice: random.Random, groups: Sequence[Sequence[int]]) -> list[int]:
    """All events if they are few; otherwise those of some documents, at random."""
    if sum(map(len, groups)) <= EVENTS_MAX:
        return [event for group in groups for event in group]
    chosen: list[int] = []
    while len(chosen) < EVENTS_MAX:
        group = dice.choice(groups)
        wanted = min(len(group), dice.randint(1, EVENTS_MAX - len(chosen)))
        chosen += [event for event in dice.sample(group, wanted) if event not in chosen]
    return chosen
