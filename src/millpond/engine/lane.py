"""The lane: messages about contended documents wait here, and instances take turns at committing them.

Of the commits that read the same version of a document, the first one wins. So an instance commits all that waits
in its lane at once, and then rests, so that the others have their turn while it gathers the next messages. There is
no coordinator: how long a round takes is learnt from what the instance reads, which shows how many commits of
others there were since its own last one. No I/O: every call is given the time. `room` owns it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

from millpond.core.model import Ref
from millpond.engine.ticket import Ticket

# How much of the last turns' messages is enough to begin early, and after which part of the rest.
_ENOUGH = 0.8
_EARLY = 0.5
_REST_MAX_S = 1.0
_REST_SPREAD = 0.1
# The pause after a lost turn, for each of the others: a part of the time that a try takes.
_LOST_PAUSE = 0.05
# Weights of the last turn in the averages. Too many others, and the instance idles: that is corrected faster.
_WEIGHT = 0.2
_WEIGHT_MORE, _WEIGHT_FEWER = 0.15, 0.3
# A large commit loses against small ones, and its instance would starve. After so many lost turns in a row, each
# further one doubles the number of commits, until one wins: its documents then show the others that they contend.
_WHOLE_TURNS = 2
_DOUBLED_MAX = 3


class Lane:
    def __init__(self, jitter: random.Random) -> None:
        self.waiting: deque[Ticket] = deque()
        # When the next turn begins at the latest, and from when on it begins if enough messages wait.
        self.due_at = self._early_at = 0.0
        # Documents that were read along with a lost commit: the next turn need not read them.
        self.fresh: frozenset[Ref] = frozenset()
        self._read_ahead: set[Ref] = set()
        # Whether the next turn reads also what is usually assumed to be absent. For all of its messages: if only
        # those of the lost turn did, the next redelivered one among the new ones would make them lose again.
        self.reads_all = self._exists_now = False
        self._jitter = jitter
        # Commits of the turn under way; which of them won or lost, and the messages of those that won.
        self._running = self._won = self._lost = self._won_messages = 0
        self._lost_in_a_row = 0
        # Averages over the last turns: the time of a try, messages, and others' commits between two turns of ours.
        self._try_s = self._messages = self._others = 0.0
        self._others_seen = self._others_seen_now = 0

    @property
    def is_busy(self) -> bool:
        return self._running > 0

    @property
    def parts(self) -> int:
        """How many commits the next turn is divided into."""
        return 1 << max(self._lost_in_a_row - _WHOLE_TURNS, 0)

    @property
    def begins_at(self) -> float:
        """When the next turn begins, by what waits now."""
        return self._early_at if len(self.waiting) >= self._messages * _ENOUGH else self.due_at

    def begin(self, commits: int) -> None:
        """A turn begins, with so many commits."""
        self._running = commits

    def won(self, took_s: float, messages: int, others_seen: int) -> None:
        """A commit of the turn succeeded. `others_seen`: commits of others that its read has shown."""
        self._won += 1
        self._won_messages += messages
        self._learn(took_s, others_seen)

    def lost(self, took_s: float, others_seen: int, *, exists: bool) -> None:
        """A commit of the turn was refused: another instance was first, or a document exists that was to be new."""
        self._lost += 1
        self._exists_now |= exists
        self._learn(took_s, others_seen)

    def keep_fresh(self, refs: Iterable[Ref]) -> None:
        """These documents were read along with a commit of the turn."""
        self._read_ahead.update(refs)

    def end(self, now: float) -> None:
        """A commit of the turn has ended, won, lost or failed. The last one ends the turn."""
        self._running -= 1
        if self._running > 0:
            return
        self.fresh, self._read_ahead = frozenset(self._read_ahead), set()
        self.reads_all, self._exists_now = self._exists_now, False
        # The commits of a turn read at the same time, so they have seen the same commits of others.
        self._others_seen += self._others_seen_now
        if self._won:
            self._count_turn()
        in_a_row = self._lost_in_a_row + (1 if self._lost > self._won else -1)
        self._lost_in_a_row = min(max(in_a_row, 0), _WHOLE_TURNS + _DOUBLED_MAX)
        if self._lost:
            # The winner rests now, so this is the best moment: only those who lost to it try again.
            pause_s = self._try_s * max(self._others, 1.0) * _LOST_PAUSE * self._jitter.random()
            self.due_at = self._early_at = now + min(pause_s, _REST_MAX_S)
        else:
            spread = self._jitter.uniform(1 - _REST_SPREAD, 1 + _REST_SPREAD)
            rest_s = min(self._try_s * self._others * spread, _REST_MAX_S)
            self.due_at, self._early_at = now + rest_s, now + rest_s * _EARLY
        self._won = self._lost = self._won_messages = self._others_seen_now = 0

    def _count_turn(self) -> None:
        self._messages += (self._won_messages - self._messages) * _WEIGHT
        more = self._others_seen - self._others
        self._others += more * (_WEIGHT_MORE if more > 0 else _WEIGHT_FEWER)
        self._others_seen = 0

    def _learn(self, took_s: float, others_seen: int) -> None:
        self._try_s += (took_s - self._try_s) * (_WEIGHT if self._try_s else 1.0)
        self._others_seen_now = max(self._others_seen_now, others_seen)
