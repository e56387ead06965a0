"""Commits a plan, and learns from the answer what other instances do. Called by the committer, for each try.

It never decides what becomes of a message: a refusal is a value, and errors of the store are the committer's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from millpond.core.model import Committed, Conflict, Ref, Version
from millpond.core.plan import Plan
from millpond.core.ports import Store
from millpond.engine.contention import OtherWriters
from millpond.engine.lane import Lane
from millpond.engine.reader import ChangedByOthers, FreshRead, Sight, SnapshotReader
from millpond.engine.ticket import Batch
from millpond.telemetry.metrics import Metrics

# In a turn the documents are read along with the commit, up to so many for each message.
_READ_AHEAD_MAX = 0.1


class RefusedCommit(NamedTuple):
    """Why a commit was refused, as far as it is known."""

    # Documents that others had changed, and that are contended.
    contended: frozenset[Ref]
    # Documents that were assumed absent, and exist. None: perhaps some, and it is unknown which.
    in_the_way: frozenset[Ref] | None


class Writer:
    def __init__(self, store: Store, metrics: Metrics, reader: SnapshotReader, others: OtherWriters) -> None:
        self._store = store
        self._metrics = metrics
        self._reader = reader
        self._others = others
        # A loop keeps only weak references to its tasks.
        self._reading: set[asyncio.Task[FreshRead | None]] = set()

    async def write(self, batch: Batch, planned: Plan, sight: Sight, began: float) -> Committed | RefusedCommit:
        """Commit the plan of a batch whose try `began` then."""
        if batch.lane is not None:
            return await self._write_in_turn(batch, batch.lane, planned, sight, began)
        committed = await self._commit(planned)
        if isinstance(committed, Conflict):
            return await self._explain(committed, planned, sight)
        if self._others.changed_share > 0:
            known = sight.assumed | sight.fresh
            trusted = sum(write.ref not in known for write in planned.writes)
            # A batch without cached documents shows little, but if no others come, the share must fall as well.
            self._others.compared(trusted or int(not sight.cached and not batch.just_read), 0)
        return committed

    async def _commit(self, planned: Plan) -> Committed | Conflict:
        log = planned.log if self._store.keeps_log else ()
        if not planned.writes and not log:
            return Committed(())
        metrics = self._metrics
        loop = asyncio.get_running_loop()
        began = loop.time()
        committed = await self._store.commit(planned.writes, log)
        if isinstance(committed, Committed):
            metrics.commit_seconds.observe(loop.time() - began)
            metrics.commits += 1
            metrics.documents_written += len(planned.writes)
            metrics.messages_per_commit.observe(len(planned.results))
        return committed

    async def _write_in_turn(
        self, batch: Batch, lane: Lane, planned: Plan, sight: Sight, began: float
    ) -> Committed | RefusedCommit:
        """Commit. If few documents have many messages, read them at the same time, in case the turn is lost.

        The next try then takes one round trip instead of two. If the turn is won, the read was in vain.
        """
        loop = asyncio.get_running_loop()
        standing = _standing(planned, sight)
        ahead: asyncio.Task[FreshRead | None] | None = None
        if 0 < len(standing) <= len(planned.results) * _READ_AHEAD_MAX:
            # It begins when the commit is sent: a read that the store answers after it shows what refused it.
            ahead = self._begin_reading(standing)
        committed = await self._commit(planned)
        took_s = loop.time() - began
        if isinstance(committed, Committed):
            lane.won(took_s, len(batch.tickets), sight.others_seen)
            return committed
        reading = None if ahead is None else await ahead
        changes = ChangedByOthers() if reading is None else self._reader.compare(reading, standing, sight.fresh)
        if changes.changed:
            lane.keep_fresh(standing)
        refusal = _refusal(committed, changes, sight)
        exists = refusal.in_the_way is None or bool(refusal.in_the_way)
        lane.lost(took_s, sight.others_seen + changes.others_seen, exists=exists)
        return refusal

    def _begin_reading(self, refs: Iterable[Ref]) -> asyncio.Task[FreshRead | None]:
        """It is not cancelled if it is not needed: a call without an answer counts as a failure of the store."""
        task = asyncio.get_running_loop().create_task(self._read_ahead(refs))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        return task

    async def _read_ahead(self, refs: Iterable[Ref]) -> FreshRead | None:
        try:
            return await self._reader.read_again(refs)
        except Exception:  # noqa: BLE001 - the next turn reads, and whatever is wrong shows there
            return None

    async def _explain(self, conflict: Conflict, planned: Plan, sight: Sight) -> RefusedCommit:
        """Find the documents that others changed, unless the store has named them.

        Only those that stood there before are read, and the next try plans with what was read.
        """
        if conflict.refs or conflict.exists:
            return _refusal(conflict, ChangedByOthers(), sight)
        standing = _standing(planned, sight)
        changes = self._reader.compare(await self._reader.read_again(standing), standing, sight.fresh)
        # Those that had just been read say nothing about cached ones.
        trusted = [ref for ref in standing if ref not in sight.fresh]
        self._others.compared(len(trusted), sum(ref in changes.changed for ref in trusted))
        # If none has changed, either two commits contended for locks, or a document that was assumed absent exists.
        return _refusal(conflict._replace(exists=not changes.changed), changes, sight)


def _standing(planned: Plan, sight: Sight) -> dict[Ref, Version | None]:
    """The versions that a commit is based on, of documents that were read or cached."""
    return {write.ref: write.base for write in planned.writes if write.ref not in sight.assumed}


def _refusal(conflict: Conflict, changes: ChangedByOthers, sight: Sight) -> RefusedCommit:
    if conflict.refs:
        return RefusedCommit(conflict.refs - sight.assumed, in_the_way=conflict.refs & sight.assumed)
    return RefusedCommit(changes.contended, in_the_way=None if conflict.exists else frozenset())
