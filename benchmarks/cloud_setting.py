"""The set-up every cloud run shares: one emulator, a project for each run, and Millpond as a process on it."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import client, cloud_verify
from benchmarks.client import Tally
from benchmarks.cloud_messages import ENV, TOPIC, Message, system_events
from benchmarks.cloud_results import CONNECTIONS, QUEUE_SIZE, Sizes
from benchmarks.processes import BenchError, Cores, Server, core_busy_s, serving
from tests.common.process import ROOT, clean_environment
from tests.common.server import SERVE

PYTHON = (sys.executable, "-m")
# A slower run is aborted.
_PER_SECOND_MIN = 50
_START_S = 60


class Cloud:
    """One emulator of each kind for everything; `folder` is for logs and for files of messages."""

    def __init__(self, folder: Path, firestore: str, pubsub: str, sizes: Sizes) -> None:
        self.folder = folder
        self.firestore = firestore
        self.pubsub = pubsub
        self.sizes = sizes
        self._cores = sorted(os.sched_getaffinity(0))
        self._numbers = itertools.count(1)

    @contextlib.contextmanager
    def project(self) -> Iterator[str]:
        """A new project, cleared afterwards, so that one run's data does not slow the next."""
        name = f"bench-{next(self._numbers)}"
        yield name
        cloud_verify.clear(self.firestore, name)

    def messages(self, documents: int, count: int) -> list[Message]:
        return system_events(documents, count, next(self._numbers))

    @contextlib.contextmanager
    def server(
        self,
        project: str,
        firestore: str,
        settings: Mapping[str, str] | None = None,
        command: Sequence[str] = SERVE,
        number: int = 0,
    ) -> Iterator[Server]:
        """`millpond serve`, not pinned to a core: the emulator's threads need most of the cores."""
        pinned = Cores(self._cores[0], self._cores[0])
        wanted = {**settings_of(project, firestore), "CONSUMER_QUEUE_SIZE": str(QUEUE_SIZE), **(settings or {})}
        log = self.log_of(project, number)
        with serving(command, wanted, log, pinned) as server:
            # `serving` pins the server and this process, which only the local benchmark needs.
            for thread in Path(f"/proc/{server.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), self._cores)
            os.sched_setaffinity(0, self._cores)
            yield server
        log.unlink()

    def log_of(self, project: str, number: int = 0) -> Path:
        """The log file of one of the project's servers."""
        return self.folder / f"{project}-{number}.log"

    def watch_machine(self) -> Callable[[], float]:
        """Returns a function that returns the busy share of all cores since this call."""
        began, busy_s = time.perf_counter(), self._busy_s()
        return lambda: (self._busy_s() - busy_s) / (time.perf_counter() - began) / len(self._cores)

    def _busy_s(self) -> float:
        return sum(core_busy_s(core) for core in self._cores)


def settings_of(project: str, firestore: str) -> dict[str, str]:
    """Millpond's default settings on Firestore: receipts and event log on."""
    return {
        "STORE": "firestore",
        "FIRESTORE_EMULATOR_HOST": firestore,
        "GCP_PROJECT": project,
        "ENV": ENV,
        "SYSTEM_EVENTS_TOPIC": TOPIC,
        "DEFAULT_REGION": "local",
    }


def run_python(arguments: Sequence[str], settings: Mapping[str, str], messages: int) -> bytes:
    """Run a Python module as a process without the caller's environment. Returns its output."""
    environment = clean_environment({"PYTHONPATH": str(ROOT), **settings})
    limit_s = _START_S + messages / _PER_SECOND_MIN
    command = [*PYTHON, *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{arguments[0]} was not done after {limit_s:.0f} s") from error
    if done.returncode != 0:
        raise BenchError(f"{arguments[0]} failed ({done.returncode}): {_end_of(done.stderr or done.stdout)}")
    return done.stdout


def push(server: Server, bodies: Sequence[bytes], connections: int = CONNECTIONS) -> Tally:
    limit_s = _START_S + len(bodies) / _PER_SECOND_MIN
    return client.send(server.address, bodies, connections=connections, timeout_s=limit_s)


def faults_of(tally: Tally, sent: int) -> list[str]:
    """Every message must be answered 200, because refused ones are not sent again."""
    if tally.ok == sent and not tally.lost:
        return []
    return [f"{tally.ok} of {sent} answered 200 ({tally.statuses}), {tally.lost} connections lost"]


def _end_of(output: bytes) -> str:
    return " ".join(output[-500:].decode(errors="replace").split())
