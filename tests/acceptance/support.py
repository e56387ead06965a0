"""What the acceptance tests share: a server started as a user would, its log, and two kinds of client.

Nothing here imports the product: the tests see what a user sees, which is a command, a port and standard output.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import httpx

START_S = 20.0
ANSWER_S = 10.0
# A refusal comes at once, however little of the request was sent.
REFUSAL_S = 5.0
LINE_S = 5.0
PUBLISHED = "2026-01-08T12:00:00Z"
SUBSCRIPTION = "projects/local/subscriptions/acceptance"
VIEW_COLLECTIONS = (
    "ops_services",
    "ingest_pipelines",
    "market_ticks_latest",
    "market_ticks",
    "market_bars_1m",
    "trade_signals",
)
_BANNER = re.compile(r"^Millpond \S+ serves http://127\.0\.0\.1:(\d+) with \S")
_FENCE = re.compile(r'"subscription": ?"fence-(\d+)"')
# What the tests' own environment must not lend a server: every one of these is a setting.
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH")


# What every request that changes something must have, with or without a body.
JSON = {"content-type": "application/json"}


class Answer(NamedTuple):
    """One answer, whoever asked: status, headers (lower-case names) and decoded JSON."""

    status: int
    headers: dict[str, str]
    json: Any


class Server:
    """One `millpond serve`, or `pull`, in a process group of its own, with everything it printed."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = ("serve",),
        launcher: Sequence[str] = (),
    ) -> None:
        self.store = folder / "millpond.db"
        self._lines: list[str] = []
        self._more = threading.Condition()
        self._fences = 0
        self._fence_at: dict[int, int] = {}
        self.process = subprocess.Popen(
            [*launcher, sys.executable, "-m", "millpond", *arguments],
            env=clean_environment({"PORT": "0", "STORE": f"sqlite:{self.store}", **(environment or {})}),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()
        try:
            self.port = self._port()
            self.url = f"http://127.0.0.1:{self.port}"
            self.http = httpx.Client(base_url=self.url, timeout=ANSWER_S, trust_env=False)
            self.wait_for(lambda line: '"ready"' in line)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self._close()

    def terminate(self) -> int:
        """End it as Cloud Run does; its exit status."""
        os.kill(self.process.pid, signal.SIGTERM)
        status = self.process.wait(timeout=15)
        self._close()
        return status

    def _close(self) -> None:
        self.process.wait(timeout=15)
        self._reader.join(timeout=5)
        if self.process.stdout is not None:
            self.process.stdout.close()
        if hasattr(self, "http"):
            self.http.close()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            with self._more:
                line = raw.decode().rstrip("\n")
                self._lines.append(line)
                if found := _FENCE.search(line):
                    self._fence_at[int(found[1])] = len(self._lines) - 1
                self._more.notify_all()
        with self._more:
            self._more.notify_all()

    def _port(self) -> int:
        line = self.wait_for(lambda line: _BANNER.match(line) is not None, START_S)
        found = _BANNER.match(line)
        assert found is not None
        return int(found[1])

    @property
    def output(self) -> list[str]:
        """Every line printed so far."""
        with self._more:
            return list(self._lines)

    def wait_for(self, wanted: Any, timeout_s: float = START_S, start: int = 0) -> str:
        """The first line from index `start` on that `wanted` accepts."""
        until = time.monotonic() + timeout_s
        at = start
        with self._more:
            while True:
                while at < len(self._lines):
                    if wanted(self._lines[at]):
                        return self._lines[at]
                    at += 1
                left = until - time.monotonic()
                if left <= 0 or (self.process.poll() is not None and not self._reader.is_alive()):
                    text = "\n".join(self._lines[-20:])
                    raise AssertionError(f"the line did not come; the server's last lines:\n{text}")
                self._more.wait(min(left, 0.2))

    def fence(self) -> list[str]:
        """The log lines since the last fence: lines keep their order, so once ours is there, theirs are."""
        return self.lines_before(self.put_up_fence())

    def put_up_fence(self) -> int:
        """Send a message that changes nothing and can be told from all others; its number."""
        self._fences += 1
        body = push_body(
            {"service": "fence", "timestamp": PUBLISHED},
            message_id="fence",
            subscription=f"fence-{self._fences}",
        )
        answer = self.push(body)
        assert answer.status == 200, answer
        return self._fences

    def lines_before(self, fence: int) -> list[str]:
        """The log lines between a fence and the one before it."""
        until = time.monotonic() + LINE_S
        with self._more:
            while fence not in self._fence_at:
                left = until - time.monotonic()
                assert left > 0, "the fence was not logged: " + "\n".join(self._lines[-20:])
                self._more.wait(left)
            start = self._fence_at.get(fence - 1, -1) + 1
            lines = self._lines[start : self._fence_at[fence]]
        return [line for line in lines if line.startswith("{") and '"message":"ready"' not in line]

    def push(self, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """POST a push body: a value becomes JSON, bytes go as they are."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {**JSON, **(headers or {})}
        return answer_of(self.http.post("/pubsub/push", content=content, headers=sent))

    def send(self, payload: Any, **message: Any) -> Answer:
        """Publish one payload."""
        return self.push(push_body(payload, **message))

    def get(self, path: str, **headers: str) -> Answer:
        return answer_of(self.http.get(path, headers=headers))

    def document(self, path: str) -> dict[str, Any] | None:
        """A document's data by its path, or None."""
        collection, _, key = path.rpartition("/")
        answer = self.get(f"/api/docs/{quote(collection, safe='')}/{quote(key, safe='')}")
        if answer.status == 404:
            return None
        assert answer.status == 200, answer
        data = answer.json["data"]
        assert isinstance(data, dict)
        return data

    def documents(self, collections: tuple[str, ...] = VIEW_COLLECTIONS) -> dict[str, str]:
        """The version of every document of these collections, by path: the same version is the same content."""
        found: dict[str, str] = {}
        for collection in collections:
            after = ""
            while True:
                page = self.get(f"/api/docs/{quote(collection, safe='')}?limit=1000&after={quote(after, safe='')}")
                assert page.status == 200, page
                found.update({f"{doc['collection']}/{doc['id']}": doc["version"] for doc in page.json["docs"]})
                if page.json["next"] is None:
                    break
                after = page.json["next"]
        return found

    def letters(self) -> list[dict[str, Any]]:
        letters: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.get(f"/api/letters?limit=1000&after={quote(after, safe='')}").json
            letters += page["letters"]
            if page["next"] is None:
                return letters
            after = page["next"]

    def raw(self, *parts: bytes, timeout_s: float = REFUSAL_S) -> Answer:
        """Send bytes on a connection of their own and read one answer."""
        with self.connect(timeout_s) as connection:
            # A refusal may come, and the server stop reading, while we still send.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for part in parts:
                    connection.sendall(part)
            return read_answer(connection)

    @contextlib.contextmanager
    def connect(self, timeout_s: float = ANSWER_S) -> Iterator[socket.socket]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s) as connection:
            yield connection


# The fixture that starts servers: `start(folder=None, **environment)`.
Start = Callable[..., Server]


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """An environment without settings but these."""
    return {**{name: os.environ[name] for name in _KEPT if name in os.environ}, **extra}


def encoded(data: Any) -> str:
    """base64 of a value's JSON, or of bytes as they are."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.b64encode(raw).decode()


def push_body(
    data: Any,
    *,
    message_id: str = "m-1",
    published: str = PUBLISHED,
    topic: str | None = None,
    attributes: Any = None,
    attempt: Any = None,
    subscription: str | None = SUBSCRIPTION,
) -> dict[str, Any]:
    """A standard push body around a payload."""
    message: dict[str, Any] = {"data": encoded(data), "messageId": message_id, "publishTime": published}
    if topic is not None:
        attributes = {**(attributes or {}), "topic": topic}
    if attributes is not None:
        message["attributes"] = attributes
    body: dict[str, Any] = {"message": message}
    if subscription is not None:
        body["subscription"] = subscription
    if attempt is not None:
        body["deliveryAttempt"] = attempt
    return body


def answer_of(response: httpx.Response) -> Answer:
    kind = response.headers.get("content-type", "")
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, response.json() if kind.startswith("application/json") else None)


def read_answer(connection: socket.socket) -> Answer:
    """One HTTP answer from a socket, by the book: status line, headers, then Content-Length bytes."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(65_536)
        assert chunk, f"the connection was closed after {received!r:.200}"
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        chunk = connection.recv(65_536)
        assert chunk, f"the answer ended early: {body!r:.200}"
        body += chunk
    return Answer(int(status_line.split(" ")[1]), headers, json.loads(body) if body else None)


def ended(connection: socket.socket) -> bool:
    """Whether the server has closed its side, with nothing more to read."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@contextlib.contextmanager
def starting(new_folder: Callable[[], Path]) -> Iterator[Start]:
    """What starts servers, each in a new folder unless one is named; all are killed at the end."""
    with contextlib.ExitStack() as running:

        def started(folder: Path | None = None, **environment: str) -> Server:
            return running.enter_context(Server(new_folder() if folder is None else folder, environment))

        yield started
