"""Reading along with the commit of a turn: when it saves a round trip, and when it says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from millpond.core.errors import Unavailable
from millpond.core.model import Committed, Conflict, Delivery, LogEntry, Outcome, Ref, Snapshot, Write
from tests.common.pond import service
from tests.common.rig import Bench, Rig
from tests.engine.support import Unnamed

# So many messages of one document share a turn that the document is read along with their commit.
MANY = 20

Step = Callable[[], Awaitable[object]]


class Noted(Unnamed):
    """Notes when calls begin and commits are refused, and lets a test act before a commit and before its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []
        self.before_commit: list[Step] = []
        self.before_answer: list[Step] = []
        # Reads that fail: by their number, from the moment that this is set.
        self.failing_reads: set[int] = set()
        self.changed = asyncio.Event()
        self.read_gate = asyncio.Event()
        self.read_gate.set()
        self._reads = 0

    def watch(self) -> None:
        """From now on."""
        self.order.clear()
        self.changed.clear()
        self._reads = 0

    async def read(self, refs: Sequence[Ref]) -> list[Snapshot]:
        self.order.append("read")
        self._reads += 1
        number = self._reads
        if number == 2:
            # The read that goes along with the first commit comes after what refuses it, or even later.
            try:
                await self.changed.wait()
                await self.read_gate.wait()
            except asyncio.CancelledError:
                self.order.append("cancelled")
                raise
        if number in self.failing_reads:
            raise Unavailable("no answer")
        return await super().read(refs)

    async def commit(self, writes: Sequence[Write], log: Sequence[LogEntry] = ()) -> Committed | Conflict:
        self.order.append("commit")
        if self.before_commit:
            await self.before_commit.pop(0)()
        self.changed.set()
        committed = await super().commit(writes, log)
        if self.before_answer:
            await self.before_answer.pop(0)()
        if isinstance(committed, Conflict):
            self.order.append("refused")
        return committed


class Contended:
    """Our instance, for which a document is contended, and theirs, which changes it."""

    def __init__(self) -> None:
        self.store = Noted()
        self.ours, self.theirs = Bench(self.store), Rig(self.store.inner)
        self._last = 0

    async def begin(self) -> None:
        await self.ours.send(self._next())
        await self.change()
        await self.ours.send(self._next())
        self.store.watch()

    async def change(self) -> None:
        """The other instance changes the document, by an older event than those that are being sent."""
        await self.theirs.send(self._next())

    async def send(self) -> None:
        first = self._last + 10
        newest = [_message(first + n) for n in range(MANY)]
        assert {result.outcome for result in await self.ours.send(*newest)} == {Outcome.APPLIED}
        self._last = first + MANY

    def _next(self) -> Delivery:
        self._last += 1
        return _message(self._last)


def _message(number: int) -> Delivery:
    return service(f"m{number}", number, f"v{number}", number)


async def test_a_lost_turn_is_tried_again_without_a_read() -> None:
    """What refused the commit was read along with it: the next try is one call, not two."""
    pond = Contended()
    await pond.begin()
    pond.store.before_commit.append(pond.change)
    await pond.send()
    assert pond.store.order[:5] == ["read", "commit", "read", "refused", "commit"]
    assert pond.store.order.count("refused") == 1


async def test_after_a_won_turn_the_document_is_read_again() -> None:
    """A read that came after our own commit shows that commit only: it says nothing about the next turn."""
    pond = Contended()
    await pond.begin()

    async def until_it_is_read() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    pond.store.before_answer.append(until_it_is_read)
    await pond.send()
    assert pond.store.order == ["read", "commit", "read"]
    await pond.change()
    pond.store.watch()
    await pond.send()
    assert pond.store.order[0] == "read"
    assert "refused" not in pond.store.order


async def test_a_won_turn_does_not_wait_for_its_read() -> None:
    """Nor is the read cancelled: a call without an answer would count as a failure of the store."""
    pond = Contended()
    await pond.begin()
    pond.store.read_gate.clear()
    await pond.send()
    assert pond.store.order == ["read", "commit", "read"]
    pond.store.read_gate.set()
    await asyncio.sleep(0.02)
    assert "cancelled" not in pond.store.order


async def test_a_read_that_fails_beside_the_commit_costs_a_read() -> None:
    """The commit decides. If the turn is lost, the next one reads."""
    pond = Contended()
    await pond.begin()
    pond.store.before_commit.append(pond.change)
    pond.store.failing_reads = {2}
    await pond.send()
    assert pond.store.order[:6] == ["read", "commit", "read", "refused", "read", "commit"]
    assert pond.ours.service.metrics.store_errors.total() == 0


async def test_a_turn_of_few_messages_reads_nothing_along() -> None:
    """The read is in vain if the turn is won, so many messages must share it."""
    pond = Contended()
    await pond.begin()
    await pond.ours.send(_message(900))
    assert pond.store.order == ["read", "commit"]
