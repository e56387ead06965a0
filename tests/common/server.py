"""Start a real `millpond serve`, or `pull`: on a free port, ready when it says so, with two kinds of client.

Nothing here imports the product: its users see what a user sees, which is a command, a port and standard output.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from tests.common.process import MILLPOND, START_S, Process
from tests.common.push import JSON, PUBLISHED, push_body

ANSWER_S = 10.0
# A refusal comes at once, however little of the request was sent.
REFUSAL_S = 5.0
LINE_S = 5.0
SERVE = (*MILLPOND, "serve")
VIEW_COLLECTIONS = (
    "ops_services",
    "ingest_pipelines",
    "market_ticks_latest",
    "market_ticks",
    "market_bars_1m",
    "trade_signals",
)
_BANNER = re.compile(r"^Millpond \S+ serves (http://127\.0\.0\.1:(\d+)) with \S")


class Answer(NamedTuple):
    """One answer, to either kind of client: status, headers (lower-case names) and decoded JSON."""

    status: int
    headers: dict[str, str]
    json: Any


class Server(Process):
    """One server on a free port."""

    start_s = START_S

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] = SERVE,
        output: Path | None = None,
    ) -> None:
        self.store = folder / "millpond.db"
        self._fences = 0
        # Where in the output each fence stands.
        self._fence_at = [-1]
        own = {"PORT": "0", "STORE": f"sqlite:{self.store}", **(environment or {})}
        super().__init__(command, folder, own, output)

    def wait_until_ready(self) -> None:
        found = _BANNER.match(self.wait_for(_BANNER.match, self.start_s))
        assert found is not None
        self.url, self.port = found[1], int(found[2])
        self.http = httpx.Client(base_url=self.url, timeout=ANSWER_S, trust_env=False)
        self.wait_for(lambda line: '"ready"' in line)

    def _close(self) -> None:
        super()._close()
        if hasattr(self, "http"):
            self.http.close()

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
        while len(self._fence_at) <= fence:
            name, start = f'"fence-{len(self._fence_at)}"', self._fence_at[-1] + 1
            self._fence_at.append(self._wait_for_line(lambda line, name=name: name in line, LINE_S, start))
        lines = self._lines[self._fence_at[fence - 1] + 1 : self._fence_at[fence]]
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


def answer_of(response: httpx.Response) -> Answer:
    kind = response.headers.get("content-type", "")
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, response.json() if kind.startswith("application/json") else None)


def read_answer(connection: socket.socket) -> Answer:
    """One HTTP answer from a socket, by the book, and nothing of a pipelined answer behind it."""
    with connection.makefile("rb", buffering=0) as unbuffered:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            byte = unbuffered.read(1)
            assert byte, f"the connection was closed after {head!r:.200}"
            head += byte
        status_line, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        body = b""
        while len(body) < length:
            part = unbuffered.read(length - len(body))
            assert part, f"the answer ended early: {body!r:.200}"
            body += part
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
