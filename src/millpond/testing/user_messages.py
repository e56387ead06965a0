"""A user's events as messages of the full simulation: drawn from a seed, with copies and a time of arrival.

A message keeps the publish time of the data, and every world begins after the last of them: the time of arrival
orders nothing, as in production. Called by `user_stage`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from millpond.core.model import Delivery
from millpond.core.timestamps import SECOND_US
from millpond.sim.facts import Fact, PublishedMessage
from millpond.sim.world_parameters import Swarm
from millpond.testing.events import SentEvent

_NO_FACT = Fact(number=0, topic="", key="", at=None, sequence=None, event_id=None, says=(), flaw=None)


class UserMessage(PublishedMessage, frozen=True, kw_only=True):
    """One publication of an event of the file. `line` is the event's line."""

    delivery: Delivery
    line: int
    arrives_s: float
    # Only the messages of built-in worlds are made of facts.
    fact: Fact = _NO_FACT

    @property
    def publish_s(self) -> float:
        return self.arrives_s

    @property
    def data(self) -> bytes:
        return self.delivery.data or b""

    @property
    def attributes(self) -> dict[str, str]:
        return self.delivery.attributes


def draw_user_messages(seed: int, swarm: Swarm, events: Sequence[SentEvent]) -> list[UserMessage]:
    """Some of the events, or all if they are few; some of them are republished."""
    dice = random.Random(f"{seed}/events")  # noqa: S311 - repeatable on purpose
    chosen = list(events) if len(events) <= swarm.messages else dice.sample(events, swarm.messages)
    messages = []
    for event in chosen:
        deliveries = [event.delivery]
        if dice.random() < swarm.republished:
            later = round(dice.choice((0.0, dice.random(), dice.expovariate(1 / 10.0))) * SECOND_US)
            deliveries.append(
                msgspec.structs.replace(
                    event.delivery,
                    message_id=f"{event.delivery.message_id}-copy",
                    publish_time=event.delivery.publish_time + later,
                )
            )
        messages += [
            UserMessage(
                id=delivery.message_id,
                published_at=delivery.publish_time,
                delivery=delivery,
                line=event.number,
                arrives_s=dice.random() * swarm.publishing_s,
            )
            for delivery in deliveries
        ]
    return sorted(messages, key=lambda message: (message.arrives_s, message.id))
