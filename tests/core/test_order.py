"""The one claim everything rests on: whatever the order, duplication and batching, the documents end the same."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from millpond import DELETE, Event, Latest
from millpond.core import timestamps
from millpond.core.document import canonical_json
from millpond.core.model import Delivery
from tests.common.pond import NOW, SECOND, Pond, at, delivery, service, signal, tick

UPDATES = [
    signal("u1", 0, eventId="e1", symbol="SPY", state="new", price=10, createdAt=at(0), updatedAt=at(0)),
    signal("u2", 2, eventId="e2", state="ack", confidence=0.5, updatedAt=at(1)),
    signal("u3", 1, eventId="e3", state="executed", version=1, updatedAt=at(0)),
    signal("u4", 3, eventId="e2", state="ack", confidence=0.5, updatedAt=at(1)),
    signal("u5", 3, eventId="e5", reason="partial", price=11, updatedAt=at(2)),
]
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
    "a signal created, acknowledged, executed, republished and corrected": UPDATES,
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


def test_each_field_is_the_newest_that_names_it() -> None:
    """Also where a sequence outranks a later time. All of it sent again is a duplicate and changes nothing."""
    pond = Pond()
    pond.send(*UPDATES)
    document = pond.get("trade_signals/s1")
    expected = {"symbol": "SPY", "state": "executed", "price": 11, "confidence": 0.5, "reason": "partial"}
    assert {name: document[name] for name in expected} == expected
    assert document["createdAt"].timestamp() == at(0)
    before = pond.state()
    assert [str(pond.send(message)[0].outcome) for message in reversed(UPDATES)] == ["duplicate"] * 5
    assert pond.state() == before


def test_ties_go_to_sequence_then_publish_time_then_message_id() -> None:
    """At one event time a sequence beats none, a greater one a lesser; then publish time, then message id."""
    pond = Pond()
    arrivals = [
        (tick("b", 1, 0, 1), "applied"),
        (tick("a", 1, 0, 2), "stale_event_ignored"),
        (tick("c", 1, 0, 3), "applied"),
        (tick("a2", 0, 0, 4), "stale_event_ignored"),
        (tick("a3", 2, 0, 5), "applied"),
        (tick("a4", 0, 0, 6, sequence=0), "applied"),
        (tick("z", 3, 0, 7), "stale_event_ignored"),
        (tick("a5", 0, 0, 8, seq="10"), "applied"),
        (tick("z2", 3, 0, 9, sequence=9), "stale_event_ignored"),
        (tick("a6", 0, 0, 10, sequence=2**63 - 1), "applied"),
    ]
    for message, reason in arrivals:
        assert pond.send(message)[0].views[0].reason == reason, message.message_id
    assert pond.get("market_ticks_latest/SPY")["price"] == 10


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


@pytest.mark.parametrize(
    ("settings", "skew_s"), [({}, 300), ({"MAX_FUTURE_SKEW_S": "10"}, 10), ({"MAX_FUTURE_SKEW_S": "0"}, 0)]
)
def test_a_future_clock_cannot_freeze_a_document(settings: dict[str, str], skew_s: int) -> None:
    """More than MAX_FUTURE_SKEW_S ahead of publish time orders as publish time, and is kept as sent."""
    pond = Pond(None, **settings)
    ahead = skew_s + 1e-6

    def sent(message_id: str, publish_s: float, ts: float) -> str:
        return pond.send(tick(message_id, publish_s, ts, publish_s))[0].views[0].reason

    assert sent("m1", 0, ahead) == "applied"
    shown = pond.get("market_ticks_latest/SPY")["lastTickAt"]
    assert timestamps.from_datetime(shown) == NOW + skew_s * SECOND + 1
    assert sent("m2", 1, 1) == "applied"
    # Up to the limit a time is believed.
    assert sent("m3", 2, skew_s + 2) == "applied"
    assert sent("m4", 3, skew_s + 1) == "stale_event_ignored"


def test_lateness_is_a_function_of_the_message() -> None:
    """An outage or a replay makes nothing late: our clock is not asked."""
    pond = Pond()
    pond.now = NOW + 10**6 * SECOND
    assert pond.send(tick("m1", 899, 0, 1))[0].views[0].reason == "applied"
    assert pond.send(tick("m2", 901, 0, 2))[0].views[0].reason == "too_old_ignored"
