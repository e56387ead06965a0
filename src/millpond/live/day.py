"""The last 24 hours of this service, minute by minute, kept in the store, so that they survive a restart.

The monitor adds every step and calls `save` once a minute; `http` asks for `shown`. Each instance has at most 25
documents in `ops_history`, one for each hour, which it alone writes. On a store with a bill they also hold what the
hour cost. It never delays a message: it calls the store on its own, and if that fails, the sums wait in memory for
the next minute.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from millpond.core import timestamps
from millpond.core.collections import HISTORY
from millpond.core.errors import StoreError
from millpond.core.model import Conflict, Put, Ref, Snapshot
from millpond.core.ports import StoreWithCatalog
from millpond.live.minutes import (
    DAY_MINUTES,
    HOUR_MINUTES,
    MINUTE_S,
    DayShown,
    Minutes,
    Sums,
    add_all,
    from_document,
    hour_of,
    shown,
    slot_of,
    to_document,
)
from millpond.live.sample import Step
from millpond.live.spending import FIELD, Hours, HourSpent, Spending, add_hours, from_text, to_text
from millpond.stores.operations import Operations, Spent, add_spent
from millpond.stores.update import Budget, Decided, update
from millpond.telemetry.log import Log

# On Firestore each save is one document read and one written.
SAVE_EVERY_S = 60.0
_SAVE_S_MAX = 10.0
# The last save, while the service is closed. Longer would delay the shutdown.
_LAST_SAVE_S_MAX = 0.5
# What other instances stored is read at most so often, for all pages.
_FRESH_S = 60.0
_DOCUMENTS_MAX = 2_000
_PAGE = 50


class StoredHour(NamedTuple):
    """An hour of an instance, as it was stored. `spent` is None if nothing was billed, or an earlier build ran."""

    instance: str
    hour: int
    minutes: Minutes
    spent: HourSpent | None


class StoredDay(NamedTuple):
    """The hours of all instances. `complete`: there are no more than were read; `read`: so many documents."""

    hours: list[StoredHour]
    complete: bool
    read: int


class Day:
    def __init__(
        self,
        store: StoreWithCatalog,
        log: Log,
        *,
        instance: str,
        bounds: Sequence[float],
        wall_clock: Callable[[], int],
        kept: bool = True,
        operations: Operations | None = None,
    ) -> None:
        """`instance` is in the ids of its documents. `kept`: whether the store is used at all.

        `operations` counts what the store bills; None if it bills nothing.

        An embedded store has one writer at a time, so every run has the same `instance` and goes on in the
        documents of the run before. On a shared store each run needs its own.
        """
        self._store = store
        self._log = log
        self._instance = instance
        self._bounds = bounds
        self._wall_clock = wall_clock
        self._kept = kept
        # What this run counted; what earlier runs left in its documents, by hour; what others stored.
        self._own: Minutes = {}
        self._before: dict[int, Minutes] = {}
        self._others: Minutes = {}
        self._complete = True
        self._unsaved: set[int] = set()
        # What this run spent, by hour; what others stored; the hours of ours that are not stored as they are now.
        self._operations = operations
        self._spent: Hours = {}
        self._others_spent: Hours = {}
        self._spent_unsaved: set[int] = set()
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._failing = False

    def add(self, step: Step) -> None:
        """Count a step into the minute that it began in."""
        minute = int(step.at - 1) // MINUTE_S
        if minute not in self._own:
            self._forget(minute)
        sums = self._own.setdefault(minute, Sums())
        sums.add(step)
        if any(step.outcomes.values()) or step.views or step.commits or step.buried:
            self._unsaved.add(hour_of(minute))
        self._count_operations(minute)
        # An idle instance spends a little too. It stores that with the next message, or when the hour is over.
        self._unsaved |= {hour for hour in self._spent_unsaved if hour < hour_of(minute)}

    def _count_operations(self, minute: int) -> None:
        taken = None if self._operations is None else self._operations.take()
        if taken:
            hour = hour_of(minute)
            add_spent(self._spent.setdefault(hour, HourSpent(minute % HOUR_MINUTES)).collections, taken)
            self._spent_unsaved.add(hour)

    def _forget(self, newest: int) -> None:
        """Drop what is older than a day, and what a clock that was set back left in the future."""
        self._own = {minute: sums for minute, sums in self._own.items() if _is_within_a_day(minute, newest)}
        last = hour_of(newest)
        self._before = {hour: known for hour, known in self._before.items() if last - 24 <= hour <= last}
        self._spent = {hour: spent for hour, spent in self._spent.items() if last - 24 <= hour <= last}
        self._spent_unsaved &= self._spent.keys()
        self._unsaved &= {hour_of(minute) for minute in self._own} | self._spent.keys()

    # --- in the store ---------------------------------------------------------------------------------------------

    async def save(self, seconds_max: float = _SAVE_S_MAX) -> None:
        """Store the hours in which something happened since the last call, in one commit; usually it is one."""
        if not self._kept or not self._unsaved:
            return
        hours, self._unsaved = sorted(self._unsaved), set()
        saved: bool | Conflict = False
        try:
            refs = [self._ref(hour) for hour in hours]
            decide = functools.partial(self._decide, hours)
            saved = await update(self._store, refs, decide, Budget(tries=3, seconds=seconds_max))
            self._note(None if saved is True else "another process writes to the same documents")
        except StoreError as error:
            self._note(str(error))
        finally:
            if saved is not True:
                self._unsaved.update(hours)
                self._spent_unsaved.update(self._spent.keys() & set(hours))

    def _decide(self, hours: Sequence[int], found: Sequence[Snapshot]) -> Decided[bool]:
        """Write each hour whole, from memory. So a commit whose outcome is unknown can be repeated."""
        self._count_operations(self._minute_now)
        self._spent_unsaved -= set(hours)
        # This commit is billed too, and it may be the last one. It is counted when it was made; the next save
        # replaces this guess.
        itself = Spent(writes=len(hours), expiring=sum(snapshot.version is None for snapshot in found))
        writes = []
        for hour, snapshot in zip(hours, found, strict=True):
            # Read before this run wrote it for the first time, and remembered: later it holds our own sums too.
            stored = from_document(snapshot.data, self._buckets)
            known = stored[1] if stored is not None and stored[0] == hour else {}
            minutes: Minutes = {}
            add_all(minutes, self._before.setdefault(hour, known))
            add_all(minutes, {minute: sums for minute, sums in self._own.items() if hour_of(minute) == hour})
            writes.append(
                Put(snapshot.ref, snapshot.version, to_document(hour, minutes, **self._texts(hour, itself)))
            )
        return Decided(True, writes)

    def _texts(self, hour: int, itself: Spent) -> dict[str, str]:
        known = self._spent.get(hour)
        if known is None:
            return {}
        spent = HourSpent(known.since)
        spent.add(known)
        if hour == hour_of(self._minute_now):
            add_spent(spent.collections, {HISTORY: itself})
        return {FIELD: to_text(spent)}

    async def close(self) -> None:
        """Save what was not saved yet, unless the store is away: a shutdown does not wait for it."""
        if not self._failing:
            if self._own:
                # A command that uses a store directly takes no steps, and leaves no document of its own.
                self._count_operations(self._minute_now)
                self._unsaved |= self._spent_unsaved
            await self.save(_LAST_SAVE_S_MAX)

    # --- for pages ------------------------------------------------------------------------------------------------

    async def shown(self) -> DayShown:
        """The sums of all instances. Raises StoreError if what is stored cannot be read."""
        await self._read_if_old()
        return shown(self._minutes(), self._bounds, complete=self._complete)

    async def spending(self) -> Spending:
        """What all instances spent. Raises StoreError if what is stored cannot be read."""
        read = await self._read_if_old()
        self._count_operations(self._minute_now)
        hours: Hours = {}
        for known in (self._others_spent, self._spent):
            add_hours(hours, known)
        return Spending(hours, self._minutes(), self._complete, self._kept, read)

    def _minutes(self) -> Minutes:
        newest = self._minute_now
        total: Minutes = {}
        for known in (self._others, *self._before.values(), self._own):
            add_all(total, {minute: sums for minute, sums in known.items() if _is_within_a_day(minute, newest)})
        return total

    async def _read_if_old(self) -> int:
        """Read what others stored, unless it is fresh. Returns how many documents were read."""
        read = 0
        if self._kept:
            async with self._reading:
                now = asyncio.get_running_loop().time()
                if now - self._read_at >= _FRESH_S:
                    read = await self._read()
                    self._read_at = now
        return read

    async def _read(self) -> int:
        others: Minutes = {}
        spent: Hours = {}
        stored = await read_hours(self._store, self._buckets)
        for one in stored.hours:
            if one.instance == self._instance:
                self._before.setdefault(one.hour, one.minutes)
            else:
                add_all(others, one.minutes)
                add_hours(spent, {} if one.spent is None else {one.hour: one.spent})
        self._others, self._others_spent, self._complete = others, spent, stored.complete
        return stored.read

    @property
    def _minute_now(self) -> int:
        return self._wall_clock() // (MINUTE_S * timestamps.SECOND_US)

    @property
    def _buckets(self) -> int:
        return len(self._bounds) + 1

    def _ref(self, hour: int) -> Ref:
        return Ref(HISTORY, f"{self._instance}-{slot_of(hour)}")

    def _note(self, fault: str | None) -> None:
        """Log once for each outage, not every minute."""
        if fault is not None and not self._failing:
            self._log.note("WARNING", f"the sums of the last minutes could not be stored, and will be: {fault}")
        self._failing = fault is not None


async def read_spending(store: StoreWithCatalog) -> Spending:
    """What all instances spent, for a process that is none of them."""
    stored = await read_hours(store, 0)
    hours: Hours = {}
    minutes: Minutes = {}
    for one in stored.hours:
        add_all(minutes, one.minutes)
        add_hours(hours, {} if one.spent is None else {one.hour: one.spent})
    return Spending(hours, minutes, stored.complete, kept=True, read=stored.read)


async def read_hours(store: StoreWithCatalog, buckets: int) -> StoredDay:
    """What is stored, up to a limit.

    Documents that are none of ours are ignored: views cannot write here, but people and programs can.
    """
    found: list[StoredHour] = []
    after, n = None, 0
    while n < _DOCUMENTS_MAX:
        page = await store.list_documents(HISTORY, _PAGE, after)
        for snapshot in page:
            stored = from_document(snapshot.data, buckets)
            instance, _, slot = snapshot.ref.id.rpartition("-")
            if stored is not None and slot == slot_of(stored[0]):
                found.append(StoredHour(instance, *stored, from_text((snapshot.data or {}).get(FIELD))))
        n += len(page)
        if len(page) < _PAGE:
            break
        after = page[-1].ref.id
    return StoredDay(found, n < _DOCUMENTS_MAX, n)


def _is_within_a_day(minute: int, newest: int) -> bool:
    return newest - DAY_MINUTES < minute <= newest
