"""The waiting room: messages that are accepted and in no batch, and which of them may be committed together next.

A batch takes every message whose documents are in no other batch of this process. Messages about documents that
other instances change at the same time are kept apart, in the lane, so that they do not make the commits of all
others fail. It starts nothing and answers nothing; the queue does.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from millpond.core.model import Ref
from millpond.engine.conflict_groups import split_evenly
from millpond.engine.contention import OtherWriters
from millpond.engine.lane import Lane
from millpond.engine.rules import EngineRules
from millpond.engine.ticket import Batch, Ticket

# If most of the last hundred messages went into the lane, the rest goes with them: a few small commits beside the
# turns would only make the turns of others fail.
_MOST = 0.5
_MESSAGES = 100.0


class WaitingRoom:
    def __init__(
        self, *, rules: EngineRules, others: OtherWriters, jitter: random.Random, batches_at_once: int
    ) -> None:
        # About how many bytes wait, messages that are not routed yet included.
        self.bytes = 0
        self.lane = Lane(jitter)
        self.reserved: frozenset[Ref] = frozenset()
        self._rules = rules
        self._others = others
        self._batches_at_once = batches_at_once
        self._waiting: deque[Ticket] = deque()
        # The documents of the batches under way.
        self._busy: set[Ref] = set()
        # The share of the last messages that went into the lane.
        self._lane_share = 0.0

    def __len__(self) -> int:
        return len(self._waiting) + len(self.lane.waiting)

    def __iter__(self) -> Iterator[Ticket]:
        return chain(self._waiting, self.lane.waiting)

    @property
    def resting(self) -> int:
        """Messages in the lane, between two turns."""
        return 0 if self.lane.is_busy else len(self.lane.waiting)

    def append(self, ticket: Ticket) -> None:
        """Let a message wait whose weight is counted already."""
        self._waiting.append(ticket)

    def put_back(self, tickets: Sequence[Ticket]) -> None:
        """Messages of a batch wait again, before all others."""
        self._waiting.extendleft(reversed(tickets))
        self.bytes += sum(ticket.weight for ticket in tickets)

    def clear(self) -> None:
        self._waiting.clear()
        self.lane.waiting.clear()

    def take(self, now: float) -> Batch | None:
        """The next batch of messages that are not contended; those that are move to the lane."""
        if not self._waiting:
            return None
        rules = self._rules
        # Long queue: take one of two shards, so that the other is planned while this one is committed.
        sharded = self._batches_at_once > 1 and len(self._waiting) > rules.shards_from
        shard: int | None = None
        taken: list[Ticket] = []
        passed: list[Ticket] = []
        weight = 0
        while self._waiting and len(taken) < rules.batch_count_max:
            ticket = self._waiting[0]
            if taken and weight + ticket.weight > rules.batch_bytes_max:
                break
            self._waiting.popleft()
            if self._others.contended and self._belongs_to_lane(ticket, now):
                self.lane.waiting.append(ticket)
            elif self._is_held(ticket) or (shard is not None and ticket.shard != shard):
                passed.append(ticket)
            else:
                if sharded and shard is None:
                    shard = ticket.shard
                taken.append(ticket)
                weight += ticket.weight
        self._waiting.extendleft(reversed(passed))
        self.bytes -= weight
        return Batch(taken) if taken else None

    def take_turn(self, now: float, batches_max: int) -> list[Batch]:
        """All that waits in the lane, if its turn has come: one batch, or several that share no document."""
        lane, rules = self.lane, self._rules
        if lane.is_busy or not lane.waiting or batches_max < 1 or now < lane.begins_at:
            return []
        taken: list[Ticket] = []
        passed: list[Ticket] = []
        weight = 0
        while lane.waiting and len(taken) < rules.batch_count_max:
            if taken and weight + lane.waiting[0].weight > rules.batch_bytes_max:
                break
            ticket = lane.waiting.popleft()
            if self._is_held(ticket):
                passed.append(ticket)
            else:
                taken.append(ticket)
                weight += ticket.weight
        if lane.reads_all:
            for ticket in taken:
                ticket.reads_all = True
        parts = split_evenly(taken, lane.parts) if taken else []
        # Without slots for all parts the others stay in front, and have the next turn.
        left = [ticket for part in parts[batches_max:] for ticket in part]
        lane.waiting.extendleft(reversed([*left, *passed]))
        self.bytes -= weight - sum(ticket.weight for ticket in left)
        batches = [Batch(part, lane) for part in parts[:batches_max]]
        if batches:
            lane.begin(len(batches))
        return batches

    def mark(self, tickets: Sequence[Ticket]) -> set[Ref]:
        """Keep the documents of a batch out of other batches, until `release`."""
        # Not needed with one batch at a time.
        refs = set() if self._batches_at_once == 1 else {ref for ticket in tickets for ref in ticket.refs}
        self._busy |= refs
        return refs

    def release(self, refs: Iterable[Ref]) -> None:
        self._busy.difference_update(refs)

    def _belongs_to_lane(self, ticket: Ticket, now: float) -> bool:
        contended = self._others.is_contended(ticket.refs, now)
        self._lane_share += (contended - self._lane_share) / _MESSAGES
        return contended or self._lane_share > _MOST

    def _is_held(self, ticket: Ticket) -> bool:
        """Whether another batch, or a reservation, has a document of the ticket."""
        busy = self._busy and not self._busy.isdisjoint(ticket.refs)
        return bool(busy or (self.reserved and not self.reserved.isdisjoint(ticket.refs)))
