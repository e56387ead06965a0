"""A TCP relay that delays every byte by half a round trip, in a process of its own. Knows nothing of gRPC.

It costs next to no processor time, so timed runs go through it. Prints its port. Ended by its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator

import uvloop

from tests.common.process import ROOT, clean_environment


@contextlib.contextmanager
def delaying(upstream: str, round_trip_s: float) -> Iterator[str]:
    """The address of a relay in front of `upstream`."""
    command = [sys.executable, "-m", "benchmarks.delay_relay", upstream, str(round_trip_s)]
    environment = clean_environment({"PYTHONPATH": str(ROOT)})
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()


class _Side(asyncio.Protocol):
    """One connection; what it receives leaves by `other`."""

    def __init__(self, way_s: float) -> None:
        self._way_s = way_s
        self._transport: asyncio.Transport | None = None
        self.other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's classes.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self._way_s, self._pass_on, data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        if self.other is not None:
            self.other.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _pass_on(self, data: bytes) -> None:
        if self.other is not None:
            self.other.send(data)


class _Front(_Side):
    """The client's connection: nothing is read before the other side is open."""

    def __init__(self, way_s: float, upstream: tuple[str, int]) -> None:
        super().__init__(way_s)
        self._upstream = upstream
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self._transport is not None
        self._transport.pause_reading()
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        _, back = await loop.create_connection(lambda: _Side(self._way_s), *self._upstream)
        self.other, back.other = back, self
        assert self._transport is not None
        self._transport.resume_reading()


async def _serve(upstream: str, round_trip_s: float) -> None:
    host, _, port = upstream.rpartition(":")
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Front(round_trip_s / 2, (host, int(port))), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1], float(sys.argv[2])))
