"""Commits a plan, and learns from the answer what other instances do. Called by the committer, for each try.

It never decides what becomes of a message: a conflict is a value, and errors of the store are the committer's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from millpond.core.errors import StoreError
from millpond.core.model import Committed, Conflict, Ref, Version
from millpond.core.plan import Plan
from millpond.core.ports import Store
from millpond.engine.contention import OtherWriters
from millpond.engine.lane import Lane
from millpond.engine.reader import Sight, SnapshotReader, count_commits
from millpond.engine.ticket import Batch
from millpond.telemetry.metrics import Metrics

# In a turn the documents are read along with the commit, up to so many for each message.
_READ_AHEAD_MAX = 0.1


class Writer:
    def __init__(self, store: Store, metrics: Metrics, reader: SnapshotReader, others: OtherWriters) -> None:
        self._store = store
        self._metrics = metrics
        self._reader = reader
        self._others = others

    async def write(self, batch: Batch, planned: Plan, sight: Sight, began: float) -> Committed | Conflict:
        """Commit the plan of a batch whose try `began` then. A conflict names documents if they are known."""
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
    ) -> Committed | Conflict:
        """Commit. If few documents have many messages, read them at the same time, in case the turn is lost.

        The next try then takes one round trip instead of two. If the turn is won, the read was in vain.
        """
        loop = asyncio.get_running_loop()
        standing = _standing(planned, sight)
        ahead: asyncio.Task[dict[Ref, Version | None]] | None = None
        if 0 < len(standing) <= len(planned.results) * _READ_AHEAD_MAX:
            # The task begins when the commit is sent and awaited: a read that comes after it shows what refused it.
            ahead = loop.create_task(self._read_ahead(standing))
        try:
            committed = await self._commit(planned)
            if isinstance(committed, Committed):
                lane.won(loop.time() - began, len(batch.tickets), sight.others_seen)
                return committed
            changed = {} if ahead is None else await ahead
        finally:
            if ahead is not None:
                ahead.cancel()
        if changed:
            lane.keep_fresh(standing)
            self._others.contend(changed, loop.time())
        lane.lost(loop.time() - began, sight.others_seen + count_commits(changed.values(), len(standing)))
        return committed

    async def _read_ahead(self, versions: Mapping[Ref, Version | None]) -> dict[Ref, Version | None]:
        try:
            return await self._reader.find_changed(versions)
        except StoreError:
            # The next turn reads them, and it is the next turn that fails if the store still does.
            return {}

    async def _explain(self, conflict: Conflict, planned: Plan, sight: Sight) -> Conflict:
        """Find the documents that others changed, unless the store has named them.

        Only those that stood there before are read, and the next try plans with what was read.
        """
        if conflict.refs or conflict.exists:
            return conflict
        standing = _standing(planned, sight)
        changed = await self._reader.find_changed(standing)
        # Those that had just been read say nothing about cached ones.
        trusted = [ref for ref in standing if ref not in sight.fresh]
        self._others.compared(len(trusted), sum(ref in changed for ref in trusted))
        # If none has changed, either two commits contended for locks, or a document that was assumed absent exists.
        return Conflict(frozenset(changed), exists=not changed)


def _standing(planned: Plan, sight: Sight) -> dict[Ref, Version | None]:
    """The versions that a commit is based on, of documents that were read or cached."""
    return {write.ref: write.base for write in planned.writes if write.ref not in sight.assumed}
