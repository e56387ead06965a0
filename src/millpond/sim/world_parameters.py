"""The parameters of one seed's world: sizes and fault rates.

Every seed draws its own rates, and turns about half of the faults off ("swarm testing"). Worlds in which everything
fails a little look alike, and miss bugs that need one frequent fault and no others.
"""

from __future__ import annotations

import math
import random

import msgspec

# If receipts expire: their retention in days, and so for how many seconds an event can be counted.
RECEIPT_TTL_DAYS = 0.01
COUNTED_S = RECEIPT_TTL_DAYS * 86_400 - 300
# Far smaller than in the product; otherwise no world would have enough messages to reach them.
_LIMITS = {
    "shards_from": (1, 2, 6),
    "batch_count_max": (1, 2, 5),
    "batch_bytes_max": (1, 4_000, 12_000),
    "room_bytes_max": (6_000, 20_000, 60_000),
    "cache_entries_max": (2, 6, 20),
}
TOPICS = ("services", "pipelines", "ticks", "bars", "signals", "doors", "gates")


class Producers(msgspec.Struct, frozen=True, kw_only=True):
    """Fault rates of producers, as probabilities per message."""

    # For how many seconds messages are published, which also bounds the delay of a copy.
    publishing_s: float
    equal_times: float
    skewed_clock: float
    late: float
    republished: float
    poison: float
    refused: float
    view_bug: float


class Swarm(Producers, frozen=True, kw_only=True):
    """Rates are probabilities per message, delivery or call; times are seconds."""

    # More about the producers.
    topics: tuple[str, ...]
    messages: int
    keys: int
    sequences: float
    reused_event_id: float
    # The broker.
    delay_s: float
    held_up: float
    lease_s: float
    duplicated: float
    ack_lost: float
    acked_again: float
    dead_letter_attempts: int | None
    # Instances.
    instances: int
    clock_skew_s: float
    crash_every_s: float | None
    stop_every_s: float | None
    freeze_every_s: float | None
    restart_s: float
    # Whether the processes that had the faults drain the rest, or new ones.
    outlives_faults: bool
    queue_size: int
    # Limits of EngineRules and of a letter, made small enough to be reached.
    limits: dict[str, int]
    part_bytes_max: int
    retry_total_s: float
    poison_policy: str
    receipts_expire: bool
    receipts_of_tallies_only: bool
    # The store.
    latency_s: float
    stalled: float
    failed_before: float
    failed_after: float
    reply_lost: float
    denied: float
    read_failed: float
    away_s: float
    names_culprits: bool
    reads_at_once: bool
    keeps_log: bool
    commits_in_flight_max: int
    # People.
    legacy: int
    unowned: int
    deletes: int
    replays: int
    # Of a letter, each time it is stored and each time its message comes again.
    purged: float
    # Flow runs.
    runs: int
    step_s: float
    flow_lease_s: float
    step_failed: float
    event_lost: float
    steps_at_once: int


# Faults that shrinking can turn off: name → the field and its value for "never".
FAULTS: dict[str, float | None] = {
    "held_up": 0.0,
    "duplicated": 0.0,
    "ack_lost": 0.0,
    "acked_again": 0.0,
    "dead_letter_attempts": None,
    "clock_skew_s": 0.0,
    "crash_every_s": None,
    "stop_every_s": None,
    "freeze_every_s": None,
    "stalled": 0.0,
    "failed_before": 0.0,
    "failed_after": 0.0,
    "reply_lost": 0.0,
    "denied": 0.0,
    "read_failed": 0.0,
    "away_s": 0.0,
    "legacy": 0,
    "unowned": 0,
    "deletes": 0,
    "replays": 0,
    "purged": 0.0,
    "runs": 0,
    "step_failed": 0.0,
    "event_lost": 0.0,
}


def without(swarm: Swarm, fault: str) -> Swarm:
    if fault == "dead_letter_attempts" and swarm.poison_policy == "native":
        # Not a fault in that world: without it, a refused message would be redelivered for ever.
        return swarm
    return msgspec.structs.replace(swarm, **{fault: FAULTS[fault]})


def draw(seed: int) -> Swarm:
    dice = random.Random(f"{seed}/swarm")  # noqa: S311 - repeatable on purpose

    def sometimes(low: float, high: float) -> float:
        """Zero in half of the worlds, else between the two, with a logarithmic distribution."""
        return 0.0 if dice.random() < 0.5 else between(low, high)

    def between(low: float, high: float) -> float:
        return low * math.exp(math.log(high / low) * dice.random())

    publishing_s = between(1.0, 120.0)
    latency_s = between(0.001, 0.35)
    poison_policy = dice.choice(("auto", "park", "native"))
    # Without a dead-letter topic a refused message is redelivered for ever.
    dead_lettered = poison_policy == "native" or dice.random() < 0.2
    # Redelivery restores deleted documents, but not those of dead letters or from before Millpond.
    deletes = dice.randint(1, 4) if not dead_lettered and dice.random() < 0.3 else 0
    topics = set(dice.sample(TOPICS, dice.randint(1, 4)))
    receipts_expire = dice.random() < 0.2
    if receipts_expire:
        # Long enough for some of the relevant receipts to expire.
        publishing_s = between(600.0, 3_000.0)
        topics.add("gates")
    return Swarm(
        topics=tuple(sorted(topics)),
        messages=round(between(8, 90)),
        keys=dice.randint(1, 3),
        publishing_s=publishing_s,
        equal_times=sometimes(0.1, 0.9),
        sequences=sometimes(0.1, 1.0),
        skewed_clock=sometimes(0.02, 0.3),
        late=sometimes(0.02, 0.3),
        republished=sometimes(0.05, 0.5),
        reused_event_id=sometimes(0.05, 0.4),
        poison=sometimes(0.02, 0.2),
        refused=sometimes(0.02, 0.2),
        view_bug=sometimes(0.02, 0.2),
        delay_s=between(0.01, 20.0),
        held_up=sometimes(0.02, 0.2),
        lease_s=between(5.0, 30.0),
        duplicated=sometimes(0.02, 0.4),
        ack_lost=sometimes(0.01, 0.2),
        acked_again=sometimes(0.05, 0.5),
        dead_letter_attempts=dice.randint(5, 8) if dead_lettered else None,
        instances=dice.randint(1, 5),
        clock_skew_s=sometimes(1.0, 140.0),
        crash_every_s=between(1.0, 60.0) if dice.random() < 0.5 else None,
        stop_every_s=between(10.0, 90.0) if dice.random() < 0.2 else None,
        freeze_every_s=between(5.0, 60.0) if dice.random() < 0.3 else None,
        restart_s=between(0.1, 10.0),
        queue_size=round(between(2, 64)),
        # Enough time to recover from a conflict; with less, nothing would ever be stored.
        retry_total_s=max(between(1.0, 8.0), 24 * latency_s),
        poison_policy=poison_policy,
        receipts_expire=receipts_expire,
        latency_s=latency_s,
        stalled=sometimes(0.005, 0.1),
        failed_before=sometimes(0.01, 0.3),
        failed_after=sometimes(0.01, 0.3),
        reply_lost=sometimes(0.005, 0.1),
        denied=sometimes(0.005, 0.05),
        read_failed=sometimes(0.01, 0.2),
        away_s=between(1.0, 60.0) if dice.random() < 0.15 else 0.0,
        names_culprits=dice.random() < 0.6,
        reads_at_once=dice.random() < 0.6,
        keeps_log=dice.random() < 0.7,
        commits_in_flight_max=dice.choice((1, 2, 8)),
        legacy=0 if deletes or dice.random() < 0.6 else dice.randint(1, 4),
        deletes=deletes,
        replays=dice.randint(1, 6) if dice.random() < 0.3 else 0,
        runs=dice.randint(1, 3) if dice.random() < 0.4 else 0,
        step_s=between(0.1, 40.0),
        flow_lease_s=between(3.0, 15.0),
        step_failed=sometimes(0.05, 0.3),
        event_lost=sometimes(0.05, 0.4),
        steps_at_once=dice.choice((1, 2, 10)),
        outlives_faults=dice.random() < 0.5,
        # Many small commits, or a letter's many parts, run one after the other. If each is slow, no time is left
        # for anything else in the world.
        limits={
            name: dice.choice(small)
            for name, small in _LIMITS.items()
            if dice.random() < 0.3 and (latency_s < 0.05 or not name.startswith("batch_"))
        },
        part_bytes_max=120 if latency_s < 0.05 and dice.random() < 0.3 else 900_000,
        purged=sometimes(0.1, 1.0),
        unowned=dice.randint(1, 2) if dice.random() < 0.2 else 0,
        receipts_of_tallies_only=dice.random() < 0.15,
    )
