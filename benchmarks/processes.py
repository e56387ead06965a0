"""Starting, pinning, watching and stopping what is measured. What is started here is stopped here, by its pid."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

ROOT = Path(__file__).resolve().parents[1]
# `python -m millpond serve` is the `millpond serve` command.
MILLPOND = (sys.executable, "-m", "millpond", "serve")
_START_S_MAX = 20.0
_STOP_S_MAX = 15.0
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
    """The server has one to itself; everything else is on the other."""

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

    def __init__(self, process: subprocess.Popen[bytes], address: Address) -> None:
        self.address = address
        self.pid = process.pid
        self._process = process

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
        found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE)
        if found is None:
            raise BenchError(f"process {self.pid} is gone")
        return int(found[1])


def core_busy_s(core: int) -> float:
    """Time the core has spent on anything so far: every process, the kernel, and what the host took away."""
    line = re.search(rf"^cpu{core} (.*)$", Path("/proc/stat").read_text(), re.MULTILINE)
    assert line is not None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, line[1].split()[:8])
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


@contextlib.contextmanager
def serving(command: Sequence[str], settings: Mapping[str, str], output: Path, cores: Cores) -> Iterator[Server]:
    """Run a server on its core until the block ends. Its log goes to `output`, a file, as it would in service."""
    # Nothing of the caller's environment may change a setting.
    environment = {
        "PATH": os.environ["PATH"],
        "HOST": "127.0.0.1",
        "PORT": "0",
        "PYTHONPATH": str(ROOT),
        **settings,
    }
    # A child starts on the cores of its parent; set before, so that its first thread is on the right one already.
    os.sched_setaffinity(0, {cores.server})
    try:
        with output.open("wb") as stream:
            process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
            )
    finally:
        os.sched_setaffinity(0, {cores.generator})
    try:
        server = Server(process, _wait_for_address(process, output))
        _wait_until_ready(server)
        yield server
    finally:
        _stop(process)


def _wait_for_address(process: subprocess.Popen[bytes], output: Path) -> Address:
    deadline = time.monotonic() + _START_S_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with output.open("rb") as stream:
            found = re.search(rb"serves http://([\d.]+):(\d+)", stream.read(4_096))
        if found is not None:
            return Address(found[1].decode(), int(found[2]))
        time.sleep(0.05)
    raise BenchError(f"the server did not start: {output.read_bytes()[-500:].decode(errors='replace')}")


def _wait_until_ready(server: Server) -> None:
    deadline = time.monotonic() + _START_S_MAX
    while True:
        try:
            server.get("/ready")
        except (OSError, BenchError) as error:
            if time.monotonic() > deadline:
                raise BenchError(f"the server never became ready: {error}") from None
            time.sleep(0.05)
        else:
            return


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
