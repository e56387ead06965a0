"""Every kind of document that Millpond writes, made by the real code on a memory store.

The event log is not among them: the memory store keeps it beside its documents.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections import defaultdict

from millpond.core.collections import FLOW_RUNS
from millpond.core.model import Document, Outcome, Ref
from millpond.dead_letters.correction import Edit
from millpond.dead_letters.store import letter_ref
from millpond.flow.statuses import FAILED
from millpond.service.service import Service
from millpond.stores.memory import MemoryStore
from tests.common.pond import at, delivery
from tests.common.rig import Rig

# Every name under which a built-in view copies a time, and what makes the view take the event.
_TIMES = ("producedAt", "publishedAt", "ts", "start", "end", "timestamp", "createdAt", "decisionAt", "updatedAt")
_NAMES = {"symbol": "SPY", "service": "api", "pipeline_id": "p", "signalId": "s", "eventId": "e"}
_TOPICS = ("system.events", "ingest-heartbeat", "market-ticks", "market-bars-1m", "trade-signals")
# Each changes the fields of a view, or the collection of its documents.
_FORMS = ({"BARS_ID": "natural"}, {"BARS_ID": "nested"}, {"BARS_ID": "event", "SIGNALS_ID": "event"})
_RUN = {"runId": "r", "steps": {"charts": {"status": "READY", "stepType": "CHART_EXPORT", "inputs": {}}}}


@functools.cache
def written_documents() -> dict[str, list[Document]]:
    """By the id of the collection: views, receipts, letters with parts, a rebuild's mark, a run, an hour's sums."""
    return asyncio.run(_written())


async def _written() -> dict[str, list[Document]]:
    found: dict[str, list[Document]] = defaultdict(list)
    for form in _FORMS:
        # By the real clock: the sums of each minute are counted by it.
        service = Rig(MemoryStore(), None, lambda: time.time_ns() // 1_000, **form).service
        await _write_views(service)
        if form is _FORMS[0]:
            service.start()
            await _write_letters(service)
            await _write_the_rest(service)
        await service.close()
        for collection, count in await service.store.collections():
            snapshots = await service.store.list_documents(collection, count, None)
            found[collection.rpartition("/")[2]] += [one.data for one in snapshots if one.data is not None]
    return found


async def _write_views(service: Service) -> None:
    # The text stays text: payloads are kept as they came.
    full = {**dict.fromkeys(_TIMES, at(0)), **_NAMES, "noted": "2026-01-08T12:40:00Z"}
    for topic in _TOPICS:
        result = await service.handle(delivery({**full, "topic": topic}, topic))
        assert result.outcome is Outcome.APPLIED, (topic, result)


async def _write_letters(service: Service) -> None:
    """One that is edited and replayed, and one that is stored in parts."""
    small = delivery({"topic": "ingest-heartbeat", "status": "lost"}, "small")
    # Cannot be compressed.
    noise = random.Random(1).randbytes(1_000_000).hex()
    large = delivery({"topic": "ingest-heartbeat", "noise": noise}, "large")
    for poison in (small, large):
        assert (await service.handle(poison)).outcome is Outcome.POISON
    letter = letter_ref(small).id
    assert await service.edit_letter(letter, Edit(b'{"topic": "ingest-heartbeat", "service": "mended"}', "op"))
    replayed = await service.replay_letter(letter)
    assert replayed is not None
    assert replayed.outcome is Outcome.APPLIED


async def _write_the_rest(service: Service) -> None:
    opening = service.rebuild("ops_services")
    assert opening is not None
    async with opening as rebuild:
        await rebuild.fold()
        await rebuild.swap()
    await service.flow.submit(_RUN)
    async with asyncio.timeout(30):
        while not await _is_over(service):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.05)


async def _is_over(service: Service) -> bool:
    """Whether the step has ended, and the sums were counted, which happens once a second."""
    (run,) = await service.store.read([Ref(FLOW_RUNS, "r")])
    assert run.data is not None
    return run.data["steps"]["charts"]["status"] == FAILED and any((await service.day.shown()).commits)
