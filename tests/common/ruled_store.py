"""A store that enforces Google's rule for new traffic: it refuses calls over the operations of a second."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence

from millpond.core.errors import Unavailable
from millpond.core.model import Committed, Conflict, LogEntry, Ref, Snapshot, Write
from millpond.core.ports import StoreWithCatalog
from tests.common.faulty_store import StoreAround

Rule = Callable[[float], float]


def in_steps(seconds: float) -> float:
    """500 operations a second, and every five minutes half as much again: as Google's own clients have it."""
    return float(500 * 1.5 ** (seconds // 300))


def gradually(seconds: float) -> float:
    """The same rule as a curve."""
    return float(500 * 1.5 ** (seconds / 300))


class RuledStore(StoreAround):
    """Counts documents, read and written, from its first call on. A commit's log entries are one document."""

    commits_in_flight_max = 8

    def __init__(self, inner: StoreWithCatalog, rule: Rule = in_steps) -> None:
        super().__init__(inner)
        self.rule = rule
        # While it is set, nothing is counted or refused.
        self.paused = False
        # What it allows of the rule, and by how much calls take longer.
        self.share = self.slower = 1.0
        self.commits = self.refused = self.written = self.largest = 0
        # Operations by second.
        self.by_second: dict[int, int] = {}
        self.began: float | None = None
        self.ended = 0.0
        self._dice = random.Random(1)
        self._last_second: deque[tuple[float, int]] = deque()
        self._in_last_second = 0

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        await self._travel(0.002, 0.004)
        self._judge(len(refs))
        found = await self.inner.read(refs)
        await self._travel(0.002, 0.004)
        return found

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        await self._travel(0.002, 0.006)
        operations = len(writes) + bool(log)
        self.commits += 1
        self.largest = max(self.largest, operations)
        self._judge(operations)
        self.written += operations
        committed = await self.inner.commit(writes, log)
        await self._travel(0.006, 0.024)
        return committed

    @property
    def seconds(self) -> float:
        return self.ended - (self.began or 0.0)

    @property
    def refused_share(self) -> float:
        """Refused calls for each commit."""
        return self.refused / self.commits

    def used_share(self, rule: Rule, since_s: float = 0.0, until_s: float | None = None) -> float:
        """The operations in this time, as a share of those that the rule allows."""
        until_s = self.seconds if until_s is None else until_s
        seconds = range(int(since_s), int(until_s))
        return sum(self.by_second.get(n, 0) for n in seconds) / sum(rule(n) for n in seconds)

    async def _travel(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self._dice.uniform(least_s, most_s) * self.slower)

    def _judge(self, operations: int) -> None:
        if self.paused:
            return
        now = self.ended = asyncio.get_running_loop().time()
        if self.began is None:
            self.began = now
        while self._last_second and self._last_second[0][0] <= now - 1:
            self._in_last_second -= self._last_second.popleft()[1]
        if self._in_last_second + operations > self.rule(now - self.began) * self.share:
            self.refused += 1
            raise Unavailable("too many operations in a second", code="RESOURCE_EXHAUSTED")
        self._last_second.append((now, operations))
        self._in_last_second += operations
        second = int(now - self.began)
        self.by_second[second] = self.by_second.get(second, 0) + operations
