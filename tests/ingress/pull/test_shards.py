"""Two workers on one database, each the owner of two shards of the keys.

The emulator of the tests (0.8.20) stores the filter of a subscription and ignores it. So each shard has a topic
here, which the producer chooses; with filters Pub/Sub does that. What the workers are given is the same either way.
"""

from __future__ import annotations

import json
import re
import types
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.pubsub_v1.types import PubsubMessage

from millpond import shard_of
from tests.common.waiting import eventually
from tests.ingress.pull.support import PATIENCE_S, SALES, Pull, PullBroker, Pulling, counted, sold

# No multiple of the shards, or every shop would have its own shard also in turn.
SHOPS = 25
SHARDS, WORKERS, MANY = 4, 2, 600
PAGE = (Path(__file__).parents[3] / "docs" / "pull.md").read_text(encoding="utf-8")
Sale = dict[str, Any]
Shard = Callable[[int, Sale], str]


def owned(_: int, sale: Sale) -> str:
    return shard_of(sale["shop"], SHARDS)


def in_turn(number: int, _: Sale) -> str:
    return f"{number % SHARDS}"


class Fleet:
    """A topic and a subscription for each shard, and workers that have a share of them each."""

    def __init__(self, broker: PullBroker, pull: Pull, firestore: str) -> None:
        self._broker = broker
        self._topics = {f"{shard}": broker.topic(f"sales-{shard}") for shard in range(SHARDS)}
        self.subscriptions = [
            broker.subscription(f"sales-pull-{shard}", topic) for shard, topic in self._topics.items()
        ]
        settings = {"ENV": "test", "SYSTEM_EVENTS_TOPIC": "system.events", "DEFAULT_REGION": "local"}
        settings |= {"STORE": "firestore", "FIRESTORE_EMULATOR_HOST": firestore, "VIEWS": "sales"}
        # As Terraform deals them out: by their number, modulo the workers.
        self.workers: list[Pulling] = [
            pull(*self.subscriptions[worker::WORKERS], **settings) for worker in range(WORKERS)
        ]

    def publish(self, sales: list[Sale], shard: Shard) -> None:
        """A producer that marks each message with its shard."""
        messages: defaultdict[str, list[PubsubMessage]] = defaultdict(list)
        for number, sale in enumerate(sales):
            mark = shard(number, sale)
            messages[mark].append(PubsubMessage(data=json.dumps(sale).encode(), attributes={"shard": mark}))
        for mark, of_shard in messages.items():
            self._broker.publisher.publish(topic=self._topics[mark], messages=of_shard)

    def settle(self, count: int) -> list[set[str]]:
        """Wait until so many messages are settled; the documents that each worker wrote."""
        eventually(lambda: sum(len(worker.lines) for worker in self.workers) >= count, PATIENCE_S)
        assert {line["ack_action"] for worker in self.workers for line in worker.lines} == {"ack"}
        return [
            {view["doc_path"] for line in worker.lines for view in line["docs"] if view["write_kind"] != "none"}
            for worker in self.workers
        ]

    def conflicts(self) -> int:
        return sum(_metric(worker, "millpond_conflicts_total") for worker in self.workers)

    def end(self) -> list[set[str]]:
        """Tell all workers to stop; what each subscription would deliver again."""
        assert [worker.terminate() for worker in self.workers] == [0] * WORKERS
        return [self._broker.unacknowledged(subscription) for subscription in self.subscriptions]


def _metric(worker: Pulling, name: str) -> int:
    found = re.findall(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", worker.http.get("/metrics").text, re.MULTILINE)
    assert found, name
    return sum(int(float(value)) for value in found)


@pytest.fixture(autouse=True)
def sales_view(tmp_path: Path) -> None:
    (tmp_path / "sales.py").write_text(SALES)


@pytest.fixture
def fleet(broker: PullBroker, pull: Pull, firestore_emulator: str) -> Fleet:
    return Fleet(broker, pull, firestore_emulator)


def made_up() -> list[Sale]:
    return [{"topic": "sales", "shop": f"shop-{n % SHOPS}", "amount": n} for n in range(MANY)]


def test_each_document_has_one_writer(fleet: Fleet) -> None:
    """With the shard of their key, no document is written by two workers, and no commit meets another writer."""
    sales = made_up()
    fleet.publish(sales, owned)
    first, second = fleet.settle(MANY)
    assert first.isdisjoint(second)
    assert first | second == {f"sales/{sale['shop']}" for sale in sales}
    assert min(len(first), len(second)) > 0
    assert fleet.conflicts() == 0
    assert counted(fleet.workers[0]) == sold(sales)
    assert fleet.end() == [set()] * SHARDS


def test_wrong_shards_cost_contention_only(fleet: Fleet, record_property: Callable[[str, object], None]) -> None:
    """Marked without regard to their keys, messages of one document go to both workers; the documents are right."""
    sales = made_up()
    fleet.publish(sales, in_turn)
    first, second = fleet.settle(MANY)
    assert first == second == {f"sales/{sale['shop']}" for sale in sales}
    record_property(
        "measured", f"{fleet.conflicts()} conflicts of {WORKERS} workers without owners, {MANY} messages"
    )
    assert counted(fleet.workers[0]) == sold(sales)
    assert fleet.end() == [set()] * SHARDS


def test_a_message_of_two_subscriptions_counts_once(pull: Pull, broker: PullBroker) -> None:
    """While a number of shards is replaced by another, the old and the new subscriptions have the same messages."""
    topic = broker.topic("both")
    subscriptions = [broker.subscription(name, topic) for name in ("old-pull", "new-pull")]
    sales = made_up()
    ids = broker.publish_all(topic, sales)
    pulling = pull(*subscriptions, VIEWS="sales")
    lines = pulling.wait_for_lines(2 * MANY)
    assert sorted(line["messageId"] for line in lines) == sorted(ids * 2)
    assert {line["outcome"] for line in lines} == {"applied", "duplicate"}
    assert counted(pulling) == sold(sales)
    assert pulling.terminate() == 0
    assert [broker.unacknowledged(subscription) for subscription in subscriptions] == [set(), set()]


def test_the_producer_on_the_page_sets_the_shard(broker: PullBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code is run as it stands; symbols are taken as the views read them, in upper case."""
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", broker.emulator)
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    producer = types.ModuleType("producer")
    exec(code.replace("my-project", broker.project), vars(producer))  # noqa: S102 - it is our own page
    subscription = broker.subscription("ticks", broker.topic("market-ticks"))
    try:
        for symbol in ("AAPL", "aapl", "MSFT"):
            producer.publish({"symbol": symbol, "price": 1}).result(timeout=PATIENCE_S)
    finally:
        producer.publisher.stop()
    found = [(json.loads(one.message.data), dict(one.message.attributes)) for one in broker.look(subscription, 3)]
    assert {tick["symbol"]: attributes for tick, attributes in found} == {
        symbol: {"shard": shard_of(symbol.upper(), producer.SHARDS)} for symbol in ("AAPL", "aapl", "MSFT")
    }
