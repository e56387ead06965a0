"""What waits in the engine: arrivals, tickets, and batches of tickets. Values that decide nothing."""

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

# A document, its log entry and its receipt, against the bytes of the message that caused them.
_WEIGHT_PER_BYTE = 3
_WEIGHT_FIXED = 1_024
# A message that waited too long is tried all the same, but not for long.
_TRY_S_MIN = 0.25

Done = Callable[[Result], None]


class Arrival(msgspec.Struct, frozen=True):
    """A delivery that is not routed yet."""

    delivery: Delivery
    done: Done
    replay: bool
    bury: bool
    # About how many bytes it costs until it is settled.
    weight: int

    def answer(self, result: Result) -> None:
        call(self.done, result)


class Ticket:
    """One message on its way to the store. It does not know who is answered: the queue does."""

    __slots__ = ("deadline", "item", "needs", "refs", "weight")

    def __init__(self, item: Item, deadline: float, weight: int) -> None:
        self.item = item
        self.deadline = deadline
        self.weight = weight
        self.needs = needs_of(item)
        self.refs = self.needs.all

    @property
    def shard(self) -> int:
        """One of two, by the first document: messages of a document are in the same shard."""
        return zlib.crc32(self.refs[0].id.encode(errors="replace")) & 1 if self.refs else 0

    def bury_as(self, letter: DeadLetter, fault: Fault) -> None:
        """From now on the message is about its letter and nothing else."""
        self.item = msgspec.structs.replace(self.item, letter=letter, targets=(), fault=fault)
        self.needs = needs_of(self.item)
        self.refs = self.needs.all


class Batch(NamedTuple):
    """Messages that are committed together, and what earlier tries have shown."""

    tickets: Sequence[Ticket]
    # Documents that must be read, whatever the cache says.
    doubted: frozenset[Ref] = frozenset()
    # Commits of these messages that already conflicted, before the batch was split as well.
    conflicts: int = 0
    # Tries in which the store failed.
    failures: int = 0
    # How long to wait before this try.
    pause_s: float = 0.0
    # Messages that are to be buried, and why: their letters are written first. Then `tickets` is empty.
    to_bury: Mapping[Ticket, Fault] = {}


class Progress(NamedTuple):
    """What one try led to: results that are durable or final, and the batches that are still to be tried."""

    results: Sequence[tuple[Ticket, Result]] = ()
    rest: Sequence[Batch] = ()
    # The batches of `rest` share no document, so they may be committed at the same time.
    apart: bool = False


def internal_error(item: Item, bug: Exception) -> Result:
    """The result of a message that met a bug: an unexpected error acknowledges nothing."""
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


def weigh(delivery: Delivery) -> int:
    return _WEIGHT_FIXED + _WEIGHT_PER_BYTE * len(delivery.data or b"")


class OutOfTime(Unavailable):
    """The last ticket's time is up while a call is under way."""


@contextlib.asynccontextmanager
async def in_time(tickets: Sequence[Ticket]) -> AsyncIterator[None]:
    """A call that hangs ends with the last ticket's time; whether it was applied is unknown."""
    latest = max(ticket.deadline for ticket in tickets)
    least = asyncio.get_running_loop().time() + _TRY_S_MIN
    try:
        async with asyncio.timeout_at(max(latest, least)):
            yield
    except TimeoutError:
        raise OutOfTime("no answer from the store in the time that was left", code="DEADLINE_EXCEEDED") from None
