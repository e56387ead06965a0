"""What the pull tests share: the emulator with what it still holds, and `millpond pull` as a user starts it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from google.api_core.exceptions import DeadlineExceeded
from google.pubsub_v1.types import PubsubMessage, PushConfig, ReceivedMessage

from tests.common.process import MILLPOND
from tests.common.server import Server
from tests.common.waiting import eventually
from tests.ingress.broker.support import Broker

PATIENCE_S = 60.0
EXIT_S = 8.0
# What the service, and the emulator, take at most in one request.
PAGE = 1_000
# The emulator looks at its streams twenty times a second.
STREAMS_S = 0.3
HAND_OVER_S = 0.3
# A property of tests that is printed when all have run.
RATE = "messages a second"
# Counts and sums what a shop sold: a message lost or counted twice shows.
SALES = """
from millpond import Tally

class Sales(Tally):
    topics = ("sales",)
    collection = "sales"
    key = "shop"
    time = "ts"

    def fold(self, event, current):
        return {
            "count": current.get("count", 0) + 1,
            "sum": current.get("sum", 0) + event.require("amount"),
        }
"""


class PullBroker(Broker):
    """The emulator, with a way to ask what is not acknowledged."""

    _snapshots = itertools.count(1)

    def publish_all(self, topic: str, payloads: Iterable[Any], keys: Sequence[str] = ("",)) -> list[str]:
        """Publish many quickly, with ordering keys taken in turn; their message ids."""
        messages = [
            PubsubMessage(data=json.dumps(payload).encode(), ordering_key=key)
            for payload, key in zip(payloads, itertools.cycle(keys), strict=False)
        ]
        ids: list[str] = []
        for start in range(0, len(messages), PAGE):
            ids += self.publisher.publish(topic=topic, messages=messages[start : start + PAGE]).message_ids
        return ids

    def unacknowledged(self, subscription: str) -> set[str]:
        """The ids of all messages that would come again. The puller must be gone; leases end here and now."""
        self.end_streams(subscription)
        rewind = self.end_leases(subscription)
        found: set[str] = set()
        while received := self._pull(subscription):
            found |= {one.message.message_id for one in received}
            # Of an ordering key the next one comes only when the one before is acknowledged.
            self.subscriber.acknowledge(subscription=subscription, ack_ids=[one.ack_id for one in received])
        rewind()
        return found

    def end_leases(self, subscription: str) -> Callable[[], None]:
        """Rewind to a snapshot of now: what was acknowledged stays so, and everything else comes again at once.

        Calling what is returned rewinds to the same snapshot again.
        """
        snapshot = f"projects/{self.project}/snapshots/snapshot-{next(self._snapshots)}"
        self.subscriber.create_snapshot(name=snapshot, subscription=subscription)

        def rewind() -> None:
            self.subscriber.seek(request={"subscription": subscription, "snapshot": snapshot})

        rewind()
        return rewind

    def is_under_way(self, subscription: str) -> bool:
        """Whether another client has everything the subscription holds."""
        received = self._pull(subscription)
        if received:
            ids = [one.ack_id for one in received]
            self.subscriber.modify_ack_deadline(subscription=subscription, ack_ids=ids, ack_deadline_seconds=0)
        else:
            # From the client's hands into the engine's.
            time.sleep(HAND_OVER_S)
        return not received

    def end_streams(self, subscription: str) -> None:
        """End streaming pulls whose clients are gone.

        The emulator (0.8.20) does not notice when a client goes away: its stream stays, takes messages for ever,
        and loses them until their lease is over. A subscription that pushes for a moment has no streams.
        """
        for endpoint in ("http://127.0.0.1:9/none", ""):
            push = PushConfig(push_endpoint=endpoint)
            self.subscriber.modify_push_config(subscription=subscription, push_config=push)
            time.sleep(STREAMS_S)

    def _pull(self, subscription: str) -> list[ReceivedMessage]:
        try:
            request = {"subscription": subscription, "max_messages": PAGE}
            answer = self.subscriber.pull(request=request, retry=None, timeout=1)
        except DeadlineExceeded:
            return []
        return list(answer.received_messages)


class Pulling(Server):
    """One `millpond pull`."""

    def __init__(self, folder: Path, environment: dict[str, str], subscriptions: Sequence[str]) -> None:
        options = [part for name in subscriptions for part in ("--subscription", name)]
        super().__init__(folder, environment, [*MILLPOND, "pull", *options])

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of messages, so far."""
        return [line for line in self.log_lines if "ack_action" in line]

    def wait_for_lines(self, count: int, action: str = "") -> list[dict[str, Any]]:
        """The lines of messages, once there are `count` of them (with this action)."""
        wanted = f'"ack_action":"{action}'
        eventually(lambda: sum(wanted in line for line in self.output) >= count, PATIENCE_S)
        return self.lines

    def notes(self, *severities: str) -> list[dict[str, Any]]:
        """Lines about the service, of these severities."""
        return [line for line in self.log_lines if "ack_action" not in line and line["severity"] in severities]

    def logged(self, message_id: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["messageId"] == message_id]


# The fixture that starts them: `pull(*subscriptions, **environment)`.
Pull = Callable[..., Pulling]


def sold(sales: Iterable[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """What the documents of SALES must say: for each shop, count and sum."""
    expected: dict[str, tuple[int, int]] = {}
    for sale in sales:
        count, total = expected.get(sale["shop"], (0, 0))
        expected[sale["shop"]] = (count + 1, total + sale["amount"])
    return expected


def counted(pulling: Pulling) -> dict[str, tuple[int, int]]:
    """What they do say."""
    docs = pulling.get("/api/docs/sales?limit=1000").json["docs"]
    return {doc["id"]: (doc["data"]["count"], doc["data"]["sum"]) for doc in docs}
