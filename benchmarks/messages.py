"""The messages, as Pub/Sub pushes them: unique in id and in content. `push.lua` makes the same for wrk."""

from __future__ import annotations

import base64
import datetime as dt
import functools
import random
from collections.abc import Iterator

import msgspec

SERVICES = 100
EVENTS_PER_SECOND = 10_000
_STATUS = ("healthy", "warning", "failing")
_REGION = ("us-east1", "us-west1", "us-east4")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# Every run of a generator gets its own event times, so that no content repeats by accident.
_SECONDS_PER_RUN = 600


class Runs:
    """Hands out runs: a number that becomes part of every message id, and the second its event times begin at."""

    def __init__(self, first_second: int) -> None:
        self._first_second = first_second
        self._used = 0

    def next(self) -> tuple[str, int]:
        self._used += 1
        return f"{self._used:04d}", self._first_second + self._used * _SECONDS_PER_RUN


def heartbeats(run: tuple[str, int], count: int) -> Iterator[bytes]:
    """Push bodies of `count` heartbeats of 100 services in turn, 100 µs apart."""
    name, start = run
    shapes = [_heartbeat_shape(number) for number in range(SERVICES)]
    for n in range(count):
        at = _time_text(start + n // EVENTS_PER_SECOND, n % EVENTS_PER_SECOND * 100)
        before, after = shapes[n % SERVICES]
        yield _push_body((before + at + after).encode(), f"{name}{n:09d}", at, "system.events", "system-events")


def ticks(symbol: str, run: tuple[str, int], count: int, *, shuffled: bool) -> list[bytes]:
    """Push bodies of distinct ticks of one symbol, 1 ms apart; the last in event time has the price `count`."""
    name, start = run
    bodies = []
    for n in range(count):
        at = _time_text(start + n // 1_000, n % 1_000 * 1_000)
        tick = {"symbol": symbol, "ts": at, "price": n + 1, "bid": n + 0.5, "ask": n + 1.5, "size": 100 + n % 7}
        bodies.append(
            _push_body(msgspec.json.encode(tick), f"{name}{n:09d}", at, "market-ticks", "market-ticks-latest")
        )
    if shuffled:
        random.Random(name).shuffle(bodies)
    return bodies


def body_bytes() -> int:
    """The size of every heartbeat's push body."""
    return len(next(heartbeats(("0000", 0), 1)))


def _heartbeat_shape(number: int) -> tuple[str, str]:
    before = f'{{"service":"svc-{number:02d}","timestamp":'
    after = (
        f'Z","status":"{_STATUS[number % 3]}","version":"1.{number:02d}.0","region":"{_REGION[number % 3]}",'
        f'"instance":"svc-{number:02d}-7f9c4d5b6","kind":"heartbeat"}}'
    )
    return _padded(before) + '"', _padded(after).removeprefix("Z")


def _padded(text: str) -> str:
    return text + " " * (-len(text) % 3)


def _time_text(second: int, micros: int) -> str:
    return f"{_second_text(second)}.{micros:06d}Z"


@functools.lru_cache(maxsize=4)
def _second_text(second: int) -> str:
    return f"{_EPOCH + dt.timedelta(seconds=second):%Y-%m-%dT%H:%M:%S}"


def _push_body(data: bytes, message_id: str, published: str, topic: str, subscription: str) -> bytes:
    return (
        f'{{"message":{{"data":"{base64.b64encode(data).decode()}","messageId":"{message_id}",'
        f'"message_id":"{message_id}","publishTime":"{published}","publish_time":"{published}",'
        f'"attributes":{{"topic":"{topic}"}}}},"subscription":"projects/local/subscriptions/{subscription}"}}'
    ).encode()
