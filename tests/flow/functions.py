"""The Functions Framework as a process of its own, in an environment of its own: `make test` makes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.common.eventarc import Sent
from tests.common.needed import lacking
from tests.common.process import ROOT, Process, free_port

COMMAND = ROOT / ".venv-functions" / "bin" / "functions-framework"
HOW_TO_GET = "needs the Functions Framework in .venv-functions: `make test` installs it"
LINE_S = 5.0


class Function(Process):
    """The example's function, started as its README would, in `folder`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        if not COMMAND.exists():
            lacking(HOW_TO_GET)
        port, source = free_port(), ROOT / "examples" / "function" / "main.py"
        command = [str(COMMAND), "--target", "flow_worker", "--source", str(source), "--port", str(port)]
        self._port, self.url = port, f"http://127.0.0.1:{port}/"
        super().__init__(command, folder, environment)

    def wait_until_ready(self) -> None:
        self.wait_for_port(self._port)

    def send(self, sent: Sent, timeout_s: float = 20.0) -> httpx.Response:
        return httpx.post(self.url, content=sent.body, headers=sent.headers, timeout=timeout_s, trust_env=False)

    def lines(self, event_id: str) -> list[dict[str, Any]]:
        """The log lines about an event."""
        return [line for line in self.log_lines if line.get("eventId") == event_id]

    def wait_for_line(self, **wanted: Any) -> dict[str, Any]:
        """The first log line with these fields; lines are written every 50 ms."""
        found: dict[str, Any] = json.loads(
            self.wait_for(lambda line: line.startswith("{") and wanted.items() <= json.loads(line).items(), LINE_S)
        )
        return found
