"""What becomes of happenings on their way: delivered twice, republished, overtaken, late, stale, ruined. Seeded."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from millpond.core import timestamps
from millpond.core.model import Delivery
from millpond.demo.scene import Happening

_encode = msgspec.json.Encoder().encode
_RECENT_MAX = 200
# An hour is too late for ticks (TICKS_MAX_LATE_S), and stale for whatever has moved on since.
_LATE_US = 3_600 * timestamps.SECOND_US
_TIME_FIELDS = ("ts", "timestamp", "updatedAt", "producedAt")
_NAME_FIELDS = ("symbol", "service", "signalId", "pipeline_id")


class Mishap(NamedTuple):
    """A delivery, how long it is on its way, and what is wrong with that."""

    delivery: Delivery
    after_s: float = 0.0
    duplicate: bool = False
    overtaken: bool = False


class Mishaps:
    """Rates as on a bad day: about one message in seven is not what it should be."""

    def __init__(self, seed: int, started: int) -> None:
        self._dice = random.Random(f"{seed}/mishaps")  # noqa: S311 - repeatable on purpose
        # Ids must be new in every run, on whatever store: they begin with when that was.
        self._mark = f"demo-{started // timestamps.SECOND_US}"
        self._number = 0
        self._recent: deque[Happening] = deque(maxlen=_RECENT_MAX)

    def publish(self, happening: Happening, now: int) -> Delivery:
        """A message as it ought to be."""
        self._number += 1
        return Delivery(
            message_id=f"{self._mark}-{self._number}",
            publish_time=now,
            data=_encode(happening.payload),
            attributes={"topic": happening.topic},
            subscription=f"projects/demo/subscriptions/{happening.topic}-push",
        )

    def send(self, happening: Happening, now: int) -> Iterator[Mishap]:
        """Everything that reaches the consumer because of this."""
        dice = self._dice
        delivery = self.publish(happening, now)
        held_back = dice.random() < 0.06
        after_s = dice.uniform(0.8, 4.0) if held_back else 0.0
        yield Mishap(delivery, after_s, overtaken=held_back)
        if dice.random() < 0.05:
            yield Mishap(delivery, after_s + dice.uniform(0.05, 3.0), duplicate=True)
        if dice.random() < 0.02:
            yield Mishap(self.publish(happening, now), after_s + dice.uniform(0.5, 3.0), duplicate=True)
        if dice.random() < 0.015:
            yield Mishap(self.publish(_an_hour_old(happening, now), now), overtaken=True)
        if dice.random() < 0.012:
            yield Mishap(self._ruined(happening, now))
        self._recent.append(happening)
        if dice.random() < 0.01:
            # A producer that went back to an old state and says so again: a new message about an old event.
            yield Mishap(self.publish(dice.choice(self._recent), now), overtaken=True)

    def _ruined(self, happening: Happening, now: int) -> Delivery:
        """A message that can never succeed."""
        ways: list[dict[str, Any]] = [
            {"data": b'{"symbol": "SPY", "price": '},
            {"data": _encode({"hello": "world"}), "attributes": {}},
            {"data": _encode({**happening.payload, **dict.fromkeys(_TIME_FIELDS, "yesterday, about noon")})},
            {"data": _encode({name: ["a producer changed its schema"] for name in _NAME_FIELDS})},
        ]
        return msgspec.structs.replace(self.publish(happening, now), **self._dice.choice(ways))


def _an_hour_old(happening: Happening, now: int) -> Happening:
    old = timestamps.to_text(now - _LATE_US)
    # Of a bar, an older revision, not a bar of another minute.
    names = ("producedAt",) if "producedAt" in happening.payload else _TIME_FIELDS
    payload = {name: old if name in names else value for name, value in happening.payload.items()}
    # Without its sequence, which would tell that it is the newest after all.
    payload.pop("sequence", None)
    return happening._replace(payload=payload)
