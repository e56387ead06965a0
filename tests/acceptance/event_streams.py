"""A reader of server-sent events, as a page is one: read in the background until it is left."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx

from tests.common.server import Server

EVENT_S = 10.0


class Event(NamedTuple):
    name: str
    content: Any
    # When it was read, by the monotonic clock.
    at: float


class Reading:
    """What came so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.comments = 0
        self.ended = False
        self._more = threading.Condition()

    def collect(self, response: httpx.Response) -> None:
        name = ""
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError):
            for line in response.iter_lines():
                field, _, value = line.partition(": ")
                with self._more:
                    if line.startswith(":"):
                        self.comments += 1
                    elif field == "event":
                        name = value
                    elif field == "data":
                        self.events.append(Event(name, json.loads(value), time.monotonic()))
                    self._more.notify_all()
        with self._more:
            self.ended = True
            self._more.notify_all()

    def wait(self, condition: Callable[[], bool], what: str, timeout_s: float = EVENT_S) -> None:
        with self._more:
            assert self._more.wait_for(condition, timeout_s), f"{what}: {self.events[-5:]!s:.2000}"

    def find(self, name: str, test: Callable[[Any], bool] = lambda _: True, timeout_s: float = EVENT_S) -> Any:
        """The content of the first event of this name that passes the test."""

        def found() -> list[Any]:
            return [event.content for event in self.events if event.name == name and test(event.content)]

        self.wait(lambda: bool(found()), f"no such {name}", timeout_s)
        return found()[0]

    def wait_for_end(self) -> None:
        self.wait(lambda: self.ended, "the stream did not end", 2)

    def named(self, name: str) -> list[Event]:
        return [event for event in self.events if event.name == name]


@contextlib.contextmanager
def reading(server: Server, path: str, **query: str | list[str]) -> Iterator[Reading]:
    """A stream that is read in the background; it is let in when this comes back."""
    target = f"{path}?{urlencode(query, doseq=True)}" if query else path
    found = Reading()
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(httpx.Client(base_url=server.url, timeout=60, trust_env=False))
        response = stack.enter_context(client.stream("GET", target))
        assert response.status_code == 200, response.read()
        reader = threading.Thread(target=found.collect, args=(response,), daemon=True)
        reader.start()
        # The first bytes: from now on everything is told.
        found.wait(lambda: bool(found.events or found.comments), "nothing came")
        try:
            yield found
        finally:
            # From under the reader, who would otherwise wait for the next bytes.
            with contextlib.suppress(OSError):
                response.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            reader.join(timeout=5)
            assert not reader.is_alive()


@contextlib.contextmanager
def unread(server: Server, path: str) -> Iterator[socket.socket]:
    """A stream that its client never reads, on a connection with room for very little."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.settimeout(EVENT_S)
    try:
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        assert connection.recv(15) == b"HTTP/1.1 200 OK"
        yield connection
    finally:
        connection.close()
