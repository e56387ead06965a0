"""Sends requests as bytes on raw connections, several at once, and parses the answers."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Sequence
from typing import NamedTuple

from proof.fuzz.requests import Request

HOST = "127.0.0.1"
# Far longer than any answer takes, and far less than the server's 20 s limit for an incomplete request.
ANSWER_S = 10.0


class Answer(NamedTuple):
    """One valid answer: a status line, headers (lower-case names), Content-Length bytes."""

    status: int
    headers: dict[str, str]
    body: bytes


class Reply(NamedTuple):
    """The answers to one request, and what was wrong with the transfer; empty if nothing."""

    answers: tuple[Answer, ...]
    trouble: str = ""


class NotHttp(Exception):
    """The server's bytes are not an HTTP answer."""


class Connection:
    """One keep-alive connection, reopened after the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._received = b""

    def send(self, raw: bytes) -> None:
        if self._socket is None:
            self._socket = socket.create_connection((HOST, self._port), timeout=ANSWER_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._received = b""
        # The server may refuse the request and stop reading while we still send.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(raw)

    def one_answer(self, request: Request) -> Reply:
        """Wait for the answer to a request that was sent."""
        try:
            answer = self._read_answer()
        except TimeoutError:
            self.close()
            return Reply((), f"no answer after {ANSWER_S:g} s")
        except (OSError, NotHttp) as error:
            self.close()
            return Reply((), f"{type(error).__name__}: {error}")
        is_last = request.raw.partition(b"\r\n")[0].endswith(b"HTTP/1.0")
        if is_last or answer.headers.get("connection") == "close" or self._received:
            trouble = f"bytes after the answer: {self._received[:80]!r}" if self._received else ""
            self.close()
            return Reply((answer,), trouble)
        return Reply((answer,))

    def answers_so_far(self) -> tuple[list[Answer], bool]:
        """Answers received so far, without waiting, and whether the server has closed the connection."""
        assert self._socket is not None
        ended = False
        while not ended and select.select([self._socket], [], [], 0)[0]:
            try:
                more = self._socket.recv(65_536)
            except ConnectionResetError:
                more = b""
            self._received += more
            ended = not more
        answers = []
        while b"\r\n\r\n" in self._received:
            answer = self._read_answer()
            answers.append(answer)
        return answers, ended

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._received = b""

    def _read_answer(self) -> Answer:
        while True:
            head = self._read_to_blank_line()
            status_line, *lines = head.decode("latin-1").split("\r\n")
            version, _, rest = status_line.partition(" ")
            code = rest[:3]
            if not version.startswith("HTTP/1.") or not code.isdigit():
                raise NotHttp(f"{head[:80]!r}")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            # 100 Continue is an interim answer; the final one follows.
            if int(code) >= 200:
                break
        length = int(headers.get("content-length", "0"))
        while len(self._received) < length:
            self._read_more()
        body, self._received = self._received[:length], self._received[length:]
        return Answer(int(code), headers, body)

    def _read_to_blank_line(self) -> bytes:
        while b"\r\n\r\n" not in self._received:
            self._read_more()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        return head

    def _read_more(self) -> None:
        assert self._socket is not None
        more = self._socket.recv(262_144)
        if not more:
            raise NotHttp(f"the connection was closed after {self._received[:80]!r}")
        self._received += more


class Wire:
    """Connections to one server."""

    def __init__(self, port: int, lanes: int) -> None:
        self._port = port
        self._lanes = [Connection(port) for _ in range(lanes)]

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Send all of these at once, each on its own connection, and take the one answer to each."""
        lanes = self._lanes[: len(requests)]
        for lane, request in zip(lanes, requests, strict=True):
            lane.send(request.raw)
        return [lane.one_answer(request) for lane, request in zip(lanes, requests, strict=True)]

    def fling(self, requests: Sequence[Request]) -> Flung:
        """Send arbitrary bytes, each on a connection of its own."""
        connections = [Connection(self._port) for _ in requests]
        for connection, request in zip(connections, requests, strict=True):
            connection.send(request.raw)
        return Flung(connections)

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()


class Flung:
    """Bytes that were sent and may get no answer."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self._connections = connections
        self._answers: list[list[Answer]] = [[] for _ in connections]
        self._troubles = [""] * len(connections)
        self._ended = [False] * len(connections)

    def look(self) -> bool:
        """Take what has arrived. Returns whether the server has closed every connection."""
        for index, connection in enumerate(self._connections):
            if self._ended[index]:
                continue
            try:
                answers, self._ended[index] = connection.answers_so_far()
                self._answers[index] += answers
            except (OSError, NotHttp) as error:
                self._troubles[index] = f"{type(error).__name__}: {error}"
                self._ended[index] = True
        return all(self._ended)

    def replies(self) -> list[Reply]:
        """The replies so far. Open connections are closed: the rest of these requests is never sent."""
        for connection in self._connections:
            connection.close()
        return [
            Reply(tuple(answers), trouble) for answers, trouble in zip(self._answers, self._troubles, strict=True)
        ]
