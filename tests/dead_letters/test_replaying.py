"""Replaying a letter, or a message of a dead-letter subscription."""

from __future__ import annotations

from millpond import Event, Latest
from millpond.core.model import Document
from tests.common.faulty_store import FaultyStore
from tests.common.pond import at, delivery, service
from tests.common.rig import Bench
from tests.engine.support import outcomes


async def test_replaying_a_letter_never_undoes_newer_state() -> None:
    """It keeps its message id and publish time: twice is a duplicate, after newer events it is stale."""
    bench = Bench(FaultyStore())
    lost = delivery({"service": "api", "status": "old", "producedAt": at(1)}, "m1", 1)
    (buried,) = await bench.send(lost)
    assert buried.reason == "unroutable_payload"
    await bench.send(delivery({"service": "late", "status": "old"}, "m2", 1))
    healed = Bench(bench.store, SOURCE_TOPIC="system.events")
    first = await healed.service.replay_letter("s__m1")
    second = await healed.service.replay_letter("s__m1")
    assert first is not None
    assert second is not None
    assert (first.reason, second.reason) == ("applied", "duplicate_message_noop")
    letter = await healed.document("dead_letters/s__m1")
    assert (letter["replays"], letter["replayReason"]) == (2, "duplicate_message_noop")
    assert (await healed.store.count_events())["system.events"] == {"applied": 1}
    await healed.send(delivery({"service": "late", "status": "new", "producedAt": at(2)}, "m3", 2))
    stale = await healed.service.replay_letter("s__m2")
    assert stale is not None
    assert (stale.outcome, stale.reason) == ("stale_ignored", "stale_event_ignored")
    assert (await healed.document("ops_services/dev__late"))["status"] == "new"
    assert await healed.service.replay_letter("missing") is None


async def test_what_its_sender_keeps_is_never_buried() -> None:
    """A message of a dead-letter subscription stays there when it fails again: poison, a bug, a refused write."""

    class Buggy(Latest):
        topics = ("buggy",)
        collection = "buggy"
        key = "id"

        def document(self, event: Event) -> Document:
            raise RuntimeError(event.topic)

    bench = Bench(FaultyStore(), POISON_POLICY="park", VIEW_ERROR_PARK_AFTER_S="0")
    bench.add(Buggy())
    bench.store.refused.add("refused")
    replay = bench.service.replay_delivery
    poison = await replay(delivery({"service": "x", "timestamp": "?"}, "m1"))
    bug = await replay(delivery({"topic": "buggy", "id": "x"}, "m2"))
    refused = await replay(service("m3", 1, "refused", 1))
    fine = await replay(service("m4", 1, "ok", 1))
    assert outcomes([poison, bug, refused, fine]) == ["invalid_event", "view_error", "write_refused", "applied"]
    assert [result.settled for result in (poison, bug, refused, fine)] == [False, False, False, True]
    assert await bench.store.list_documents("dead_letters", 10, None) == []
