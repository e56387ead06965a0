"""The engine's own values: arrivals, tickets, batches and the progress of a batch. They decide nothing.

Shared by `queue`, `committer` and `reader`.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from millpond.core.errors import Fault, InternalError, Unavailable, WriteRefused
from millpond.core.item import DeadLetter, Item
from millpond.core.model import Delivery, Outcome, Result
from millpond.core.plan import needs_of

if TYPE_CHECKING:
    from millpond.engine.lane import Lane

# A message whose time is up before its first try still gets one, of this length at least.
_TRY_S_MIN = 0.25

_REFUSED = frozenset({Outcome.RETRY, Outcome.POISON})

Done = Callable[[Result], None]


class Arrival(msgspec.Struct, frozen=True):
    """A delivery before routing."""

    delivery: Delivery
    done: Done
    replay: bool
    bury: bool
    # The views to ask; None for every view of its topic.
    only: frozenset[str] | None
    # About how many bytes it costs until it is settled.
    weight: int

    def answer(self, result: Result) -> None:
        call(self.done, result)


class Ticket:
    """One message on its way to the store. The queue, not the ticket, holds the callback for its result."""

    __slots__ = ("conflicts", "deadline", "item", "needs", "reads_all", "refs", "weight")

    def __init__(self, item: Item, deadline: float, weight: int) -> None:
        self.item = item
        self.deadline = deadline
        self.weight = weight
        # Commits of this message that conflicted.
        self.conflicts = 0
        # Whether the next try reads also what is usually assumed to be absent.
        self.reads_all = False
        self.needs = needs_of(item)
        self.refs = self.needs.all

    @property
    def shard(self) -> int:
        """0 or 1, by the first document: messages of one document are in the same shard."""
        return zlib.crc32(self.refs[0].id.encode(errors="replace")) & 1 if self.refs else 0

    def bury_as(self, letter: DeadLetter) -> None:
        """From now on the ticket stores the letter and no other document."""
        self._become(msgspec.structs.replace(self.item, letter=letter, targets=(), later=()))

    def halve(self) -> bool:
        """Commit half of its views first, so that a refused write is found; False if only one is left."""
        targets = [target for target in self.item.targets if target.settled is None]
        if len(targets) < 2:
            return False
        later = targets[len(targets) // 2 :]
        now = [target for target in self.item.targets if target not in later]
        self._become(msgspec.structs.replace(self.item, targets=now, later=[*later, *self.item.later]))
        return True

    def refuse(self, refusal: WriteRefused) -> None:
        """The store can never accept the write of its one target: the view refuses the message."""
        item, fault = self.item, WriteRefused(f"{refusal}", refusal.code)
        fault.view = next((target.view.name for target in item.targets if target.settled is None), None)
        # Without a target that writes, the log entry was refused, and would be again.
        kept = [] if fault.view is None else [target for target in item.targets if target.settled is not None]
        targets, faults = [*kept, *item.later], [*item.faults, fault]
        self._become(msgspec.structs.replace(item, targets=targets, later=(), faults=faults))

    def settle(self, result: Result) -> None:
        """Its targets are committed: keep their results, and go on with the targets that come later."""
        committed = [view for view in result.views if view.outcome not in _REFUSED]
        item, faults = self.item, result.faults
        self._become(
            msgspec.structs.replace(item, targets=item.later, later=(), committed=committed, faults=faults)
        )

    def blame(self, fault: Fault) -> None:
        """The fault concerns the whole message."""
        self._become(msgspec.structs.replace(self.item, faults=(fault,)))

    def _become(self, item: Item) -> None:
        self.item = item
        self.needs = needs_of(item)
        self.refs = self.needs.all


class Batch(NamedTuple):
    """Messages that are committed together, and what earlier tries found."""

    tickets: Sequence[Ticket]
    # The lane whose turn this is; None for messages whose documents are not contended.
    lane: Lane | None = None
    # Whether a refused commit has just shown which of its documents changed: the cached others need no read.
    just_read: bool = False
    # Tries in which the store failed.
    failures: int = 0
    # How long to wait before this try.
    pause_s: float = 0.0


class Progress(NamedTuple):
    """What one try led to: results that are durable or final, and the batches that are left to try."""

    results: Sequence[tuple[Ticket, Result]] = ()
    rest: Sequence[Batch] = ()
    # Messages that go back to the queue: their documents are contended.
    back: Sequence[Ticket] = ()
    # Messages to bury, because of their faults. No batch waits for their letters.
    to_bury: Sequence[Ticket] = ()


def internal_error(item: Item, bug: Exception) -> Result:
    """The result after an unexpected error: RETRY, so the message is not acknowledged."""
    return item.unsettled(Outcome.RETRY, InternalError.reason, InternalError(bug))


def report_bug(bug: BaseException) -> None:
    """Hand an unexpected error to the event loop's exception handler."""
    asyncio.get_running_loop().call_exception_handler({"message": "the engine met a bug", "exception": bug})


def call(done: Done, result: Result) -> None:
    try:
        done(result)
    except Exception as error:  # noqa: BLE001 - one caller's error must not reach the batch's other messages
        asyncio.get_running_loop().call_exception_handler(
            {"message": "answering a message failed", "exception": error}
        )


class OutOfTime(Unavailable):
    """The time of the last ticket ended during a call."""


@contextlib.asynccontextmanager
async def in_time(tickets: Sequence[Ticket]) -> AsyncIterator[None]:
    """Cancel a call at the last ticket's deadline; whether it was applied is then unknown."""
    latest = max(ticket.deadline for ticket in tickets)
    least = asyncio.get_running_loop().time() + _TRY_S_MIN
    try:
        async with asyncio.timeout_at(max(latest, least)):
            yield
    except TimeoutError:
        raise OutOfTime("no answer from the store in the time that was left", code="DEADLINE_EXCEEDED") from None
