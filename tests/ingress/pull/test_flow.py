"""Many messages: a backlog, a room smaller than the flow, several subscriptions, ordering keys."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.common.sqlite_files import message_ids
from tests.ingress.pull.support import RATE, SALES, Pull, PullBroker, counted, sold

BACKLOG = 20_000


@pytest.fixture(autouse=True)
def sales(tmp_path: Path) -> None:
    (tmp_path / "sales.py").write_text(SALES)


def test_a_backlog_is_worked_off(
    pull: Pull, broker: PullBroker, record_property: Callable[[str, object], None]
) -> None:
    """All of it, each message once. How fast is printed below; the emulator hands out 2,000 a second at most."""
    topic = broker.topic("backlog")
    subscription = broker.subscription("backlog-pull", topic)
    sales = [{"topic": "sales", "shop": f"s{n % 50}", "amount": n} for n in range(BACKLOG)]
    ids = broker.publish_all(topic, sales)
    pulling = pull("backlog-pull", VIEWS="sales")
    lines = pulling.wait_for_lines(BACKLOG)
    assert {line["ack_action"] for line in lines} == {"ack"}
    assert counted(pulling) == sold(sales)
    assert pulling.terminate() == 0
    assert message_ids(pulling.store) == set(ids)
    assert broker.unacknowledged(subscription) == set()
    first, last = (dt.datetime.fromisoformat(lines[at]["timestamp"]) for at in (0, -1))
    record_property(RATE, round(BACKLOG / (last - first).total_seconds()))


def test_two_subscriptions_share_a_room_for_one(pull: Pull, broker: PullBroker) -> None:
    """The room is full whenever both bring a message; then one waits, leased, and none is given back."""
    subscriptions, sales = [], []
    for name in ("north", "south"):
        topic = broker.topic(name)
        subscriptions.append(broker.subscription(f"{name}-pull", topic))
        own = [{"topic": "sales", "shop": f"{name}{n % 3}", "amount": n} for n in range(60)]
        broker.publish_all(topic, own)
        sales += own
    pulling = pull("north-pull", subscriptions[1], VIEWS="sales", CONSUMER_QUEUE_SIZE="1")
    lines = pulling.wait_for_lines(len(sales))
    assert {line["ack_action"] for line in lines} == {"ack"}
    assert {line["subscription"] for line in lines} == set(subscriptions)
    assert pulling.output[1] == f"Pulls {', '.join(subscriptions)}"
    assert counted(pulling) == sold(sales)
    assert pulling.notes("WARNING", "ERROR") == []
    assert pulling.terminate() == 0
    assert [broker.unacknowledged(subscription) for subscription in subscriptions] == [set(), set()]


def test_messages_with_one_ordering_key_come_one_after_the_other(pull: Pull, broker: PullBroker) -> None:
    """In the order they were published, though the keys are mixed and the room is small."""
    topic = broker.topic("ordered")
    subscription = broker.subscription("ordered-pull", topic, enable_message_ordering=True)
    sales = [{"topic": "sales", "shop": "s", "amount": n} for n in range(60)]
    keys = ("k0", "k1", "k2")
    ids = broker.publish_all(topic, sales, keys)
    pulling = pull("ordered-pull", VIEWS="sales", CONSUMER_QUEUE_SIZE="4")
    came = defaultdict(list)
    for line in pulling.wait_for_lines(len(ids)):
        came[ids.index(line["messageId"]) % len(keys)].append(line["messageId"])
    assert dict(came) == {n: ids[n :: len(keys)] for n in range(len(keys))}
    assert counted(pulling) == sold(sales)
    assert pulling.terminate() == 0
    assert broker.unacknowledged(subscription) == set()
