"""One batch's way to the store: read what is not cached, plan, commit, and heal whatever goes wrong.

conflict        somebody else wrote: read the culprits again; a second time, split and go on separately
unavailable     nobody knows whether it was applied: back off, read everything again, plan again
refused         one write is impossible: halve until it is alone, bury it, commit the rest
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from millpond.concurrency import raise_first, run_all
from millpond.core.document import approximate_size
from millpond.core.errors import AccessDenied, Poison, StoreError, StoreFileGone, ViewError, WriteRefused, kind_of
from millpond.core.model import Committed, Conflict, Outcome, Put, Ref, Result, Snapshot
from millpond.core.plan import Plan, plan
from millpond.core.ports import Store
from millpond.engine.cache import RecentWrites, SnapshotCache
from millpond.engine.conflict_groups import split
from millpond.engine.ticket import OutOfTime, Ticket, in_time

if TYPE_CHECKING:
    from millpond.core.route import Fault
    from millpond.engine.queue import Engine

CACHE_BYTES_MAX = 64 * 1024 * 1024
# A cached document may decide that an event leads to no write only while it is younger than this.
CACHE_TRUST_S = 1.0
# Letters made at the same time; those on a topic wait for the broker.
_DIGS_AT_ONCE = 32
_CONFLICT_PAUSE_S = 0.005
_CONFLICT_PAUSE_MAX_S = 0.25
# What a document is taken for that is not known and almost never exists yet.
_ABSENT = Snapshot(Ref("", ""), None, None)
_CONTENTION = StoreError("other writers kept changing the documents")
_IDLE = frozenset({Outcome.STALE, Outcome.DUPLICATE})


class Batches:
    def __init__(self, engine: Engine, store: Store, jitter: random.Random) -> None:
        self._engine = engine
        self._store = store
        self._jitter = jitter
        self._cache = SnapshotCache(engine.rules.cache_entries_max, CACHE_BYTES_MAX)
        self._seen = RecentWrites(engine.rules.cache_entries_max)

    async def commit(self, tickets: Sequence[Ticket], doubted: Iterable[Ref] = (), conflicts: int = 0) -> None:
        """Settle every ticket. `doubted` are documents that must be read, whatever the cache says.

        `conflicts` is how often they met others' writes before they parted ways.
        """
        # Its own: reading clears it, and the other part of a batch that was split has not read.
        unsure = set(doubted)
        failures = 0
        loop = asyncio.get_running_loop()
        while tickets:
            began = loop.time()
            try:
                async with in_time(tickets):
                    planned, snapshots = await self._plan(tickets, unsure)
                    committed = await self._write(planned)
            except WriteRefused as refusal:
                await self._isolate(tickets, refusal, unsure)
                return
            except OutOfTime as error:
                if not conflicts:
                    self._note_failure(tickets, error, failures + 1)
                self._forget(tickets)
                reason = "contention" if conflicts else error.reason
                self._expire(tickets, _CONTENTION if conflicts else error, reason, everyone=True)
                return
            except StoreError as error:
                failures += 1
                unsure.update(self._forget(tickets))
                tickets = await self._back_off(tickets, error, failures, loop.time() - began)
                continue
            except Exception as bug:  # noqa: BLE001 - it must not take the batch's other messages along
                await self._survive(tickets, bug)
                return
            if isinstance(committed, Committed):
                self._remember(planned, snapshots, committed, sum(ticket.weight for ticket in tickets))
                await self._settle(tickets, planned.results)
                return
            conflicts += 1
            self._engine.metrics.conflicts += 1
            unsure.update(self._forget(tickets, committed.refs))
            tickets = self._expire(tickets, _CONTENTION, "contention")
            groups = split(tickets, committed.refs) if conflicts > 1 else [tickets]
            if len(groups) > 1:
                await self._each(groups, unsure, conflicts)
                return
            if conflicts > 1:
                pause = min(_CONFLICT_PAUSE_S * 2**conflicts, _CONFLICT_PAUSE_MAX_S)
                await asyncio.sleep(self._jitter.uniform(0, pause))

    async def _plan(self, tickets: Sequence[Ticket], unsure: set[Ref]) -> tuple[Plan, Mapping[Ref, Snapshot]]:
        engine = self._engine
        items = [ticket.item for ticket in tickets]
        snapshots, aged = await self._snapshots(tickets, unsure)
        planned = plan(items, snapshots, engine.wall_clock(), engine.rules.receipts)
        # Again after each read: it may have changed a verdict, and time has passed. An event may have become too
        # old to be counted meanwhile, unless a receipt that was only assumed absent is there after all.
        while doubtful := _doubtful(tickets, planned.results, snapshots, aged):
            engine.metrics.verdicts_checked += 1
            await self._read(doubtful, snapshots)
            aged.difference_update(doubtful)
            planned = plan(items, snapshots, engine.wall_clock(), engine.rules.receipts)
        return planned, snapshots

    async def _snapshots(self, tickets: Sequence[Ticket], unsure: set[Ref]) -> tuple[dict[Ref, Snapshot], set[Ref]]:
        """What the plan looks at, and which of it is too old to justify doing nothing."""
        snapshots: dict[Ref, Snapshot] = {}
        aged: set[Ref] = set()
        missing: list[Ref] = []
        fresh: set[Ref] = set()
        trusted_from = asyncio.get_running_loop().time() - CACHE_TRUST_S
        cached = self._cache.get
        for ticket in tickets:
            for at, ref in enumerate(ticket.refs):
                if ref in snapshots:
                    continue
                doubted = ref in unsure
                # A letter decides by itself that nothing is written, so its absence is never taken from memory.
                entry = None if doubted or ticket.item.letter is not None else cached(ref)
                if entry is not None:
                    snapshots[ref] = entry[0]
                    if entry[1] < trusted_from:
                        aged.add(ref)
                    continue
                snapshots[ref] = _ABSENT
                if at < ticket.standing:
                    missing.append(ref)
                elif doubted or ref in self._seen:
                    missing.append(ref)
                    fresh.add(ref)
        if missing:
            await self._read(missing, snapshots, fresh)
            unsure.clear()
        return snapshots, aged

    async def _read(self, refs: list[Ref], snapshots: dict[Ref, Snapshot], fresh: Container[Ref] = ()) -> None:
        """Read, and remember: of those that are `fresh` only that they exist, for they hardly come again."""
        now = asyncio.get_running_loop().time()
        self._engine.metrics.documents_read += len(refs)
        for snapshot in await self._store.read(refs):
            ref = snapshot.ref
            snapshots[ref] = snapshot
            if ref not in fresh:
                self._cache.put(snapshot, now, approximate_size(snapshot.data))
            elif snapshot.version is not None:
                self._seen.add((ref,))

    async def _write(self, planned: Plan) -> Committed | Conflict:
        log = planned.log if self._store.keeps_log else ()
        if not planned.writes and not log:
            return Committed(())
        metrics = self._engine.metrics
        loop = asyncio.get_running_loop()
        began = loop.time()
        committed = await self._store.commit(planned.writes, log)
        if isinstance(committed, Committed):
            metrics.commit_seconds.observe(loop.time() - began)
            metrics.commits += 1
            metrics.documents_written += len(planned.writes)
            metrics.messages_per_commit.observe(len(planned.results))
        return committed

    def _remember(self, planned: Plan, snapshots: Mapping[Ref, Snapshot], done: Committed, weight: int) -> None:
        """The documents that were written, as they are now; of those nobody looked for only that they exist."""
        now = asyncio.get_running_loop().time()
        put, size = self._cache.put, weight // max(1, len(planned.writes))
        made: list[Ref] = []
        for write, version in zip(planned.writes, done.versions, strict=False):
            ref = write.ref
            if snapshots[ref] is _ABSENT:
                made.append(ref)
            elif isinstance(write, Put):
                put(Snapshot(ref, version, write.data), now, size)
        self._seen.add(made)

    def forget(self, refs: Iterable[Ref]) -> None:
        self._cache.drop(refs)

    def _forget(self, tickets: Sequence[Ticket], refs: frozenset[Ref] = frozenset()) -> set[Ref]:
        gone = set(refs) or {ref for ticket in tickets for ref in ticket.refs}
        self._cache.drop(gone)
        return gone

    async def _settle(self, tickets: Sequence[Ticket], results: Sequence[Result]) -> None:
        """Answer what is durable; bury what the plan found to be poison."""
        doomed: list[tuple[Ticket, Fault]] = []
        for ticket, result in zip(tickets, results, strict=True):
            if result.buried and not ticket.item.replay:
                self._engine.metrics.letters_buried += 1
            if result.error is None or result.settled or not isinstance(result.error, Poison | ViewError):
                ticket.settle(result)
                continue
            refusal = self._engine.refusal(ticket.item, result.error)
            if refusal is not None:
                ticket.settle(refusal)
            else:
                doomed.append((ticket, result.error))
        if doomed:
            await self.commit(await self._dig_all(doomed))

    async def _isolate(self, tickets: Sequence[Ticket], refusal: WriteRefused, unsure: set[Ref]) -> None:
        if len(tickets) > 1:
            await self._halve(tickets, unsure)
            return
        (ticket,) = tickets
        if ticket.item.letter is not None:
            # Not even the letter can be stored: the message stays with the broker.
            ticket.settle(ticket.item.unsettled(Outcome.RETRY, "letter_refused", refusal))
            return
        self._forget(tickets)
        answer = self._engine.refusal(ticket.item, refusal)
        if answer is not None:
            ticket.settle(answer)
        elif await self.dig(ticket, refusal):
            await self.commit([ticket])

    async def _survive(self, tickets: Sequence[Ticket], bug: Exception) -> None:
        """What nobody foresaw must not take neighbours along: halve until it is alone, and answer that RETRY."""
        unsure = self._forget(tickets)
        if len(tickets) > 1:
            await self._halve(tickets, unsure)
            return
        (ticket,) = tickets
        ticket.fail(bug)
        self._engine.report(bug)

    async def _halve(self, tickets: Sequence[Ticket], unsure: set[Ref]) -> None:
        """One half after the other: they may share documents, and must not race each other."""
        middle = len(tickets) // 2
        for half in (tickets[:middle], tickets[middle:]):
            await self.commit(half, unsure)

    async def _each(self, groups: Sequence[Sequence[Ticket]], unsure: set[Ref], conflicts: int) -> None:
        """Commit groups that share no document, at once; all of them end before the first error goes on."""

        async def one(group: Sequence[Ticket]) -> None:
            await self.commit(group, unsure, conflicts)

        raise_first(await run_all(one, groups, self._engine.rules.batches_in_flight_max))

    async def dig(self, ticket: Ticket, fault: Fault) -> bool:
        """Make the ticket one about its letter; False if that could not be made, and RETRY was answered."""
        try:
            letter = await self._engine.dead_letter_sink.write_letter(ticket.item, fault)
        except StoreError as error:
            both = type(error)(f"{error}; the letter is about {type(fault).__name__}: {fault}", error.code)
            ticket.settle(ticket.item.unsettled(Outcome.RETRY, "letter_not_stored", both))
            return False
        ticket.bury_as(letter, fault)
        return True

    async def _dig_all(self, doomed: Sequence[tuple[Ticket, Fault]]) -> list[Ticket]:
        """Those whose letter could be made; a slow one holds up none of the others."""
        dug = await run_all(lambda pair: self.dig(*pair), doomed, _DIGS_AT_ONCE)
        for (ticket, _), result in zip(doomed, dug, strict=True):
            if isinstance(result, Exception):
                ticket.fail(result)
                self._engine.report(result)
        return [ticket for (ticket, _), result in zip(doomed, dug, strict=True) if result is True]

    async def _back_off(
        self, tickets: Sequence[Ticket], error: StoreError, failures: int, took_s: float
    ) -> Sequence[Ticket]:
        """Wait and return the tickets that have time left for another try; the others are answered RETRY.

        Once we are told to stop there must be time to finish the try, too, which may take as long as the last.
        """
        engine, rules = self._engine, self._engine.rules
        self._note_failure(tickets, error, failures)
        if isinstance(error, AccessDenied):
            if rules.bury_when_denied:
                # Published letters are durable now. What only the store could keep is answered RETRY below.
                await self._dig_all([(t, error) for t in tickets if t.item.letter is None and t.item.bury])
            return self._expire(tickets, error, error.reason, everyone=True)
        if isinstance(error, StoreFileGone):
            return self._expire(tickets, error, error.reason, everyone=True)
        if failures >= rules.retry_attempts_max:
            return self._expire(tickets, error, "store_unavailable", everyone=True)
        pause = min(rules.retry_backoff_initial_s * 2 ** (failures - 1), rules.retry_backoff_max_s)
        pause *= self._jitter.uniform(0.5, 1.0)
        ahead_s = pause if engine.accepting else pause + took_s
        tickets = self._expire(tickets, error, "store_unavailable", ahead_s=ahead_s)
        if tickets:
            await asyncio.sleep(pause)
        return tickets

    def _note_failure(self, tickets: Sequence[Ticket], error: StoreError, attempt: int) -> None:
        engine = self._engine
        engine.metrics.store_errors[kind_of(error)] += 1
        engine.on_failed_try(error, attempt, len(tickets) + engine.waiting)

    def _expire(
        self,
        tickets: Sequence[Ticket],
        error: StoreError,
        reason: str,
        *,
        ahead_s: float = 0.0,
        everyone: bool = False,
    ) -> list[Ticket]:
        """Answer RETRY to those whose time is up (`ahead_s` from now); the rest."""
        latest = asyncio.get_running_loop().time() + ahead_s
        rest = []
        for ticket in tickets:
            if everyone or ticket.deadline <= latest:
                answer = ticket.item.unsettled(Outcome.RETRY, reason, error)
                self._engine.metrics.letters_buried += answer.buried
                ticket.settle(answer)
            else:
                rest.append(ticket)
        return rest


def _doubtful(
    tickets: Sequence[Ticket], results: Sequence[Result], snapshots: dict[Ref, Snapshot], aged: set[Ref]
) -> list[Ref]:
    """Documents a verdict rests on that no commit will check: too old in the cache, or only assumed absent.

    A stale or a duplicate event writes nothing, and neither does one found to be poison by the plan.
    """
    # Not a set: its order would differ from process to process, and with it what a torn read sees.
    found: dict[Ref, None] = {}
    for ticket, result in zip(tickets, results, strict=True):
        if result.error is not None and ticket.item.letter is None:
            found.update((ref, None) for ref in ticket.refs if ref in aged or snapshots[ref] is _ABSENT)
        elif aged and any(view.outcome in _IDLE for view in result.views):
            found.update((ref, None) for ref in ticket.refs if ref in aged)
    return list(found)
