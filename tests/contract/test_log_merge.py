"""A log of segments, merged when it is read, is the log of a store that completes entries when it appends."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millpond.core.model import LogEntry, Outcome, Snapshot
from millpond.stores.firestore.event_log import all_entries
from millpond.stores.firestore.segments import encode_segments
from millpond.stores.memory import MemoryStore
from tests.common.properties import examples
from tests.contract.writes import LOGS, START, entry


def logged(fields: dict[str, Any], arrived_at: int, settled: set[tuple[str, str]]) -> LogEntry:
    message_id, event_id, data = fields["message"]
    outcome, message = fields["outcome"], (message_id, fields["topic"])
    if message in settled and outcome is Outcome.APPLIED:
        # No engine applies a message twice.
        outcome = Outcome.DUPLICATE
    if outcome is not Outcome.POISON:
        settled.add(message)
    more = {"event_id": event_id, "data": data, "replay": fields["replay"], "arrived_at": arrived_at}
    return entry(message_id, outcome, topic=fields["topic"], **more)


async def everything(store: MemoryStore) -> list[LogEntry]:
    return list((await store.read_log(None, 1_000)).entries)


@given(st.lists(LOGS, max_size=6))
@examples(400)
def test_segments_say_what_the_other_stores_say(commits: list[list[dict[str, Any]]]) -> None:
    """Buried, replayed under the same topic or another one, redelivered: in any order, in any number of commits."""
    memory, segments, settled = MemoryStore(), list[Snapshot](), set[tuple[str, str]]()
    at = START
    for fields in commits:
        log = [logged(one, at + n, settled) for n, one in enumerate(fields, 1)]
        at += len(log)
        asyncio.run(memory.commit([], log))
        segments += [Snapshot(put.ref, None, put.data) for put in encode_segments(log, at, None)]
    assert plain(all_entries(segments)) == plain(asyncio.run(everything(memory)))


def plain(entries: list[LogEntry]) -> list[str]:
    """What is known of each message, in any order. That it came by a replay is told to the store, and not kept."""
    return sorted(
        repr((e.delivery.message_id, e.topic, e.arrived_at, e.result.outcome, e.delivery.data)) for e in entries
    )
