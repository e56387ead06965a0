"""The load of a fleet: which documents the messages are about, and which instance gets each."""

from __future__ import annotations

import bisect
import datetime as dt
import itertools
import random
from collections.abc import Iterable
from typing import Literal

import msgspec

from benchmarks.cloud_messages import ENV, TOPIC, Message
from millpond import shard_of
from millpond.core import timestamps
from millpond.core.model import Delivery

Keys = Literal["in turn", "at random", "Zipf"]
Routing = Literal["at random", "by key"]
_APART = dt.timedelta(milliseconds=1)
_BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_EARLIER = dt.timedelta(hours=1)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """`in_flight` for a closed loop, `rate` in messages a second for an open one."""

    instances: int
    documents: int
    count: int
    keys: Keys = "in turn"
    routing: Routing = "at random"
    in_flight: int | None = None
    rate: float | None = None
    # Messages of the same kind that are sent before, and not counted.
    lead: int = 0
    rtt_s: float = 0.04
    queue_size: int = 512
    seed: int = 1

    @property
    def began_us(self) -> int:
        """The instances' clock at the beginning: after every message."""
        return round(_BEGAN.timestamp() + 86_400) * timestamps.SECOND_US

    def first(self) -> list[Message]:
        """One message for each document, older than all others: no run has to create documents."""
        return [_message(n, n, "a", _BEGAN - _EARLIER) for n in range(self.documents)]

    def messages(self) -> tuple[list[Message], list[Message]]:
        """Those that are sent before, and those that are measured."""
        dice = random.Random(f"{self.seed}/keys")
        made = [_message(n, key, "b", _BEGAN) for n, key in enumerate(self._keys(dice))]
        return made[: self.lead], made[self.lead :]

    def _keys(self, dice: random.Random) -> Iterable[int]:
        total = self.lead + self.count
        match self.keys:
            case "in turn":
                return (n % self.documents for n in range(total))
            case "at random":
                return (dice.randrange(self.documents) for _ in range(total))
            case "Zipf":
                shares = list(itertools.accumulate(1 / rank for rank in range(1, self.documents + 1)))
                return (bisect.bisect(shares, dice.random() * shares[-1]) for _ in range(total))

    def route(self, message: Message, dice: random.Random) -> int:
        """The number of the instance that gets the message."""
        if self.routing == "by key":
            return int(shard_of(message.service, self.instances))
        return dice.randrange(self.instances)

    def settings(self, project: str) -> dict[str, str]:
        return {
            "STORE": "firestore",
            "GCP_PROJECT": project,
            "ENV": ENV,
            "SYSTEM_EVENTS_TOPIC": TOPIC,
            "DEFAULT_REGION": "local",
            "CONSUMER_QUEUE_SIZE": str(self.queue_size),
        }


def _message(number: int, key: int, mark: str, began: dt.datetime) -> Message:
    return Message(
        message_id=f"{mark}{number:09d}",
        service=f"svc-{key:04d}",
        status="healthy",
        version=f"1.{number % 97}.0",
        region="us-east1",
        at=began + number * _APART,
    )


def delivery_of(message: Message) -> Delivery:
    us = round(message.at.timestamp() * 1_000_000)
    return Delivery(
        message_id=message.message_id, publish_time=us, data=message.data(), attributes={"topic": TOPIC}
    )
