"""Read, decide, commit; after a conflict read again: the optimistic loop for every write that is not an event.

Called by dead letters, flow runs and `reprocess`. The engine's committer has its own loop, because it splits
batches and uses a cache.

`decide` only decides, and may be called several times, each time with what was just read. Every document that its
decision depends on must be among its writes, or never change. After `Unavailable` the outcome of a commit is
unknown. Without `Budget.away` the error is raised. With it the documents are read again, and `decide` must
recognise the effect of its own earlier commit.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from millpond.concurrency import Pauses
from millpond.core.errors import Unavailable, as_value
from millpond.core.model import Conflict, Ref, Snapshot, Write
from millpond.core.ports import Store

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How often and for how long one update is tried. At least one of the two is bounded."""

    tries: int | None = None
    # By the event loop's clock, which is virtual in the simulation. Also cancels a store call that takes longer.
    seconds: float | None = None
    after_conflict: Pauses = Pauses(0.01, 0.5)
    # Pauses while the store is unavailable; None raises its first error.
    away: Pauses | None = None

    def __post_init__(self) -> None:
        if self.tries is None and self.seconds is None:
            raise ValueError("an update needs a bound: tries or seconds")


class Decided(NamedTuple, Generic[R_co]):
    """`result` is returned once all writes are committed; at once if there are none."""

    result: R_co
    writes: Sequence[Write] = ()


class Read(NamedTuple):
    """More documents are needed: they are read, and `decide` is called again with all snapshots, in order."""

    refs: Sequence[Ref]


# Given what was read. One that depends on the time asks its caller's clock, in each try anew.
Decide = Callable[[Sequence[Snapshot]], Decided[R] | Read]
_JITTER = random.Random()  # noqa: S311 - spreads retries, no secret


async def update(
    store: Store,
    refs: Sequence[Ref],
    decide: Decide[R],
    budget: Budget,
    *,
    jitter: random.Random = _JITTER,
    after_commit: Callable[[Sequence[Write]], None] = lambda _: None,
) -> R | Conflict:
    """The result of `decide`, once its writes are stored; Conflict if other writers were first in every try.

    `after_commit` is called after each commit that was sent, also after a conflict or an error.
    Raises Unavailable if the store was away, and the store's other errors at once.
    """

    async def attempt() -> R | Conflict:
        found = await store.read(refs)
        while isinstance(decided := decide(found), Read):
            found = [*found, *await store.read(decided.refs)]
        if not decided.writes:
            return decided.result
        try:
            committed = await store.commit(decided.writes)
        finally:
            # After an error, too: the commit may have been applied.
            after_commit(decided.writes)
        return committed if isinstance(committed, Conflict) else decided.result

    return await retry_conflicts(attempt, budget, jitter)


async def retry_conflicts(
    attempt: Callable[[], Awaitable[R | Conflict]], budget: Budget, jitter: random.Random = _JITTER
) -> R | Conflict:
    """The first result of `attempt` that is no Conflict; Conflict if the budget ends before.

    Raises the store's last Unavailable, if there was one, when the budget ends; at once without `Budget.away`.
    """
    loop = asyncio.get_running_loop()
    give_up_at = None if budget.seconds is None else loop.time() + budget.seconds
    conflicts = failures = 0
    # The store's last error. It is kept without its traceback, which refers to this frame, and is taken out of this
    # list to be raised: only the garbage collector frees a frame and an error that refer to each other.
    errors: list[Unavailable] = []
    while True:
        try:
            async with asyncio.timeout_at(give_up_at):
                outcome = await attempt()
        except TimeoutError:
            if not errors and not conflicts:
                errors.append(Unavailable("the store did not answer in time"))
            break
        except Unavailable as error:
            if budget.away is None:
                raise
            errors[:] = [as_value(error)]
            pause_s = budget.away.pause_s(failures, jitter)
            failures += 1
        else:
            if not isinstance(outcome, Conflict):
                return outcome
            pause_s = budget.after_conflict.pause_s(conflicts, jitter)
            conflicts += 1
        is_late = give_up_at is not None and loop.time() + pause_s >= give_up_at
        if is_late or conflicts + failures == budget.tries:
            break
        await asyncio.sleep(pause_s)
    if errors:
        raise errors.pop()
    return Conflict()
