"""A bounded load generator: sends exactly the bodies it is given, over N connections, and counts every answer.

wrk is faster, but stops by the clock and abandons requests in flight. Measurements with exact counts use this one.
"""

from __future__ import annotations

import asyncio
import collections
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

import httptools
import msgspec
import uvloop

from benchmarks.processes import Address, BenchError

PUSH_PATH = "/pubsub/push"


class Tally(msgspec.Struct):
    """The answers, counted."""

    seconds: float = 0.0
    answered: int = 0
    # Connections that the server closed unasked.
    lost: int = 0
    statuses: dict[int, int] = msgspec.field(default_factory=dict)
    outcomes: dict[str, int] = msgspec.field(default_factory=dict)
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    # The client's own share of its core: near 1 means that it, not the server, was measured.
    generator_cpu: float = 0.0

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds if self.seconds else 0.0

    @property
    def ok(self) -> int:
        return self.statuses.get(200, 0)


def send(
    address: Address,
    bodies: Iterable[bytes],
    *,
    connections: int,
    timeout_s: float,
    on_answer: Callable[[int], None] = lambda _: None,
) -> Tally:
    """Send every body once over `connections` keep-alive connections; `on_answer(n)` after the n-th answer."""
    try:
        return uvloop.run(_Sending(address, iter(bodies), on_answer).run(connections, timeout_s))
    except OSError as error:
        # TimeoutError is an OSError, too.
        raise BenchError(f"the bounded generator gave up: {error!r} (at most {timeout_s:.0f} s)") from error


class _Answer(msgspec.Struct):
    outcome: str


class _Sending:
    def __init__(self, address: Address, bodies: Iterator[bytes], on_answer: Callable[[int], None]) -> None:
        self.bodies = bodies
        self.on_answer = on_answer
        self.latencies = array("d")
        self.statuses: collections.Counter[int] = collections.Counter()
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.answered = self.lost = self.open = 0
        self.finished = asyncio.Event()
        self._address = address
        self.head = (
            f"POST {PUSH_PATH} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()

    async def run(self, connections: int, timeout_s: float) -> Tally:
        loop = asyncio.get_running_loop()
        began, cpu_began = time.perf_counter(), time.process_time()
        self.open = connections
        async with asyncio.timeout(timeout_s):
            for _ in range(connections):
                await loop.create_connection(lambda: _Connection(self), self._address.host, self._address.port)
            await self.finished.wait()
        seconds = time.perf_counter() - began
        latencies = sorted(self.latencies)
        return Tally(
            seconds=seconds,
            answered=self.answered,
            lost=self.lost,
            statuses=dict(self.statuses),
            outcomes=dict(self.outcomes),
            p50_ms=percentile(latencies, 0.50) * 1_000,
            p99_ms=percentile(latencies, 0.99) * 1_000,
            generator_cpu=(time.process_time() - cpu_began) / seconds,
        )

    def closed(self) -> None:
        self.open -= 1
        if self.open == 0:
            self.finished.set()


class _Connection(asyncio.Protocol):
    def __init__(self, sending: _Sending) -> None:
        self._sending = sending
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._body = b""
        self._sent_at = 0.0
        self._done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)
        self._send_next()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        sending = self._sending
        sending.latencies.append(time.perf_counter() - self._sent_at)
        sending.answered += 1
        sending.statuses[self._parser.get_status_code()] += 1
        sending.outcomes[msgspec.json.decode(self._body, type=_Answer).outcome] += 1
        self._body = b""
        sending.on_answer(sending.answered)
        self._send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._sending.lost += not self._done
        self._sending.closed()

    def _send_next(self) -> None:
        assert self._transport is not None
        body = next(self._sending.bodies, None)
        if body is None:
            self._done = True
            self._transport.close()
            return
        self._sent_at = time.perf_counter()
        self._transport.write(b"%b%d\r\n\r\n%b" % (self._sending.head, len(body), body))


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
