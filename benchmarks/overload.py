"""Throughput when more connections push than the waiting room holds, and none of them backs off."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import httptools
import msgspec
import uvloop

from benchmarks import messages, wrk
from benchmarks.checks import CONNECTIONS
from benchmarks.client import PUSH_PATH
from benchmarks.overload_results import CROWDS, GREEDY, POLITE, Goodput, Overload, Sharing
from benchmarks.processes import Address, Server
from benchmarks.setting import Bench, say

_SLOW = (sys.executable, "-m", "benchmarks.servers", "slow")
_PAUSE_S = 1.0
_POLITE_MESSAGES = 200_000


def measure(bench: Bench) -> Overload:
    found = Overload([], [], [], [])
    sizes = bench.sizes
    with bench.server("crowded") as server:
        wrk.run(server.address, bench.runs.next(), seconds=sizes.warm_up_s, connections=CONNECTIONS)
        for number in range(1, sizes.crowded_rounds + 1):
            for connections in (CONNECTIONS, *CROWDS):
                found.rounds.append(_shown(number, "", _load(bench, server, connections)))
            found.sharing.append(_share(bench, server))
            share = found.sharing[-1].share
            say(f"  round {number} {POLITE} polite beside {GREEDY} greedy: {share:.2f} of their share")
    most = CROWDS[-1]
    with (
        bench.server("slow", _SLOW) as slow,
        bench.server("slow-with-room", _SLOW, {"CONSUMER_QUEUE_SIZE": str(2 * most)}) as roomy,
    ):
        for number in range(1, sizes.crowded_rounds + 1):
            found.slow.append(_shown(number, "50 ms a commit", _load(bench, slow, most)))
            found.slow_with_room.append(_shown(number, "50 ms, room for all", _load(bench, roomy, most)))
    return found


def _load(bench: Bench, server: Server, connections: int) -> Goodput:
    os.sync()
    time.sleep(_PAUSE_S)
    cpu_s = server.cpu_s()
    sent = wrk.run(server.address, bench.runs.next(), seconds=bench.sizes.round_s, connections=connections)
    return Goodput(
        connections=connections,
        seconds=sent.seconds,
        ok=sent.ok,
        refused=sent.bad_status + sent.lost,
        p99_ms=sent.p99_us / 1_000,
        server_us_per_message=(server.cpu_s() - cpu_s) * 1e6 / max(1, sent.ok),
    )


def _shown(number: int, what: str, found: Goodput) -> Goodput:
    rate = f"{found.per_second:8,.0f}/s   refused {found.refused:7,}   p99 {found.p99_ms:6.0f} ms"
    say(f"  round {number} {found.connections:5,} connections {rate}   {what}")
    return found


def _share(bench: Bench, server: Server) -> Sharing:
    """The greedy clients are wrk; the polite ones are separate processes, so that wrk does not delay them."""
    name, start = bench.runs.next()
    command = [sys.executable, "-m", "benchmarks.overload", *map(str, server.address), name, str(start)]
    polite = subprocess.Popen([*command, str(bench.sizes.round_s)], stdout=subprocess.PIPE)
    greedy = wrk.run(server.address, bench.runs.next(), seconds=bench.sizes.round_s + 2, connections=GREEDY)
    said, _ = polite.communicate(timeout=60)
    # wrk runs a second longer on both sides; its rate is assumed to be constant.
    share = bench.sizes.round_s / greedy.seconds
    return Sharing(msgspec.json.decode(said, type=int), round(greedy.ok * share))


class _Polite(asyncio.Protocol):
    """One client: a message at a time, and after a refusal a pause as long as the server asks for."""

    def __init__(self, counter: list[int], bodies: Iterator[bytes], host: str) -> None:
        self._counter = counter
        self._bodies = bodies
        self._head = f"POST {PUSH_PATH} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n".encode()
        self._pause_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)
        self._send()

    def _send(self) -> None:
        body = next(self._bodies)
        self._transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (self._head, len(body), body))  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"retry-after":
            self._pause_s = float(value)

    def on_message_complete(self) -> None:
        self._counter[0] += self._parser.get_status_code() == 200
        pause_s, self._pause_s = self._pause_s, 0.0
        asyncio.get_running_loop().call_later(pause_s, self._send)


async def _be_polite(address: Address, run: tuple[str, int], seconds: float) -> int:
    loop = asyncio.get_running_loop()
    counter = [0]
    bodies = messages.heartbeats(run, _POLITE_MESSAGES)
    await asyncio.sleep(1)
    for _ in range(POLITE):
        await loop.create_connection(lambda: _Polite(counter, bodies, address.host), *address)
    await asyncio.sleep(seconds)
    return counter[0]


if __name__ == "__main__":
    host, port, name, start, seconds = sys.argv[1:]
    say(str(uvloop.run(_be_polite(Address(host, int(port)), (name, int(start)), float(seconds)))))
