"""Result → acknowledgement: which message is finished, and which is redelivered. Pure.

Called by `ingress`, `dead_letters` and `service` for every message. Nothing else decides this.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from millpond.core.errors import Overloaded
from millpond.core.model import Delivery, Outcome, Result


class Settlement(NamedTuple):
    """How a message is answered: with a status (push, else 0) or an action (None for push)."""

    http_status: int
    ack_action: str | None
    retryable: bool


class Answered(msgspec.Struct, frozen=True):
    """A message, or a request that held none, and how it was answered."""

    # None if nothing identifiable arrived.
    delivery: Delivery | None
    result: Result
    settlement: Settlement
    latency_s: float
    # The wall clock at that moment, in microseconds.
    at: int
    # Whether it counts as a message answered: a replay does not, and neither does a request without a message.
    counts: bool


ACKNOWLEDGED = 200
ACK = "ack"
NACK = "nack"
REPLAY = "replay"
FILE = "file"
_DONE = Settlement(ACKNOWLEDGED, None, retryable=False)
_PULLED = Settlement(0, ACK, retryable=False)


def settle_push(result: Result) -> Settlement:
    """For push: Pub/Sub takes 200 as an acknowledgement, and redelivers after every other status."""
    if result.settled:
        return _DONE
    if result.outcome is Outcome.POISON:
        return Settlement(400, None, retryable=False)
    status = 429 if isinstance(result.error, Overloaded) and result.reason == Overloaded.reason else 503
    return Settlement(status, None, retryable=True)


def settle_pull(result: Result) -> Settlement:
    """For pull: settled messages are acknowledged. Pub/Sub redelivers the others, or dead-letters them."""
    if not result.settled:
        return Settlement(0, NACK, retryable=result.outcome is Outcome.RETRY)
    return _PULLED


def settle_replay(result: Result) -> Settlement:
    """For a replay: no sender waits. The letter stays, and the log has the outcome."""
    return Settlement(0, REPLAY, retryable=not result.settled)


def settle_file(result: Result) -> Settlement:
    """For a line of a file: no sender waits. The command that reads the file reports the outcome."""
    return Settlement(0, FILE, retryable=not result.settled)
