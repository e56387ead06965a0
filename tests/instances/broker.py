"""A broker as Pub/Sub is one: every message again until an instance answers 200, in no order, to any instance."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import httpx

from tests.common.server import Server
from tests.instances.traffic import Message

AT_ONCE = 24
ANSWER_S = 15.0
# No message is refused for ever: beyond this many attempts at one delivery something is wrong.
ATTEMPTS_MAX = 40
_PAUSE_S = 0.05
_JSON = {"content-type": "application/json"}


class Broker:
    def __init__(self, servers: list[Server], seed: int) -> None:
        # Changed by the test while messages are under way.
        self.servers = servers
        self.statuses: Counter[int] = Counter()
        self.outcomes: Counter[str] = Counter()
        # Requests that got no answer at all.
        self.broken = 0
        # Who acknowledged a message last.
        self.taken_by: dict[str, int] = {}
        self._random = random.Random(seed)

    async def send(
        self,
        deliveries: Sequence[Message],
        choose: Callable[[Message], int] | None = None,
        half_way: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Deliver all of them; `half_way` is run beside the second half."""
        waiting = list(reversed(deliveries))
        beside: list[asyncio.Future[None]] = []

        async def courier(client: httpx.AsyncClient) -> None:
            while waiting:
                message = waiting.pop()
                if half_way is not None and not beside and len(waiting) < len(deliveries) // 2:
                    beside.append(asyncio.ensure_future(half_way()))
                await self._deliver(client, message, choose)

        async with httpx.AsyncClient(timeout=ANSWER_S, trust_env=False) as client:
            await asyncio.gather(*(courier(client) for _ in range(AT_ONCE)))
            await asyncio.gather(*beside)

    def _url(self, number: int) -> str:
        return f"{self.servers[number].url}/pubsub/push"

    async def _deliver(
        self, client: httpx.AsyncClient, message: Message, choose: Callable[[Message], int] | None
    ) -> None:
        for _ in range(ATTEMPTS_MAX):
            number = choose(message) if choose is not None else self._random.randrange(len(self.servers))
            try:
                answer = await client.post(self._url(number), content=message.encoded(), headers=_JSON)
            except httpx.TransportError:
                self.broken += 1
                await asyncio.sleep(_PAUSE_S)
                continue
            self.statuses[answer.status_code] += 1
            if answer.status_code == 200:
                self.outcomes[answer.json()["outcome"]] += 1
                self.taken_by[message.message_id] = number
                return
            await asyncio.sleep(_PAUSE_S)
        raise AssertionError(f"no instance takes {message.message_id}: {self.statuses}")
