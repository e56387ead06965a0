"""The Functions Framework as a process of its own, in an environment of its own: `make test` makes it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.support import clean_environment
from tests.common.emulators import free_port
from tests.common.eventarc import Sent
from tests.common.needed import lacking

ROOT = Path(__file__).parents[2]
COMMAND = ROOT / ".venv-functions" / "bin" / "functions-framework"
HOW_TO_GET = "needs the Functions Framework in .venv-functions: `make test` installs it"
START_S = 20.0
LINE_S = 5.0


class Function:
    """One running function: its port, its process and what it printed."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}/"
        self._log = log

    def send(self, sent: Sent, timeout_s: float = 20.0) -> httpx.Response:
        return httpx.post(self.url, content=sent.body, headers=sent.headers, timeout=timeout_s, trust_env=False)

    def lines(self, event_id: str) -> list[dict[str, Any]]:
        """The log lines about an event."""
        return [line for line in self._all_lines() if line.get("eventId") == event_id]

    def wait_for_line(self, **wanted: Any) -> dict[str, Any]:
        """The first log line with these fields; lines are written every 50 ms."""
        until = time.monotonic() + LINE_S
        while True:
            for line in self._all_lines():
                if wanted.items() <= line.items():
                    return line
            assert time.monotonic() < until, self._log.read_text(encoding="utf-8")
            time.sleep(0.02)

    def _all_lines(self) -> list[dict[str, Any]]:
        text = self._log.read_text(encoding="utf-8")
        # The last one may be half written.
        return [
            json.loads(line) for line in text.splitlines(keepends=True) if line[:1] == "{" and line[-1:] == "\n"
        ]


@contextlib.contextmanager
def function(folder: Path, environment: Mapping[str, str]) -> Iterator[Function]:
    """The example's function, started as its README would, in `folder`."""
    if not COMMAND.exists():
        lacking(HOW_TO_GET)
    port, log = free_port(), folder / "function.log"
    source = ROOT / "examples" / "function" / "main.py"
    with log.open("wb") as output:
        # Its server is a parent with children: so the group is ended.
        process = subprocess.Popen(
            [str(COMMAND), "--target", "flow_worker", "--source", str(source), "--port", str(port)],
            env=clean_environment(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_up(process, port, log)
        yield Function(process, port, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_until_up(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"the function did not start:\n{log.read_text(encoding='utf-8')}")
