"""Starts, pins, observes and stops the measured servers. Each is stopped by its pid."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import tests.common.server
from tests.common.memory import Memory
from tests.common.process import ROOT

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """The measurement could not be made. One line, for people."""


class Address(NamedTuple):
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


class Cores(NamedTuple):
    """One core for the server alone; the other for everything else."""

    server: int
    generator: int


def choose_cores() -> Cores:
    generator, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise BenchError("two cores are needed, one for the server and one for the load generator")
    siblings = Path(f"/sys/devices/system/cpu/cpu{generator}/topology/thread_siblings_list")
    shared = re.findall(r"\d+", siblings.read_text()) if siblings.exists() else []
    return Cores(next((core for core in others if str(core) not in shared), others[0]), generator)


class Server:
    """A server process that answers."""

    def __init__(self, server: tests.common.server.Server) -> None:
        self.address = Address("127.0.0.1", server.port)
        self.pid = server.process.pid

    def get(self, path: str) -> bytes:
        return self._ask("GET", path)

    def post(self, path: str, body: bytes) -> bytes:
        return self._ask("POST", path, body)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        if response.status != http.client.OK:
            raise BenchError(f"{method} {path} answered {response.status}: {answer[:200]!r}")
        return answer

    def get_json(self, path: str) -> Any:
        return msgspec.json.decode(self.get(path))

    def metric(self, name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", self.get("/metrics").decode(), re.MULTILINE)
        if found is None:
            raise BenchError(f"/metrics has no {name}")
        return float(found[1])

    def log_entries(self) -> dict[str, int]:
        """The event log's entries by outcome, once nothing is waiting any more."""
        before: dict[str, int] = {}
        for _ in range(50):
            stats = self.get_json("/api/stats")
            now: dict[str, int] = {}
            for outcomes in stats["topics"].values():
                for outcome, n in outcomes.items():
                    now[outcome] = now.get(outcome, 0) + n
            if sum(now.values()) != stats["total"]:
                raise BenchError("/api/stats does not add up to its own total")
            if now == before and stats["waiting"] == 0:
                return now
            before = now
            time.sleep(0.2)
        raise BenchError("the event log was still growing ten seconds after the load ended")

    def cpu_s(self) -> float:
        """Processor time of all its threads so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    def resident_kib(self) -> int:
        return round(Memory(self.pid).now() * 1024)


def core_busy_s(core: int) -> float:
    """The busy time of the core so far: every process, the kernel, and time stolen by the host."""
    line = re.search(rf"^cpu{core} (.*)$", Path("/proc/stat").read_text(), re.MULTILINE)
    assert line is not None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line[1].split()[:8])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


@contextlib.contextmanager
def serving(command: Sequence[str], settings: Mapping[str, str], output: Path, cores: Cores) -> Iterator[Server]:
    """Run a server on its core until the block ends. Its log goes to `output`, a file, as it would in service."""
    environment = {"HOST": "127.0.0.1", "PYTHONPATH": str(ROOT), **settings}
    # A child inherits its parent's cores, so they are set before: then its first thread is on the right one.
    os.sched_setaffinity(0, {cores.server})
    try:
        process = tests.common.server.Server(ROOT, environment, command, output)
    except AssertionError as error:
        raise BenchError(f"the server did not start: {error}") from None
    finally:
        os.sched_setaffinity(0, {cores.generator})
    with process:
        yield Server(process)
        process.terminate()
