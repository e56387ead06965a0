"""What waits in the engine: a delivery as it arrived, and then its ticket, until it is settled."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from millpond.core.errors import InternalError, Unavailable
from millpond.core.model import Delivery, Outcome, Result
from millpond.core.plan import refs_of
from millpond.core.route import Fault, Item, Letter

# A document, its log entry and its receipt, against the bytes of the message that caused them.
_WEIGHT_PER_BYTE = 3
_WEIGHT_FIXED = 1_024
# What waited too long is tried all the same, but not for long.
_TRY_S_MIN = 0.25

Done = Callable[[Result], None]


class Arrival(msgspec.Struct, frozen=True):
    """A delivery nobody has looked into yet."""

    delivery: Delivery
    done: Done
    replay: bool
    bury: bool
    # About how many bytes it costs until it is settled.
    weight: int

    def answer(self, result: Result) -> None:
        call(self.done, result)


class Ticket:
    """One delivery waiting for its outcome; `done` is called once, with it."""

    __slots__ = ("deadline", "done", "item", "refs", "standing", "weight")

    def __init__(self, item: Item, done: Done, deadline: float, weight: int) -> None:
        self.item = item
        self.done: Done | None = done
        self.deadline = deadline
        # Every document in its way; the first `standing` of them must be known before planning.
        self.refs, self.standing = refs_of(item)
        self.weight = weight

    @property
    def lane(self) -> int:
        """One of two, by the first document: those of a document go together."""
        return zlib.crc32(self.refs[0].id.encode(errors="replace")) & 1 if self.refs else 0

    def bury_as(self, letter: Letter, fault: Fault) -> None:
        """From now on the delivery is about its letter and nothing else."""
        self.item = msgspec.structs.replace(self.item, letter=letter, targets=(), fault=fault)
        self.refs, self.standing = refs_of(self.item)

    def fail(self, bug: Exception) -> None:
        """What nobody foresaw acknowledges nothing."""
        self.settle(self.item.unsettled(Outcome.RETRY, InternalError.reason, InternalError(bug)))

    def settle(self, result: Result) -> None:
        if self.done is not None:
            done, self.done = self.done, None
            call(done, result)


def call(done: Done, result: Result) -> None:
    try:
        done(result)
    except Exception as error:  # noqa: BLE001 - one caller's trouble must not reach the batch's others
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
