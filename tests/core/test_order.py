"""The one claim everything rests on: whatever the order, duplication and batching, the documents end the same."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from millpond import DELETE, Event, Latest
from millpond.core.document import canonical_json
from millpond.core.model import Delivery
from tests.common.pond import NOW, SECOND, Orders, Pond, at, delivery, order, service, signal, tick

HISTORIES = {
    # README of the specification: e1 at publish 1, e2 at 2, e1 republished at 3.
    "an event republished after a tie": [
        tick("m1", 1, 0, 10),
        tick("m2", 2, 0, 20),
        tick("m3", 3, 0, 10),
    ],
    "equal everything but the message id": [tick("a", 1, 0, 1), tick("b", 1, 0, 2), tick("c", 1, 0, 3)],
    "a sequence breaks a tie": [tick("m1", 3, 0, 1, seq=1), tick("m2", 1, 0, 2, seq=2), tick("m3", 9, 0, 3)],
    "one clock far in the future": [tick("m1", 1, 90_000, 1), tick("m2", 2, 2, 2), tick("m3", 0, 301, 3)],
    "services with equal timestamps": [
        service("m1", 1, "ok", 0),
        service("m2", 2, "down", 0),
        service("m3", 3, "ok", 0),
        service("m4", 0, "slow", 5),
    ],
    "partial updates of one signal": [
        signal("m1", 1, updatedAt=at(1), state="new", price=1),
        signal("m2", 2, updatedAt=at(2), state="ack", confidence=0.5),
        signal("m3", 3, updatedAt=at(3), price=3),
        signal("m4", 4, updatedAt=at(2), reason="late news"),
    ],
    "sequenced and unsequenced updates": [
        signal("m1", 1, updatedAt=at(100), state="unsequenced"),
        signal("m2", 2, updatedAt=at(1), state="second", sequence=2),
        signal("m3", 3, updatedAt=at(2), state="first", sequence=1),
        signal("m4", 4, updatedAt=at(1), state="second", sequence=2),
    ],
}  # fmt: skip


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
def test_every_order_and_every_batching_ends_the_same(history: list[Delivery]) -> None:
    """All permutations, each message twice, in batches of one, two and all."""
    ends = set()
    for permutation in itertools.permutations(history):
        for size in (1, 2, len(history) * 2):
            pond = Pond()
            twice = [*permutation, *reversed(permutation)]
            for start in range(0, len(twice), size):
                pond.send(*twice[start : start + size])
            ends.add(canonical_json(pond.state()))
    assert len(ends) == 1


@pytest.mark.parametrize("seed", range(30))
def test_random_histories_equal_a_plain_fold(seed: int) -> None:
    """Against an oracle that knows nothing of the product: sort by the tuple, the last one wins."""
    chance = random.Random(seed)
    events = []
    for number in range(12):
        ts, seq = chance.randrange(3), chance.choice([None, 1, 2])
        publish = chance.randrange(4)
        events.append(((ts, -1 if seq is None else seq, publish, f"m{number:02}"), number))
    messages = {}
    for (ts, seq, publish, message_id), number in events:
        extra = {} if seq < 0 else {"seq": seq}
        messages[number] = tick(message_id, publish, ts, number, **extra)
    arrivals = [number for _, number in events] * 2
    chance.shuffle(arrivals)
    pond = Pond()
    while arrivals:
        size = chance.randrange(1, 6)
        pond.send(*(messages[number] for number in arrivals[:size]))
        arrivals = arrivals[size:]
    assert pond.get("market_ticks_latest/SPY")["price"] == max(events)[1]


def test_redelivery_changes_nothing_without_any_receipt() -> None:
    """Receipts never decide a last-write-wins document."""
    history = [service(f"m{n}", n, status, n % 2) for n, status in enumerate(["a", "b", "c", "d"])]
    pond = Pond()
    pond.send(*history)
    before = pond.state()
    pond.documents = {ref: doc for ref, doc in pond.documents.items() if ref.collection != "ops_dedupe"}
    for message in reversed(history):
        pond.send(message)
    assert pond.state() == before


def test_a_tally_counts_each_logical_event_once() -> None:
    """Redelivered, republished under a new id, in one batch or several."""
    history = [order("m1", 10, 1), order("m2", 10, 2), order("m3", 10, 1, publish_s=5), order("m1", 10, 1)]
    for permutation in itertools.permutations(history):
        for size in (1, 2, 4):
            pond = Pond([Orders()])
            for start in range(0, 4, size):
                pond.send(*permutation[start : start + size])
            assert {k: pond.get("sales/d1")[k] for k in ("count", "sum")} == {"count": 2, "sum": 20}


def test_a_batch_answers_as_if_its_events_had_come_one_by_one() -> None:
    """Coalescing is invisible: each message has the outcome it would have had alone."""
    history = [
        service("m1", 1, "a", 1),
        service("m2", 2, "b", 3),
        service("m3", 3, "c", 2),
        service("m2", 2, "b", 3),
    ]
    together = Pond()
    alone = Pond()
    batch = [(result.outcome, result.reason) for result in together.send(*history)]
    single = [(result.outcome, result.reason) for message in history for result in alone.send(message)]
    assert batch == single
    assert [reason for _, reason in batch] == [
        "applied",
        "applied",
        "stale_event_ignored",
        "duplicate_message_noop",
    ]
    assert together.state() == alone.state()


class Parcels(Latest):
    topics = ("parcels",)
    collection = "parcels"
    key = "id"
    time = "ts"

    def document(self, event: Event) -> Any:
        return DELETE if event.get("gone") else {"where": event.require("where")}


def test_a_deleted_document_is_not_resurrected() -> None:
    """A tombstone keeps the stamp, so an older event stays older."""
    new = delivery({"topic": "parcels", "id": "p", "ts": at(1), "where": "depot"}, "m1", 1)
    gone = delivery({"topic": "parcels", "id": "p", "ts": at(2), "gone": True}, "m2", 2)
    back = delivery({"topic": "parcels", "id": "p", "ts": at(3), "where": "door"}, "m3", 3)
    pond = Pond([Parcels()])
    pond.send(gone)
    assert pond.send(new)[0].reason == "stale_event_ignored"
    assert pond.get("parcels/p")["deleted"] is True
    pond.send(back)
    assert pond.get("parcels/p")["where"] == "door"
    assert "deleted" not in pond.get("parcels/p")


def test_a_future_clock_cannot_freeze_a_document() -> None:
    """More than MAX_FUTURE_SKEW_S ahead of publish time counts as publish time; up to it is believed."""
    pond = Pond()
    pond.send(tick("m1", 0, 10_000, 1))
    assert pond.send(tick("m2", 1, 1, 2))[0].views[0].reason == "applied"
    pond.send(tick("m3", 2, 302, 3))
    assert pond.send(tick("m4", 3, 301, 4))[0].views[0].reason == "stale_event_ignored"


def test_lateness_is_a_function_of_the_message() -> None:
    """An outage or a replay makes nothing late: our clock is not asked."""
    pond = Pond()
    pond.now = NOW + 10**6 * SECOND
    assert pond.send(tick("m1", 899, 0, 1))[0].views[0].reason == "applied"
    assert pond.send(tick("m2", 901, 0, 2))[0].views[0].reason == "too_old_ignored"
