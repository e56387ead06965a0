"""What the producers publish: facts, each in one or more messages. Seeded.

A fact is what happened; a message is one publication of it. The simulation draws all messages before anything runs.
Its instances get the bytes and its oracle gets the fact itself, so neither can copy the other's mistakes. The demo
makes facts while it runs, and publishes them by the same code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from millpond.core import timestamps
from millpond.sim.world_parameters import Producers, Swarm

START = 1_767_571_200_000_000  # 2026-01-05T00:00:00Z
_SECOND = timestamps.SECOND_US
# Event times are multiples of this, so that ties are common.
_GRID = 30 * _SECOND
POISON = ("no JSON", "odd key", "no offset", "no topic")
BUG = "bug"
REFUSED = "refused"
# Flaws that one of the two views of a gate's events has to bear; the other takes the event.
LAST_FAILS = "bug in gate_last"
PASSES_FAIL = "bug in gate_passes"
UNCOUNTABLE = "uncountable"
# Flaws that end with the version that is rolled out after the faults.
MENDED = frozenset({BUG, LAST_FAILS, PASSES_FAIL})
# A value that a store refuses anywhere in a document.
UNSTORABLE = "unstorable"
TOPIC_NAMES = {
    "services": "system.events",
    "pipelines": "ingest-heartbeat",
    "ticks": "market-ticks",
    "bars": "market-bars-1m",
    "signals": "trade-signals",
}
_KEY_FIELDS = {
    "services": "service",
    "pipelines": "pipeline_id",
    "ticks": "symbol",
    "bars": "symbol",
    "signals": "signalId",
    "doors": "door",
    "gates": "gate",
}
_TIME_FIELDS = {
    "services": "timestamp",
    "pipelines": "ts",
    "ticks": "ts",
    "bars": "producedAt",
    "signals": "updatedAt",
    "doors": "at",
    "gates": "at",
}
_SEQUENCE_FIELDS = {
    "services": "sequence",
    "pipelines": "seq",
    "ticks": "seq",
    "bars": "sequence",
    "signals": "sequence",
    "doors": "seq",
}


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """`number` makes its content different from that of every other fact."""

    number: int
    topic: str
    key: str
    # When it happened by the producer's clock, in microseconds; None if the producer sends none.
    at: int | None
    sequence: int | None
    event_id: str | None
    # The fields a partial update of a signal names; a door that is removed.
    says: tuple[str, ...]
    flaw: str | None
    # The fields beside key, time, sequence and event id; None if they are derived from the number.
    content: dict[str, Any] | None = None


class PublishedMessage(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    fact: Fact
    published_at: int

    @property
    def publish_s(self) -> float:
        """On the event loop's clock."""
        return (self.published_at - START) / _SECOND

    @property
    def data(self) -> bytes:
        return data_of(self.fact)

    @property
    def attributes(self) -> dict[str, str]:
        return attributes_of(self.fact)


def draw_messages(seed: int, swarm: Swarm) -> list[PublishedMessage]:
    """Everything that is published in this world, in the order of publication."""
    dice = random.Random(f"{seed}/producers")  # noqa: S311 - repeatable on purpose
    ids = iter(f"{number:06d}" for number in dice.sample(range(1_000_000), swarm.messages * 3))
    facts: list[Fact] = []
    messages: list[PublishedMessage] = []
    for number in range(swarm.messages):
        published_at = START + round(dice.random() * swarm.publishing_s * _SECOND)
        if dice.random() < swarm.equal_times / 2:
            published_at -= published_at % _SECOND
        fact = _draw_fact(dice, swarm, number, published_at, facts)
        facts.append(fact)
        messages += publish(dice, swarm, ids, fact, published_at)
    return sorted(messages, key=lambda message: (message.published_at, message.id))


def publish(
    dice: random.Random, producers: Producers, ids: Iterator[str], fact: Fact, published_at: int
) -> list[PublishedMessage]:
    """The fact's message, then the copies that its producer republishes under new ids."""
    times = [published_at]
    copies = (dice.random() < producers.republished) + (dice.random() < producers.republished / 3)
    for _ in range(copies):
        # At the same instant or later; if receipts expire, perhaps after this one's receipt has.
        later = dice.choice(
            (0.0, dice.random(), dice.expovariate(1 / 10.0), dice.random() * producers.publishing_s)
        )
        times.append(published_at + round(later * _SECOND))
    return [PublishedMessage(id=next(ids), fact=fact, published_at=at) for at in times]


def draw_legacy(seed: int, swarm: Swarm) -> list[PublishedMessage]:
    """Documents from before Millpond, made by an earlier consumer of messages that are not redelivered."""
    dice = random.Random(f"{seed}/legacy")  # noqa: S311 - as above
    topics = [topic for topic in swarm.topics if topic in {"services", "pipelines"}]
    messages = []
    for number in range(swarm.legacy if topics else 0):
        published_at = START - round(dice.uniform(-5, 60) * _SECOND)
        fact = Fact(
            number=1_000 + number,
            topic=dice.choice(topics),
            key=f"K{dice.randrange(swarm.keys)}",
            at=published_at - round(dice.uniform(-400, 30) * _SECOND),
            sequence=None,
            event_id=None,
            says=(),
            flaw=None,
        )
        messages.append(PublishedMessage(id=f"legacy{number}", fact=fact, published_at=published_at))
    return messages


def _draw_fact(dice: random.Random, swarm: Swarm, number: int, published_at: int, earlier: list[Fact]) -> Fact:
    topic = dice.choice(swarm.topics)
    key = f"K{dice.randrange(swarm.keys)}"
    event_id = f"e{number}" if dice.random() < 0.5 else None
    at = draw_time(dice, swarm, published_at)
    sequence = dice.randrange(20) if topic in _SEQUENCE_FIELDS and dice.random() < swarm.sequences else None
    flaw = draw_flaw(dice, swarm, topic)
    if at is None and (topic == "gates" or flaw == "no offset"):
        # A tally needs events with a time of their own: without one, a copy that is published after the receipt
        # has expired looks like a new event (docs/guarantees.md).
        at = published_at
    says = _draw_says(dice, topic)
    same = [fact for fact in earlier if (fact.topic, fact.key) == (topic, key) and fact.event_id and not fact.flaw]
    if same and topic != "gates" and dice.random() < swarm.reused_event_id:
        # Two events with one id and different content.
        model = dice.choice(same)
        event_id, at, sequence = model.event_id, model.at, model.sequence
    elif same and dice.random() < swarm.reused_event_id:
        # One id for every update of a document: a different time makes it a different event.
        model = dice.choice(same)
        taken = {fact.at for fact in earlier if fact.event_id == model.event_id}
        event_id = event_id if at in taken else model.event_id
    return Fact(
        number=number, topic=topic, key=key, at=at, sequence=sequence, event_id=event_id, says=says, flaw=flaw
    )


def draw_time(
    dice: random.Random, producers: Producers, published_at: int, published_after_s: float = 3.0
) -> int | None:
    """When a fact happened by its producer's clock: usually a little before it is published."""
    if dice.random() < 0.03:
        return None
    at = published_at - round(dice.expovariate(1 / published_after_s) * _SECOND)
    if dice.random() < producers.skewed_clock:
        # As far ahead as is allowed, a little less, or far too much.
        ahead_s = dice.choice((dice.uniform(0.0, 300.0), 300.0, dice.uniform(300.000001, 100_000)))
        return published_at + round(ahead_s * _SECOND)
    if dice.random() < producers.late:
        return published_at - round(dice.uniform(850, 5_000) * _SECOND)
    return at - at % _GRID if dice.random() < producers.equal_times else at


def draw_flaw(dice: random.Random, producers: Producers, topic: str) -> str | None:
    """What is wrong with a message, if anything."""
    if dice.random() < producers.poison:
        return dice.choice((*POISON, UNCOUNTABLE, UNCOUNTABLE) if topic == "gates" else POISON)
    if topic in {"services", "gates"} and dice.random() < producers.refused:
        return REFUSED
    if topic == "doors" and dice.random() < producers.view_bug:
        return BUG
    if topic == "gates" and dice.random() < producers.view_bug:
        return dice.choice((LAST_FAILS, PASSES_FAIL))
    return None


def _draw_says(dice: random.Random, topic: str) -> tuple[str, ...]:
    if topic == "signals":
        fields = [name for name in ("state", "confidence", "reason") if dice.random() < 0.5]
        return tuple(fields) or ("state",)
    if topic == "doors" and dice.random() < 0.2:
        return ("removed",)
    return ()


def payload_of(fact: Fact) -> dict[str, Any]:
    """The payload as the producer sends it."""
    content = _CONTENTS[fact.topic](fact) if fact.content is None else fact.content
    payload: dict[str, Any] = {_KEY_FIELDS[fact.topic]: fact.key, **content}
    if fact.at is not None:
        payload[_TIME_FIELDS[fact.topic]] = timestamps.to_text(fact.at)
    if fact.sequence is not None:
        payload[_SEQUENCE_FIELDS[fact.topic]] = fact.sequence
    if fact.event_id is not None:
        payload["eventId"] = fact.event_id
    return payload


def value_of(fact: Fact) -> str:
    if fact.flaw == REFUSED:
        return UNSTORABLE
    if fact.flaw == BUG:
        return BUG
    return "removed" if "removed" in fact.says else f"v{fact.number}"


_TROUBLES = {
    LAST_FAILS: {"last": BUG},
    PASSES_FAIL: {"passes": BUG},
    UNCOUNTABLE: {"passes": "odd"},
    REFUSED: {"last": UNSTORABLE},
}
_CONTENTS: dict[str, Callable[[Fact], dict[str, Any]]] = {
    "services": lambda fact: {"status": value_of(fact), "version": f"{fact.number}", "region": "eu"},
    "pipelines": lambda fact: {"status": value_of(fact)},
    "ticks": lambda fact: {"price": fact.number + 0.5},
    "bars": lambda fact: {"ts": timestamps.to_text(START), "close": fact.number + 0.25},
    "signals": lambda fact: {
        name: fact.number if name == "confidence" else f"{name} {fact.number}" for name in fact.says
    },
    "doors": lambda fact: {"state": value_of(fact)},
    "gates": lambda fact: {"pass": fact.number, **_TROUBLES.get(fact.flaw or "", {})},
}


def data_of(fact: Fact) -> bytes:
    """The bytes of a message, with its flaw."""
    payload = payload_of(fact)
    if fact.flaw == "no JSON":
        return b'{"broken": '
    if fact.flaw == "no topic":
        # Some payloads are routed by their shape alone.
        payload = {"number": fact.number}
    if fact.flaw == "odd key":
        payload[_KEY_FIELDS[fact.topic]] = True
    if fact.flaw == "no offset":
        payload[_TIME_FIELDS[fact.topic]] = "2026-01-05T00:00:00"
    return msgspec.json.encode(payload)


def attributes_of(fact: Fact) -> dict[str, str]:
    if fact.flaw == "no topic":
        return {"topic": "nobody-knows"}
    return {"topic": TOPIC_NAMES.get(fact.topic, fact.topic)}
