"""The engine's own values: arrivals, tickets, batches and the progress of a batch. They decide nothing.

Shared by `queue`, `committer` and `reader`.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from millpond.core.errors import InternalError, Unavailable
from millpond.core.model import Delivery, Outcome, Ref, Result
from millpond.core.plan import needs_of
from millpond.core.route import DeadLetter, Fault, Item

# A message whose time is up before its first try still gets one, of this length at least.
_TRY_S_MIN = 0.25

Done = Callable[[Result], None]


class Arrival(msgspec.Struct, frozen=True):
    """A delivery before routing."""

    delivery: Delivery
    done: Done
    replay: bool
    bury: bool
    # About how many bytes it costs until it is settled.
    weight: int

    def answer(self, result: Result) -> None:
        call(self.done, result)


class Ticket:
    """One message on its way to the store. The queue, not the ticket, holds the callback for its result."""

    __slots__ = ("deadline", "item", "needs", "refs", "weight")

    def __init__(self, item: Item, deadline: float, weight: int) -> None:
        self.item = item
        self.deadline = deadline
        self.weight = weight
        self.needs = needs_of(item)
        self.refs = self.needs.all

    @property
    def shard(self) -> int:
        """0 or 1, by the first document: messages of one document are in the same shard."""
        return zlib.crc32(self.refs[0].id.encode(errors="replace")) & 1 if self.refs else 0

    def bury_as(self, letter: DeadLetter, fault: Fault) -> None:
        """From now on the ticket stores the letter and no other document."""
        self.item = msgspec.structs.replace(self.item, letter=letter, targets=(), fault=fault)
        self.needs = needs_of(self.item)
        self.refs = self.needs.all


class Batch(NamedTuple):
    """Messages that are committed together, and what earlier tries found."""

    tickets: Sequence[Ticket]
    # Documents that must be read, whatever the cache says.
    doubted: frozenset[Ref] = frozenset()
    # Commits of these messages that already conflicted, including those before the batch was split.
    conflicts: int = 0
    # Tries in which the store failed.
    failures: int = 0
    # How long to wait before this try.
    pause_s: float = 0.0
    # Messages to bury, and why: their letters are written first. `tickets` is then empty.
    to_bury: Mapping[Ticket, Fault] = {}


class Progress(NamedTuple):
    """What one try led to: results that are durable or final, and the batches that are left to try."""

    results: Sequence[tuple[Ticket, Result]] = ()
    rest: Sequence[Batch] = ()
    # The batches of `rest` share no document, so they may be committed at the same time.
    apart: bool = False


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
