"""What a connection may carry: limits, keep-alive, pipelining, clients that leave."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time

import pytest

from tests.acceptance.bad_requests import MIB, WATCHED, request_bytes
from tests.common.push import good_bytes
from tests.common.server import Server, ended, read_answer


def test_a_body_of_exactly_14_mib_is_read(server: Server) -> None:
    """The limit is the limit, not one byte less."""
    body = good_bytes(messageId="exactly")
    body = b" " * (14 * MIB - len(body)) + body
    answer = server.raw(request_bytes(f"content-length: {len(body)}"), body)
    assert (answer.status, answer.json["outcome"]) == (200, "applied")
    server.fence()


def numbered(number: int, *headers: str) -> bytes:
    """A whole request with a message of its own, heavy with headers."""
    body = good_bytes(messageId=f"numbered-{number}")
    return request_bytes(f"content-length: {len(body)}", "x-padding: " + "a" * 10_000, *headers) + body


def test_limits_count_each_request_on_a_connection(server: Server) -> None:
    """A connection kept alive is never refused for what its earlier requests weighed."""
    server.put_up_fence()
    with server.connect() as connection:
        for number in range(10):
            connection.sendall(numbered(number))
            assert read_answer(connection).json["messageId"] == f"numbered-{number}"
    assert len(server.fence()) == 10


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    """Requests sent without waiting, and cut anywhere, are answered one by one, each with its own."""
    server.put_up_fence()
    sent = b"".join(numbered(number) for number in range(20))
    with server.connect() as connection:
        for at in range(0, len(sent), 7_001):
            connection.sendall(sent[at : at + 7_001])
        received = b""
        while received.count(b'"messageId":"numbered-') < 20:
            part = connection.recv(65_536)
            assert part, received[-500:]
            received += part
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 20
    ids = [int(number) for number in re.findall(rb'"messageId":"numbered-(\d+)"', received)]
    assert ids == list(range(20))
    assert len(server.fence()) == 20


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_connection_that_is_not_kept(server: Server, version: str) -> None:
    """HTTP/1.0 and `Connection: close` are answered, then closed."""
    body = good_bytes(messageId=f"version-{version}")
    head = (
        f"POST /pubsub/push HTTP/{version}\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with server.connect() as connection:
        connection.sendall(head.encode() + body)
        assert read_answer(connection).json["messageId"] == f"version-{version}"
        assert ended(connection)
    server.fence()


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_an_upgrade_is_ignored(server: Server, protocol: str) -> None:
    """A client that offers another protocol is answered in this one, without a word in the log."""
    server.put_up_fence()
    line = "GET /health HTTP/1.1"
    assert server.raw(request_bytes("connection: upgrade", f"upgrade: {protocol}", line=line)).status == 200
    assert server.fence() == []


def test_a_client_that_goes_away_is_no_message(server: Server) -> None:
    """A connection that ends in the middle of a request leaves nothing behind."""
    server.fence()
    before = server.documents(WATCHED)
    body = good_bytes(messageId="gone")
    for part in (b"", b"POST", request_bytes()[:-2], request_bytes(f"content-length: {len(body)}") + body[:-1]):
        with server.connect() as connection:
            connection.sendall(part)
    time.sleep(0.2)
    assert server.fence() == []
    assert server.documents(WATCHED) == before


LIVE = b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n"


def received(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            found += part
    return found


@pytest.mark.parametrize("first", [numbered(100), LIVE], ids=["push", "asgi"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("bad", "status"),
    [(b"\0\0garbage\r\n\r\n", b"400"), (request_bytes(f"content-length: {15 * MIB}"), b"413")],
    ids=["garbage", "too large"],
)
def test_a_refusal_comes_after_the_answers_of_the_requests_before(
    server: Server, first: bytes, count: int, bad: bytes, status: bytes
) -> None:
    """Good requests, and a bad one right behind them: each has its answer, in order; then the connection ends."""
    server.put_up_fence()
    with server.connect() as connection:
        connection.sendall(first * count + bad)
        answers = received(connection)
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200"] * count + [status]
    refusals = [line for line in map(json.loads, server.fence()) if line.get("http_status") == int(status)]
    assert len(refusals) == 1


def test_requests_without_end(server: Server) -> None:
    """Thousands in one packet: a few are answered, the rest refused."""
    with server.connect() as connection:
        connection.sendall(LIVE * 5_000)
        answers = received(connection)
    assert 1 <= answers.count(b"HTTP/1.1 200 OK") <= 40
    server.fence()


@pytest.mark.parametrize("size", [0, 70_000, 2 * MIB])
def test_a_client_that_has_sent_all_it_will(server: Server, size: int) -> None:
    """It has closed its side, which is its right, and still gets its answer."""
    body = good_bytes(messageId=f"half-closed-{size}")
    body = b" " * (size - len(body)) + body
    with server.connect() as connection:
        connection.sendall(request_bytes(f"content-length: {len(body)}") + body)
        connection.shutdown(socket.SHUT_WR)
        assert received(connection).startswith(b"HTTP/1.1 200 OK")
    server.fence()


def test_a_refusal_does_not_land_in_a_stream(server: Server) -> None:
    """A stream, and behind it a request that is refused: the stream goes on as it was, until its client leaves."""
    with server.connect(1) as connection:
        connection.sendall(b"GET /api/tail HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        connection.sendall(request_bytes(f"content-length: {15 * MIB}"))
        with contextlib.suppress(TimeoutError):
            while part := connection.recv(65_536):
                assert b"HTTP/1.1" not in part
    server.fence()


def test_a_body_behind_another_is_no_header(server: Server) -> None:
    """Pipelined, and cut in the middle: the second body is not counted as headers of the third request."""
    small = numbered(200)
    body = good_bytes(messageId="long")
    body = b" " * (60_000 - len(body)) + body
    long = request_bytes(f"content-length: {len(body)}") + body
    sent = small + long + numbered(201)
    with server.connect() as connection:
        connection.sendall(sent[: len(small) + 100])
        time.sleep(0.1)
        connection.sendall(sent[len(small) + 100 :])
        for _ in range(3):
            assert read_answer(connection).status == 200
    server.fence()
