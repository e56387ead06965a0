"""Attacks on a server's memory: a malicious client's uploads, and a broker's deliveries of huge poison.

Each attack is a generator that yields None between its steps, so that `run.py` can measure memory in between.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterator, Sequence

from tests.common.push import push_body, push_bytes
from tests.common.server import Server

MIB = 1024 * 1024
BODY_BYTES = 14 * MIB
# The largest message of Pub/Sub, in a push body of almost 14 MiB.
DATA_BYTES = 9_900_000
_ANSWER_S = 60.0
_PIECE = b" " * (256 * 1024)
_HEAD = f"POST /pubsub/push HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"  # noqa: F541


class Unexpected(Exception):
    """The server did not answer as it must."""


def connect(server: Server) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", server.port), timeout=_ANSWER_S)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def abort_uploads(server: Server, count: int) -> Iterator[None]:
    """One connection at a time announces a body, sends all of it but one byte, and closes."""
    for _ in range(count):
        with connect(server) as opened, contextlib.suppress(OSError):
            opened.sendall(f"{_HEAD}content-length: {BODY_BYTES}\r\n\r\n".encode())
            left = BODY_BYTES - 1
            while left:
                piece = _PIECE[:left]
                opened.sendall(piece)
                left -= len(piece)
        yield


def abort_expecting(server: Server, count: int) -> Iterator[None]:
    """The same through the ASGI application, which serves requests with `Expect`."""
    for _ in range(count):
        with connect(server) as opened, contextlib.suppress(OSError):
            opened.sendall(f"{_HEAD}expect: 100-continue\r\ncontent-length: {BODY_BYTES}\r\n\r\n".encode())
            for _ in range(BODY_BYTES // len(_PIECE) - 1):
                opened.sendall(_PIECE)
        yield


def upload_at_once(server: Server, count: int) -> Iterator[None]:
    """`count` connections, each with a complete body of 14 MiB, all sending as fast as the server reads."""
    message = push_bytes(b"x", message_id="at-once")
    head = f"{_HEAD}content-length: {BODY_BYTES}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(connect(server)) for _ in range(count)]
        left = dict.fromkeys(opened, BODY_BYTES - len(message))
        for connection in opened:
            connection.sendall(head)
            connection.setblocking(False)
        until = time.monotonic() + _ANSWER_S
        while left and time.monotonic() < until:
            moved = False
            for connection in list(left):
                try:
                    piece = _PIECE[: left[connection]] or message
                    sent = connection.send(piece)
                except BlockingIOError:
                    continue
                except OSError:
                    # Refused and closed, which is a valid answer.
                    del left[connection]
                    continue
                moved = True
                if left[connection]:
                    left[connection] -= sent
                else:
                    del left[connection]
            yield
            if not moved:
                time.sleep(0.005)
        if left:
            raise Unexpected(f"{len(left)} of {count} uploads were neither taken nor refused")


def push_poison(server: Server, count: int, *, cut: bool = False, native: bool = False) -> Iterator[None]:
    """Messages that no view takes, or that are no JSON, one after another; buried, or refused with 400."""
    status, reason = 400 if native else 200, "invalid_json" if cut else "unroutable_payload"
    for number, data in enumerate(payloads(count, cut=cut)):
        message_id = f"poison-{'cut' if cut else 'whole'}-{'native' if native else 'buried'}-{number}"
        body = push_body(data, message_id=message_id, attempt=1 if native else None)
        answer = server.http.post("/pubsub/push", json=body, timeout=_ANSWER_S)
        if (answer.status_code, answer.json()["reason"]) != (status, reason):
            raise Unexpected(f"{message_id} was answered {answer.status_code} {answer.text[:300]}")
        yield


def replay_letters(server: Server, ids: Sequence[str]) -> Iterator[None]:
    """Replay each letter, which is poison again."""
    for key in ids:
        answer = server.http.post(f"/api/letters/{key}/replay", timeout=_ANSWER_S, json={})
        if answer.json()["outcome"] != "poison":
            raise Unexpected(f"the replay of {key} was answered {answer.status_code} {answer.text[:300]}")
        yield


def preview_letters(server: Server, ids: Sequence[str]) -> Iterator[None]:
    """Preview the replay of each letter, which changes nothing."""
    for key in ids:
        answer = server.http.post("/api/letters/preview", json={"ids": [key]}, timeout=_ANSWER_S)
        if answer.status_code != 200:
            raise Unexpected(f"the preview of {key} was answered {answer.status_code} {answer.text[:300]}")
        yield


def letter_ids(server: Server, count: int) -> list[str]:
    ids: list[str] = server.http.get("/api/letters/ids", timeout=_ANSWER_S).json()["ids"]
    if len(ids) < count:
        raise Unexpected(f"{len(ids)} letters, and there must be {count}")
    return ids[:count]


def payloads(count: int, *, cut: bool) -> Iterator[bytes]:
    """Payloads that do not compress well, each different from the one before."""
    text = random.Random(7).randbytes(DATA_BYTES // 2 - 50).hex().encode()
    for number in range(count):
        yield b'{"what is this": "%d %s"%s' % (number, text, b"" if cut else b"}")
