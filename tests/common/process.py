"""Start a real process: a clean environment, a process group of its own, its output kept, ended by its group."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).resolve().parents[2]
MILLPOND = (sys.executable, "-m", "millpond")
START_S = 20.0
END_S = 15.0
COMMAND_S = 60.0
_POLL_S = 0.005
# What the caller's environment may lend a process: every other variable could be a setting.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")


class Ran(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as exactly one JSON document."""
        return json.loads(self.out)


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment without settings but these."""
    return {**{name: os.environ[name] for name in _KEPT if name in os.environ}, **(extra or {})}


def run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    stdin: bytes = b"",
    timeout_s: float = COMMAND_S,
) -> Ran:
    """Run a command that ends by itself. It must not answer with a traceback."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=clean_environment(environment),
        input=stdin,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in ran.err, ran.err
    return ran


def millpond(folder: Path, *arguments: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Ran:
    """Run a `millpond` command in this folder."""
    return run([*MILLPOND, *arguments], folder, env, stdin=stdin)


def free_port() -> int:
    """A port that stays free until it is used, seconds later.

    Below those the system lends to outgoing connections: other tests make thousands of these at the same time.
    """
    while True:
        # Not the shared generator: properties set its seed.
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Process:
    """One running command, and everything it printed, standard error included."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        output: Path | None = None,
    ) -> None:
        # A file, not a pipe: a reader that falls behind must not slow down what is tested or measured.
        self._file = tempfile.TemporaryFile() if output is None else output.open("wb+")  # noqa: SIM115 - see `_close`
        self._lines: list[str] = []
        self._read_to = 0
        self._lock = threading.Lock()
        try:
            self.process = subprocess.Popen(
                command,
                env=clean_environment(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=self._file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            self._file.close()
            raise
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def wait_until_ready(self) -> None:
        """Come back when it has started; what that means is a subclass's business."""

    @property
    def output(self) -> list[str]:
        """Every complete line printed so far."""
        with self._lock:
            self._read()
            return list(self._lines)

    @property
    def log_lines(self) -> list[dict[str, Any]]:
        """Every line of JSON printed so far."""
        return [json.loads(line) for line in self.output if line.startswith("{")]

    def kill(self) -> None:
        """End the whole group at once, as a power cut would."""
        if not self._file.closed:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self._close()

    def terminate(self) -> int:
        """End it as Cloud Run does; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=END_S)
        self._close()
        return status

    def wait_for(self, wanted: Callable[..., Any], timeout_s: float = START_S, start: int = 0) -> str:
        """The first line from index `start` on that `wanted` accepts."""
        return self._lines[self._wait_for_line(wanted, timeout_s, start)]

    def wait_for_port(self, port: int, timeout_s: float = START_S) -> None:
        """Come back when it listens on this port."""
        until = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            self._give_up_if(time.monotonic() > until or self.process.poll() is not None)
            time.sleep(_POLL_S)

    def _wait_for_line(self, wanted: Callable[..., Any], timeout_s: float, start: int) -> int:
        until = time.monotonic() + timeout_s
        at = start
        while True:
            over = time.monotonic() > until or self.process.poll() is not None
            with self._lock:
                self._read()
            while at < len(self._lines):
                if wanted(self._lines[at]):
                    return at
                at += 1
            self._give_up_if(over)
            time.sleep(_POLL_S)

    def _give_up_if(self, over: bool) -> None:
        if over:
            text = "\n".join(self.output[-20:])
            raise AssertionError(f"{self.process.args!r:.200} did not say so; its last lines:\n{text}")

    def _read(self) -> None:
        """Take in what was printed since the last time, up to the last complete line."""
        if self._file.closed:
            return
        # Not `read`: the process writes at the position that it shares with our file.
        size = os.fstat(self._file.fileno()).st_size
        some = os.pread(self._file.fileno(), size - self._read_to, self._read_to)
        complete = some[: some.rfind(b"\n") + 1]
        self._read_to += len(complete)
        self._lines += complete.decode(errors="replace").split("\n")[:-1]

    def _close(self) -> None:
        self.process.wait(timeout=END_S)
        with self._lock:
            self._read()
            self._file.close()
