"""Runs wrk on the generator's core, and measures its processor time."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import msgspec

from benchmarks import messages
from benchmarks.client import PUSH_PATH
from benchmarks.processes import Address, BenchError

SCRIPT = Path(__file__).with_name("push.lua")
_GRACE_S = 20


class Sent(msgspec.Struct):
    """What wrk counted. `bad_status` is every status over 399; Millpond answers nothing else but 200."""

    requests: int
    duration_us: int
    bad_status: int
    lost: int
    p50_us: float
    p99_us: float
    # wrk's share of its core.
    cpu: float = 0.0

    @property
    def seconds(self) -> float:
        return self.duration_us / 1e6

    @property
    def ok(self) -> int:
        return self.requests - self.bad_status


def find() -> str:
    path = shutil.which("wrk")
    if path is None:
        raise BenchError("wrk is missing: apt-get install wrk (Debian, Ubuntu), or https://github.com/wg/wrk")
    return path


def version() -> str:
    # wrk exits with 1 after printing its version.
    shown = subprocess.run([find(), "-v"], capture_output=True, text=True, check=False).stdout
    return " ".join(shown.split()[1:3])


def run(
    address: Address, run_of_messages: tuple[str, int], *, seconds: int, connections: int, path: str = PUSH_PATH
) -> Sent:
    """Load one path for `seconds`; the caller is on the generator's core already, and so is wrk."""
    name, start = run_of_messages
    command = [
        *(find(), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(SCRIPT)),
        *(address.url + path, "--", name, str(start), str(messages.body_bytes())),
    ]
    before = _children_cpu_s()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + _GRACE_S,
            env={"PATH": os.environ["PATH"]},
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"wrk did not end {_GRACE_S} s after its time") from error
    found = re.search(r"^BENCH (.*)$", done.stdout, re.MULTILINE)
    if found is None:
        raise BenchError(f"wrk failed: {(done.stdout + done.stderr)[-500:]}")
    sent = msgspec.json.decode(found[1], type=Sent)
    sent.cpu = (_children_cpu_s() - before) / sent.seconds
    return sent


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
