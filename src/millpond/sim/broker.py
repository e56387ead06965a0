"""The simulated broker: delivers at least once, in any order, until an instance acknowledges.

Each message's faults are drawn from the seed and its own id, so removing one message leaves the others' draws
unchanged. A message that failed too often goes to the dead-letter topic, if there is one. Owned by `world.py`.
"""

from __future__ import annotations

import base64
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from millpond.core import timestamps
from millpond.core.model import Delivery
from millpond.sim import oracle
from millpond.sim.facts import START, PublishedMessage
from millpond.sim.rules import Broken
from millpond.sim.virtual_time import WORLD, Process, VirtualLoop
from millpond.sim.world_parameters import COUNTED_S, Swarm

SUBSCRIPTION = "projects/sim/subscriptions/all"
_BACKOFF_S = 0.2
_BACKOFF_MAX_S = 10.0
_NO_INSTANCE_S = 0.5
# Beyond the time each delivery has: when a batch is halved, each half gets a little more time.
_ANSWER_S = 60.0
_ANSWERED = "every delivery is answered once"


class Receiver(Protocol):
    name: str
    process: Process
    stopping: bool

    def push(self, body: bytes, respond: Callable[[int, object, bytes], None]) -> None: ...


class Witness(Protocol):
    """Checks what the broker was told. `acknowledged` and `refused` raise Broken."""

    def add(self, message: PublishedMessage) -> None: ...

    def acknowledged(self, message: PublishedMessage) -> None: ...

    def refused(self, message: PublishedMessage) -> None:
        """It was answered 400."""


class Parcel:
    """A message in the broker, until it is acknowledged or dead-lettered."""

    def __init__(self, message: PublishedMessage, seed: int) -> None:
        self.message = message
        self.dice = random.Random(f"{seed}/{message.id}")  # noqa: S311 - repeatable on purpose
        self.attempts = 0
        self.acknowledged = False
        self.dead = False

    @property
    def settled(self) -> bool:
        return self.acknowledged or self.dead


class Attempt:
    """One delivery to one instance: its deadline, and whether it was answered."""

    def __init__(self, broker: Broker, parcel: Parcel, instance: Receiver) -> None:
        self.parcel = parcel
        self.instance = instance
        self._broker = broker
        self._loop = broker.loop
        self._asked_at = broker.loop.time()
        self._answered = False
        self.expired = False
        self._answer_s = broker.swarm.retry_total_s + _ANSWER_S
        self._lease = self._loop.call_later(broker.swarm.lease_s, self._expire, context=WORLD)
        self._overdue = self._loop.call_later(self._answer_s, self._miss, context=WORLD)

    def respond(self, status: int, _: object, body: bytes) -> None:
        if self._answered:
            self._broker.object(Broken(_ANSWERED, f"{self.parcel.message.id} twice, by {self.instance.name}"))
            return
        self._answered = True
        self._lease.cancel()
        self._overdue.cancel()
        self._broker.answered(self, status, body)

    def _expire(self) -> None:
        self.expired = True
        self._broker.lease_expired(self.parcel)

    def _miss(self) -> None:
        """Only a crash, a stop or a frozen instance may leave a delivery unanswered."""
        process = self.instance.process
        busy_until = max(self._asked_at, process.frozen_until) + self._answer_s
        if self.instance.stopping or not process.alive:
            return
        if self._loop.time() < busy_until:
            self._overdue = self._loop.call_at(busy_until, self._miss, context=WORLD)
            return
        self._broker.object(Broken(_ANSWERED, f"{self.parcel.message.id} never, by {self.instance.name}"))


class Broker:
    def __init__(
        self,
        seed: int,
        swarm: Swarm,
        loop: VirtualLoop,
        checks: Witness,
        seen: Counter[str],
        pick: Callable[[random.Random], Receiver | None],
        tell: Callable[[str], None],
    ) -> None:
        self._seed = seed
        self.swarm = swarm
        self.loop = loop
        self._checks = checks
        self._seen = seen
        self._pick = pick
        self.faulty = True
        # True at the end of a world: the broker starts no delivery by itself any more.
        self.closed = False
        self.parcels: list[Parcel] = []
        self._open = 0
        # Deliveries without an answer, in the order they were sent.
        self._under_way: list[Attempt] = []
        self._tell = tell
        # Called with every delivery as it begins.
        self.on_delivery: Callable[[PublishedMessage], None] = lambda _: None

    def publish(self, message: PublishedMessage) -> None:
        self._checks.add(message)
        parcel = Parcel(message, self._seed)
        self.parcels.append(parcel)
        self._open += 1
        self._deliver_later(parcel, message.publish_s + self._delay_s(parcel))
        if self._happens(parcel, "delivered twice", self.swarm.duplicated):
            self._deliver_later(parcel, message.publish_s + self._delay_s(parcel))
        if self.swarm.receipts_expire and self._happens(parcel, "delivered as it became too old to count", 0.3):
            age_s = COUNTED_S - parcel.dice.uniform(0.0, 8 * self.swarm.latency_s)
            at_s = (oracle.happened(message) - START) / timestamps.SECOND_US + age_s
            # Delivered in any case: behaviour at a limit must be tested at the limit.
            self.loop.call_at(max(at_s, message.publish_s), self._deliver_to_instance, parcel, context=WORLD)

    @property
    def drained(self) -> bool:
        """Whether every message is acknowledged or dead-lettered, and no copy is in flight."""
        return self._open == 0 and not any(attempt.instance.process.alive for attempt in self._under_way)

    def dead_letters(self) -> list[Delivery]:
        """Dead-letter copies as Pub/Sub makes them: a new id, and attributes that describe the original."""
        project, _, name = SUBSCRIPTION.removeprefix("projects/").partition("/subscriptions/")
        return [
            Delivery(
                message_id=f"9{parcel.message.id}",
                publish_time=parcel.message.published_at + timestamps.DAY_US,
                data=parcel.message.data,
                attributes={
                    **parcel.message.attributes,
                    "CloudPubSubDeadLetterSourceSubscription": name,
                    "CloudPubSubDeadLetterSourceSubscriptionProject": project,
                    "CloudPubSubDeadLetterSourceTopicPublishTime": timestamps.to_text(parcel.message.published_at),
                    "CloudPubSubDeadLetterSourceDeliveryCount": str(parcel.attempts),
                },
                subscription="projects/sim/subscriptions/dead",
            )
            for parcel in self.parcels
            if parcel.dead
        ]

    def _delay_s(self, parcel: Parcel) -> float:
        delay_s = parcel.dice.expovariate(1 / self.swarm.delay_s)
        if self._happens(parcel, "held up", self.swarm.held_up):
            # In some worlds longer than the ticks' lateness limit or the receipts' retention.
            delay_s += parcel.dice.uniform(600.0, 3_600.0)
        return delay_s

    def _deliver_later(self, parcel: Parcel, at_s: float) -> None:
        self.loop.call_at(at_s, self._deliver, parcel, context=WORLD)

    def _deliver(self, parcel: Parcel) -> None:
        if parcel.settled and not self._happens(
            parcel, "delivered after its acknowledgement", self.swarm.acked_again
        ):
            return
        self._deliver_to_instance(parcel)

    def _deliver_to_instance(self, parcel: Parcel) -> None:
        if self.closed:
            return
        instance = self._pick(parcel.dice)
        if instance is None:
            self._deliver_later(parcel, self.loop.time() + _NO_INSTANCE_S)
            return
        parcel.attempts += 1
        self._seen["redelivered"] += parcel.attempts > 1
        self._tell(f"{parcel.message.id} → {instance.name}, attempt {parcel.attempts}")
        attempt = Attempt(self, parcel, instance)
        self._under_way.append(attempt)
        self.on_delivery(parcel.message)
        instance.push(self._body(parcel), attempt.respond)

    def answered(self, attempt: Attempt, status: int, body: bytes) -> None:
        self._under_way.remove(attempt)
        parcel = attempt.parcel
        self._tell(f"{parcel.message.id} ← {status} {body.decode()}")
        try:
            if status == 200:
                self._checks.acknowledged(parcel.message)
            elif status == 400:
                self._checks.refused(parcel.message)
        except Broken as broken:
            # Not raised into the product, which would treat it as a bug of its own and answer differently.
            self.object(broken)
        if status != 200:
            self._seen[f"answered {status}"] += 1
            self._refused(attempt)
            return
        if self._happens(parcel, "acknowledgement lost", self.swarm.ack_lost):
            self._refused(attempt)
        else:
            self._open -= not parcel.settled
            parcel.acknowledged = True

    def _refused(self, attempt: Attempt) -> None:
        """Redeliver, unless the lease has expired: then a copy is in flight, and copies must not multiply."""
        if not attempt.expired:
            self.again(attempt.parcel)

    def lease_expired(self, parcel: Parcel) -> None:
        self._seen["lease expired"] += 1
        self.again(parcel)

    def object(self, broken: Broken) -> None:
        self.loop.call_exception_handler({"message": "broken", "exception": broken})

    def again(self, parcel: Parcel) -> None:
        """Redeliver after a pause, or dead-letter the message if it has failed often enough."""
        most = self.swarm.dead_letter_attempts
        if parcel.settled:
            return
        if most is not None and parcel.attempts >= most:
            self._tell(f"{parcel.message.id} goes to the dead-letter topic")
            self._seen["dead-lettered by the broker"] += 1
            self._open -= not parcel.settled
            parcel.dead = True
            return
        pause_s = min(_BACKOFF_S * 2 ** min(parcel.attempts, 10), _BACKOFF_MAX_S) * parcel.dice.uniform(0.5, 1.5)
        self._deliver_later(parcel, self.loop.time() + pause_s)

    def _happens(self, parcel: Parcel, fault: str, rate: float) -> bool:
        if not self.faulty or parcel.dice.random() >= rate:
            return False
        self._seen[fault] += 1
        return True

    def _body(self, parcel: Parcel) -> bytes:
        message = parcel.message
        body: dict[str, Any] = {
            "message": {
                "messageId": message.id,
                "publishTime": timestamps.to_text(message.published_at),
                "data": base64.b64encode(message.data).decode(),
                "attributes": message.attributes,
            },
            "subscription": SUBSCRIPTION,
        }
        if self.swarm.dead_letter_attempts is not None:
            body["deliveryAttempt"] = parcel.attempts
        return msgspec.json.encode(body)
