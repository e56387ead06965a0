"""Counts of the event log on Firestore, by topic and outcome. For people; called by `catalog`.

A short log is read, and each message counts once. A long one would cost a read for each segment, so Firestore sums
what every commit counted: a message counts once for each commit that logged it as settled. docs/firestore.md lists
when that is more than once, or not at all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from millpond.concurrency import in_thread
from millpond.core.collections import EVENT_LOG, EVENT_SEGMENTS
from millpond.core.model import Outcome, Snapshot
from millpond.stores.firestore.event_log import all_entries
from millpond.stores.firestore.queries import Queries
from millpond.stores.firestore.segments import COUNT_KEYS, SHARDS, last_id

# A log with at most so many segments and old entries is read.
SEGMENTS_READ_MAX = 50
OLD_READ_MAX = 200
# Topic → outcome → number of messages.
Counts = dict[str, dict[str, int]]


class LogCounts:
    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    async def count(self) -> Counts:
        # One more than may be read, and the list of keys.
        segments = await self._queries.count(EVENT_SEGMENTS, up_to=SEGMENTS_READ_MAX + 2)
        old = await self._queries.count(EVENT_LOG, up_to=OLD_READ_MAX + 1)
        if segments <= SEGMENTS_READ_MAX + 1 and old <= OLD_READ_MAX:
            found = await self._queries.by_id(EVENT_SEGMENTS, ids=(SHARDS[0], last_id(SHARDS[-1])))
            found += await self._queries.by_id(EVENT_LOG)
            return await in_thread(lambda: _count_messages(found))
        counts = await self._sums()
        for topic, outcomes in (await self._count_old()).items():
            mine = counts.setdefault(topic, {})
            for outcome, n in outcomes.items():
                mine[outcome] = mine.get(outcome, 0) + n
        # A replay takes its letter's count back; the letter may be an old entry, or may have expired.
        left = {topic: {o: n for o, n in outcomes.items() if n > 0} for topic, outcomes in counts.items()}
        return {topic: outcomes for topic, outcomes in left.items() if outcomes}

    async def _sums(self) -> Counts:
        found = await self._queries.by_id(EVENT_SEGMENTS, 1, ids=(COUNT_KEYS.id, COUNT_KEYS.id + "."))
        keys = [key for one in found for key in (one.data or {})["keys"]]
        sums = await self._queries.sums(EVENT_SEGMENTS, [("counts", key) for key in keys])
        counts: Counts = {}
        for key, n in zip(keys, sums, strict=True):
            outcome, _, topic = key.partition(" ")
            counts.setdefault(topic, {})[outcome] = n
        return counts

    async def _count_old(self) -> Counts:
        """Firestore counts, topic by topic: only one document per topic is read."""
        counts: Counts = {}
        topic = await self._next_topic(None)
        while topic is not None:
            is_topic = ("topic", "EQUAL", topic)
            numbers = await asyncio.gather(
                *(self._queries.count(EVENT_LOG, is_topic, ("outcome", "EQUAL", str(o))) for o in Outcome)
            )
            counts[topic] = {str(o): n for o, n in zip(Outcome, numbers, strict=True) if n}
            topic = await self._next_topic(topic)
        return counts

    async def _next_topic(self, after: str | None) -> str | None:
        filters = () if after is None else (("topic", "GREATER_THAN", after),)
        page = await self._queries.where(EVENT_LOG, *filters, order_by="topic", limit=1)
        return (page[0].data or {})["topic"] if page else None


def _count_messages(snapshots: Sequence[Snapshot]) -> Counts:
    counts: Counts = {}
    found = Counter((entry.topic, str(entry.result.outcome)) for entry in all_entries(snapshots))
    for (topic, outcome), n in sorted(found.items()):
        counts.setdefault(topic, {})[outcome] = n
    return counts
