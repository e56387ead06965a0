"""The messages both sides get, and the documents they must result in.

System events of a few services, each unique, a little out of order.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from tests.common.push import push_body

ENV = "bench"
TOPIC = "system.events"
_STATUS = ("healthy", "warning", "failing")
_REGION = ("us-east1", "us-west1", "us-east4")
_APART = dt.timedelta(milliseconds=1)
# Early enough that every event time lies in the past.
_BEGAN_AGO = dt.timedelta(hours=12)
# The next few messages of a service may overtake a message.
_TURNS_OVERTAKEN = 3


class Message(NamedTuple):
    """A system event and its push body."""

    message_id: str
    service: str
    status: str
    version: str
    region: str
    at: dt.datetime

    @property
    def document_id(self) -> str:
        return f"{ENV}__{self.service}"

    def fields(self) -> dict[str, Any]:
        """The fields of its document if no newer event is known; Millpond adds more under `source`."""
        return {
            "serviceId": self.service,
            "env": ENV,
            "status": self.status,
            "lastHeartbeatAt": self.at,
            "version": self.version,
            "region": self.region,
            "updatedAt": self.at,
        }

    def data(self) -> bytes:
        event = {
            "service": self.service,
            "timestamp": self.at,
            "status": self.status,
            "version": self.version,
            "region": self.region,
            "instance": f"{self.service}-7f9c4d5b6",
            "kind": "heartbeat",
        }
        return msgspec.json.encode(event)

    def push_body(self) -> bytes:
        body = push_body(self.data(), message_id=self.message_id, published=self.at, topic=TOPIC)
        return msgspec.json.encode(body)


def system_events(documents: int, count: int, seed: int) -> list[Message]:
    """`count` events of `documents` services, each with a time of its own.

    The services take strict turns: eight threads then rarely contend for one of fifty documents, which is the
    baseline's best case. Within a service events overtake each other, so that some arrive stale.
    """
    chance = random.Random(seed)
    began = dt.datetime.now(dt.UTC) - _BEGAN_AGO
    messages = [_message(documents, number, seed, began, chance) for number in range(count)]
    arriving = list(messages)
    for service in range(documents):
        own = messages[service::documents]
        places = [turn + chance.uniform(0, _TURNS_OVERTAKEN) for turn in range(len(own))]
        arriving[service::documents] = [own[turn] for turn in sorted(range(len(own)), key=places.__getitem__)]
    return arriving


def _message(documents: int, number: int, seed: int, began: dt.datetime, chance: random.Random) -> Message:
    return Message(
        message_id=f"{seed:04d}{number:09d}",
        service=f"svc-{number % documents:02d}",
        status=chance.choice(_STATUS),
        version=f"1.{number % 97}.0",
        region=_REGION[number % len(_REGION)],
        at=began + number * _APART,
    )


def fold(messages: Iterable[Message]) -> dict[str, Message]:
    """By document id, the newest message, which must win in any order of arrival."""
    newest: dict[str, Message] = {}
    for message in messages:
        known = newest.get(message.document_id)
        if known is None or message.at > known.at:
            newest[message.document_id] = message
    return newest
