"""What the command-line tests share: the installed command, run as a user would, and real servers beside it.

Nothing here imports the product: the tests see arguments, standard output, standard error and exit codes.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.common.process import COMMAND_S, Ran, clean_environment, run
from tests.common.server import Server

Serve = Callable[..., Server]


def command() -> list[str]:
    found = shutil.which("millpond", path=str(Path(sys.executable).parent))
    return [found] if found else [sys.executable, "-m", "millpond"]


class Shell:
    """A folder, a store in it, and the environment commands run with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "var" / "millpond.db"
        self.environment = clean_environment({"STORE": f"sqlite:{self.store}"})
        self._started: list[subprocess.Popen[bytes]] = []
        self._servers = contextlib.ExitStack()

    def run(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        return run([*command(), *arguments], self.folder, {**self.environment, **(env or {})}, stdin=stdin)

    def ok(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        ran = self.run(*arguments, stdin=stdin, env=env)
        assert ran.code == 0, ran
        return ran

    def start(
        self, *arguments: str, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        environment = {**self.environment, **(env or {})}
        process = subprocess.Popen([*command(), *arguments], cwd=self.folder, env=environment, **options)
        self._started.append(process)
        return process

    def serve(self, env: Mapping[str, str] | None = None) -> Server:
        """Start a server on the shell's store."""
        serve = [*command(), "serve", "--port", "0"]
        return self._servers.enter_context(Server(self.folder, {**self.environment, **(env or {})}, serve))

    def close(self) -> None:
        """End what the test left running, so that it disturbs no other."""
        self._servers.close()
        for process in self._started:
            if process.poll() is None:
                process.kill()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
            process.wait()

    def on_terminal(self, *arguments: str, keys: bytes = b"", columns: int = 200) -> Ran:
        """The same, but on a terminal, which sees standard output and standard error alike."""
        ours, theirs = pty.openpty()
        environment = {**self.environment, "TERM": "xterm", "COLUMNS": str(columns)}
        with subprocess.Popen(
            [*command(), *arguments], cwd=self.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            os.write(ours, keys)
            shown = b""
            # A terminal whose other end was closed answers with an error, not with an end of file.
            with contextlib.suppress(OSError):
                while chunk := os.read(ours, 65_536):
                    shown += chunk
            code = process.wait(timeout=COMMAND_S)
        os.close(ours)
        return Ran(code, shown.decode().replace("\r\n", "\n"), "")

    def write(self, name: str, *lines: Any) -> str:
        """A file of lines; what is not text or bytes is written as JSON."""
        raw = [line if isinstance(line, bytes) else _text(line).encode() for line in lines]
        (self.folder / name).write_bytes(b"".join(line + b"\n" for line in raw))
        return name


def _text(line: Any) -> str:
    return line if isinstance(line, str) else json.dumps(line)
