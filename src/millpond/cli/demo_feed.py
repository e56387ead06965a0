"""The demo's broker: pushes over HTTP, like Pub/Sub, and sends again whatever was not acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from millpond.cli.address import Address
from millpond.cli.exits import Unreachable
from millpond.cli.http_client import Client
from millpond.cli.messages import encode_push, now_us
from millpond.cli.server import PUSH_PATH, answer_of
from millpond.demo.mishaps import Mishap, Mishaps
from millpond.demo.scene import Scene

_AT_ONCE = 32
_TIMEOUT_S = 20.0
_AGAIN_S = 1.0
_FINAL = frozenset({200, 400})


class Feed:
    def __init__(self, url: str, seed: int, rate: float) -> None:
        """`rate` is how many things happen in a second."""
        self._scene = Scene(seed)
        self._mishaps = Mishaps(seed, now_us())
        self._rate = rate
        self._client = Client(Address.parse(url), timeout_s=_TIMEOUT_S)
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._on_their_way: set[asyncio.Task[None]] = set()
        self.delivered = 0
        self.duplicates = 0
        self.out_of_order = 0
        self.outcomes: Counter[str] = Counter()

    async def run(self) -> None:
        """First what had happened before, then what happens, for ever."""
        for happening in self._scene.before(now_us()):
            await self._start(Mishap(self._mishaps.publish(happening, now_us())))
        due = time.monotonic()
        while True:
            for happening in self._scene.next(now_us()):
                for sent in self._mishaps.send(happening, now_us()):
                    await self._start(sent)
            due = max(due + 1 / self._rate, time.monotonic() - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def close(self) -> None:
        for task in self._on_their_way:
            task.cancel()
        await asyncio.gather(*self._on_their_way, return_exceptions=True)
        self._client.close()

    async def _start(self, sent: Mishap) -> None:
        # Waits where too much is under way, as a broker does whose consumer is slow.
        async with self._room:
            pass
        task = asyncio.create_task(self._deliver(sent))
        self._on_their_way.add(task)
        task.add_done_callback(self._on_their_way.discard)

    async def _deliver(self, sent: Mishap) -> None:
        await asyncio.sleep(sent.after_s)
        body = encode_push(sent.delivery)
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
        self.duplicates += sent.duplicate
        self.out_of_order += sent.overtaken
        self.outcomes[str(answer_of(reply).get("outcome"))] += 1
