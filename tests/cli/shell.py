"""What the command-line tests share: the installed command, run as a user would, and real servers beside it.

Nothing here imports the product: the tests see arguments, standard output, standard error and exit codes.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

START_S = 20.0
COMMAND_S = 40.0
# What the tests' own environment must not lend a command: everything else could be a setting.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")


def command() -> list[str]:
    found = shutil.which("millpond", path=str(Path(sys.executable).parent))
    return [found] if found else [sys.executable, "-m", "millpond"]


class Ran(NamedTuple):
    """One finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as exactly one JSON document."""
        return json.loads(self.out)


class Shell:
    """A folder, a store in it, and the environment commands run with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "var" / "millpond.db"
        self.environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        self.environment["STORE"] = f"sqlite:{self.store}"
        self._started: list[subprocess.Popen[bytes]] = []

    def run(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
        done = subprocess.run(
            [*command(), *arguments],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=COMMAND_S,
            cwd=self.folder,
            env={**self.environment, **(env or {})},
        )
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        # Whatever a test is about, no command may ever answer with a traceback.
        assert "Traceback" not in ran.err, ran.err
        return ran

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

    def close(self) -> None:
        """End whatever a failed test left running, so that it disturbs no other."""
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


class Server:
    """`millpond serve` on a free port, its standard output in a file."""

    def __init__(self, shell: Shell, env: Mapping[str, str] | None = None) -> None:
        self.log = shell.folder / "serve.log"
        self._began_at = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = shell.start(
                "serve", "--port", "0", env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self.url = self._wait_for_url()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(timeout=10) == 0

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def _wait_for_url(self) -> str:
        give_up_at = time.monotonic() + START_S
        while time.monotonic() < give_up_at:
            for line in self.log.read_bytes()[self._began_at :].decode().splitlines():
                if line.startswith("Millpond ") and " serves " in line:
                    return line.split(" serves ")[1].split(" ")[0]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"the server did not start: {self.log.read_text()}")


Serve = Callable[..., Server]


def _text(line: Any) -> str:
    return line if isinstance(line, str) else json.dumps(line)
