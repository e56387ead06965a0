"""The load generator of a fleet, a process of its own: each message to its instance, in a closed or an open loop.

A message that is not answered 200 is sent again to another instance, as Pub/Sub does, until it is acknowledged.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from array import array
from pathlib import Path
from typing import cast

import httptools
import msgspec
import uvloop

from benchmarks.client import PUSH_PATH, percentile

_REDELIVERED_S = 0.1


class Job(msgspec.Struct, kw_only=True):
    """What to send: each body with the number of its instance; either `in_flight` at once, or `rate` a second."""

    ports: list[int]
    bodies: list[bytes]
    instances: list[int]
    in_flight: int | None
    rate: float | None
    seed: int
    timeout_s: float


class Report(msgspec.Struct, kw_only=True):
    seconds: float
    p50_ms: float
    p99_ms: float
    acknowledged: int
    # Answers that were not 200, by status.
    refused: dict[int, int]
    cpu_share: float


class _Sending:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.latencies = array("d")
        self.refused: dict[int, int] = {}
        self.idle: list[list[_Connection]] = [[] for _ in job.ports]
        self.dice = random.Random(job.seed)
        self.finished = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._next = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> Report:
        job = self.job
        began, cpu = time.perf_counter(), time.process_time()
        async with asyncio.timeout(job.timeout_s):
            if job.rate is None:
                for _ in range(job.in_flight or 1):
                    self.send_next()
            else:
                await self._send_at(job.rate)
            await self.finished.wait()
        seconds = time.perf_counter() - began
        ordered = sorted(self.latencies)
        return Report(
            seconds=seconds,
            p50_ms=percentile(ordered, 0.50) * 1_000,
            p99_ms=percentile(ordered, 0.99) * 1_000,
            acknowledged=len(ordered),
            refused=self.refused,
            cpu_share=(time.process_time() - cpu) / seconds,
        )

    async def _send_at(self, rate: float) -> None:
        due = time.perf_counter()
        for number in range(len(self.job.bodies)):
            due += self.dice.expovariate(rate)
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            # From when it was due: a generator that is late must not flatter the latency.
            self.send(number, due)

    def send_next(self) -> None:
        if self._next < len(self.job.bodies):
            self._next += 1
            self.send(self._next - 1, time.perf_counter())

    def send(self, number: int, began: float, instance: int | None = None) -> None:
        instance = self.job.instances[number] if instance is None else instance
        if self.idle[instance]:
            self.idle[instance].pop().send(number, began)
        else:
            task = self.loop.create_task(self._connect(instance, number, began))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _connect(self, instance: int, number: int, began: float) -> None:
        port = self.job.ports[instance]
        _, made = await self.loop.create_connection(lambda: _Connection(self, instance, port), "127.0.0.1", port)
        made.send(number, began)

    def answered(self, number: int, began: float, status: int) -> None:
        if status != 200:
            self.refused[status] = self.refused.get(status, 0) + 1
            other = self.dice.randrange(len(self.job.ports))
            self.loop.call_later(_REDELIVERED_S, self.send, number, began, other)
            return
        self.latencies.append(time.perf_counter() - began)
        if len(self.latencies) == len(self.job.bodies):
            self.finished.set()
        elif self.job.rate is None:
            self.send_next()


class _Connection(asyncio.Protocol):
    def __init__(self, sending: _Sending, instance: int, port: int) -> None:
        self._sending = sending
        self._instance = instance
        self._parser = httptools.HttpResponseParser(self)
        self._head = (
            f"POST {PUSH_PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n".encode()
        )
        self._number, self._began = 0, 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, number: int, began: float) -> None:
        self._number, self._began = number, began
        body = self._sending.job.bodies[number]
        self._transport.write(b"%bContent-Length: %d\r\n\r\n%b" % (self._head, len(body), body))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._sending.idle[self._instance].append(self)
        self._sending.answered(self._number, self._began, self._parser.get_status_code())


async def _run(job: Job) -> Report:
    return await _Sending(job).run()


if __name__ == "__main__":
    wanted = msgspec.msgpack.decode(Path(sys.argv[1]).read_bytes(), type=Job)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(_run(wanted))))
