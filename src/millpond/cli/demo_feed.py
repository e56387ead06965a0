"""The demo's broker: pushes over HTTP, like Pub/Sub, and resends unacknowledged messages. Run by `demo_show`."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

from millpond.cli.push_bodies import encode_push, now_us
from millpond.cli.server import PUSH_PATH
from millpond.core.errors import Unreachable
from millpond.core.model import Delivery
from millpond.demo.scene import Scene
from millpond.http_client import Address, Client
from millpond.sim.facts import TOPIC_NAMES, PublishedMessage, attributes_of, data_of

_AT_ONCE = 32
_TIMEOUT_S = 20.0
_AGAIN_S = 1.0
_FINAL = frozenset({200, 400})
# Probabilities per message.
_HELD_UP = 0.06
_DELIVERED_TWICE = 0.05
# The table is cleared at this size: new signals never stop coming.
_KEYS_MAX = 10_000


class Feed:
    def __init__(self, url: str, seed: int, rate: float) -> None:
        """`rate`: events per second."""
        self._scene = Scene(seed, now_us())
        self._dice = random.Random(f"{seed}/broker")  # noqa: S311 - repeatable on purpose
        self._rate = rate
        self._client = Client(Address.parse(url), timeout_s=_TIMEOUT_S)
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._in_flight: set[asyncio.Task[None]] = set()
        # Topic and key → the latest event time delivered.
        self._newest: dict[tuple[str, str], int] = {}
        self.delivered = 0
        self.duplicates = 0
        self.out_of_order = 0
        self.outcomes: Counter[str] = Counter()

    async def run(self) -> None:
        """Publish the history first, then new events until cancelled."""
        for message in self._scene.before(now_us()):
            await self._start(message, 0.0)
        due = time.monotonic()
        while True:
            for messages in self._scene.next(now_us()):
                for number, message in enumerate(messages):
                    await self._publish(message, is_copy=number > 0)
            due = max(due + 1 / self._rate, time.monotonic() - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def close(self) -> None:
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)
        self._client.close()

    async def _publish(self, message: PublishedMessage, *, is_copy: bool) -> None:
        """Start all deliveries of this message, some late, some twice."""
        dice = self._dice
        after_s = max(0.0, (message.published_at - now_us()) / 1e6)
        after_s += dice.uniform(0.8, 4.0) if dice.random() < _HELD_UP else 0.0
        await self._start(message, after_s, is_duplicate=is_copy)
        if dice.random() < _DELIVERED_TWICE:
            await self._start(message, after_s + dice.uniform(0.05, 3.0), is_duplicate=True)

    async def _start(self, message: PublishedMessage, after_s: float, *, is_duplicate: bool = False) -> None:
        # Wait if too many deliveries are in flight, as a broker does with a slow consumer.
        async with self._room:
            pass
        task = asyncio.create_task(self._deliver(message, after_s, is_duplicate=is_duplicate))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def _deliver(self, message: PublishedMessage, after_s: float, *, is_duplicate: bool) -> None:
        await asyncio.sleep(after_s)
        body = encode_push(_delivery(message))
        is_overtaken = self._is_overtaken(message)
        async with self._room:
            while True:
                try:
                    reply = await self._client.request("POST", PUSH_PATH, body)
                except Unreachable:
                    await asyncio.sleep(_AGAIN_S)
                    continue
                if reply.status in _FINAL:
                    break
                await asyncio.sleep(_AGAIN_S)
        self.delivered += 1
        self.duplicates += is_duplicate
        self.out_of_order += is_overtaken
        self.outcomes[str(reply.answer.get("outcome"))] += 1

    def _is_overtaken(self, message: PublishedMessage) -> bool:
        """Whether a later event with the same topic and key was delivered before."""
        fact = message.fact
        at = message.published_at if fact.at is None else fact.at
        if len(self._newest) > _KEYS_MAX:
            self._newest.clear()
        newest = self._newest[fact.topic, fact.key] = max(at, self._newest.get((fact.topic, fact.key), 0))
        return at < newest


def _delivery(message: PublishedMessage) -> Delivery:
    return Delivery(
        message_id=message.id,
        publish_time=message.published_at,
        data=data_of(message.fact),
        attributes=attributes_of(message.fact),
        subscription=f"projects/demo/subscriptions/{TOPIC_NAMES[message.fact.topic]}-push",
    )
