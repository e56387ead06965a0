"""What a client can do to others: uploads without a token, bodies that never end, connections that only wait."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.bad_requests import MIB
from tests.common.issuer import ACCOUNT, AUDIENCE, Issuer, good
from tests.common.memory import Memory
from tests.common.push import push_bytes
from tests.common.server import SERVE, Server, Start, ended, read_answer

HEAD = "POST /pubsub/push HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def request(body: bytes, *headers: str, path: str = "/pubsub/push") -> bytes:
    return head(len(body), *headers, path=path) + body


def head(size: int, *headers: str, path: str = "/pubsub/push") -> bytes:
    more = "".join(f"{header}\r\n" for header in headers)
    return f"{HEAD}{more}content-length: {size}\r\n\r\n".replace("/pubsub/push", path).encode()


def message(name: str, size: int = 0) -> bytes:
    payload = {"service": name, "timestamp": "2026-01-08T12:00:00Z"}
    body = push_bytes(payload, message_id=name)
    return b" " * max(size - len(body), 0) + body


def bodies_held(server: Server) -> int:
    """The bytes of request bodies in memory, by the server's own metric."""
    found = re.search(r"^millpond_request_body_bytes (\S+)$", server.http.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return round(float(found[1]))


def come_to_rest(server: Server) -> None:
    """Wait until no body is held."""
    until = time.monotonic() + 5
    while bodies_held(server):
        assert time.monotonic() < until, f"{bodies_held(server)} bytes were not given back"
        time.sleep(0.02)


# --- tokens ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(start: Start) -> Iterator[Server]:
    with Issuer() as issuer:
        yield start(PUSH_AUDIENCE=AUDIENCE, PUSH_SERVICE_ACCOUNT=ACCOUNT, PUSH_CERTS_URL=issuer.url)


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/pubsub/push", ()),
        ("/pubsub/push", ("expect: 100-continue",)),
        ("/pubsub/push?by=asgi", ()),
        ("/events", ()),
    ],
)
def test_a_token_is_judged_before_the_body_is_there(guarded: Server, path: str, more: tuple[str, ...]) -> None:
    """The headers are enough for 401; a client that asks whether to go on is not told to."""
    with guarded.connect(2) as connection:
        connection.sendall(head(14 * MIB, *more, path=path))
        answer = read_answer(connection)
    assert (answer.status, answer.json["reason"]) == (401, "push_unauthenticated")


@pytest.mark.parametrize("path", ["/pubsub/push", "/pubsub/push?by=asgi"])
def test_a_refused_upload_hears_why(guarded: Server, path: str) -> None:
    """A client that sends its whole body before it reads still finds the answer."""
    with guarded.connect(5) as connection:
        connection.sendall(head(4 * MIB, path=path))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(4):
                connection.sendall(b" " * MIB)
                time.sleep(0.02)
        assert read_answer(connection).status == 401


@pytest.mark.parametrize("path", ["/pubsub/push", "/pubsub/push?by=asgi"])
def test_a_connection_outlives_a_refused_token(guarded: Server, path: str) -> None:
    """A small request that was refused leaves the connection as it was, for one with a better token."""
    token = f"authorization: {good().decode()}"
    with guarded.connect() as connection:
        for attempt in range(2):
            connection.sendall(request(message("refused"), path=path))
            assert read_answer(connection).status == 401
            connection.sendall(request(message(f"taken-{attempt}"), token, path=path))
            assert read_answer(connection).json["outcome"] in {"applied", "duplicate"}
            # And one whose body comes in two parts, with a token that is known by now.
            connection.sendall(head(300_000, token, path=path))
            connection.sendall(message(f"parts-{attempt}", 300_000)[:200_000])
            time.sleep(0.05)
            connection.sendall(message(f"parts-{attempt}", 300_000)[200_000:])
            assert read_answer(connection).status == 200


def test_a_large_body_with_a_token_not_seen_before(guarded: Server) -> None:
    """Reading is held until the token is verified, and goes on."""
    token = f"authorization: {good(sub='another account').decode()}"
    answer = guarded.raw(request(message("large", 3 * MIB), token), timeout_s=10)
    assert (answer.status, answer.json["outcome"]) == (200, "applied")


@pytest.fixture
def hesitant(start: Start) -> Iterator[Server]:
    """A server that waits two seconds for the certificates."""
    with Issuer() as issuer:
        issuer.pause_s = 2.0
        yield start(PUSH_AUDIENCE=AUDIENCE, PUSH_SERVICE_ACCOUNT=ACCOUNT, PUSH_CERTS_URL=issuer.url)


def test_nothing_is_read_while_a_token_is_verified(hesitant: Server) -> None:
    """However much the client sends: what came along with the headers, and no more."""
    token = f"authorization: {good().decode()}"
    with hesitant.connect() as connection:
        connection.sendall(head(14 * MIB, token))
        connection.setblocking(False)
        sent, until = 0, time.monotonic() + 0.5
        while time.monotonic() < until:
            with contextlib.suppress(BlockingIOError):
                sent += connection.send(b" " * min(MIB, 14 * MIB - sent))
            time.sleep(0.01)
        assert bodies_held(hesitant) <= 256 * 1024


def test_whoever_leaves_before_its_token_is_verified(hesitant: Server) -> None:
    """Nothing of its message is kept, whether it was complete or not."""
    token = f"authorization: {good().decode()}"
    whole = request(message("left", 30_000), token)
    with hesitant.connect() as complete, hesitant.connect() as incomplete:
        complete.sendall(whole)
        incomplete.sendall(whole[:-10])
        time.sleep(0.2)
        assert bodies_held(hesitant) == 59_990
    come_to_rest(hesitant)


# --- bodies ------------------------------------------------------------------------------------------------------


def test_bodies_share_a_budget(start: Start) -> None:
    """A large body that does not fit is not read and answered 429; small ones pass; the first one completes."""
    server = start(HTTP_BODIES_MIB="2")
    first = request(message("first", MIB))
    with server.connect() as slow, server.connect() as second:
        slow.sendall(first[:-1000])
        time.sleep(0.1)
        began = time.monotonic()
        second.sendall(head(MIB))
        # If it had waited for the budget, it would have been refused as well: nothing is given back meanwhile.
        assert server.send({"service": "small", "timestamp": 1}, message_id="small").status == 200
        answer = read_answer(second)
        assert (answer.status, answer.json["reason"]) == (429, "backpressure_queue_full")
        assert answer.headers["retry-after"] == "1"
        assert "HTTP_BODIES_MIB" in answer.json["error"]
        assert 0.9 < time.monotonic() - began < 4
        slow.sendall(first[-1000:])
        assert read_answer(slow).json["outcome"] == "applied"
    # And everything was given back.
    assert server.raw(request(message("third", MIB))).status == 200


def test_an_answer_that_needs_no_body_does_not_wait_for_its_place(start: Start) -> None:
    """The rest of the body is read and dropped, and the connection goes on."""
    server = start(HTTP_BODIES_MIB="2")
    with server.connect() as slow, server.connect() as other:
        slow.sendall(request(message("slow", MIB))[:-1000])
        time.sleep(0.1)
        other.sendall(head(MIB, path="/nowhere"))
        assert read_answer(other).status == 404
        other.sendall(b" " * MIB)
        other.sendall(request(message("after")))
        assert read_answer(other).json["outcome"] == "applied"


def test_a_body_gets_the_place_of_one_that_ended(start: Start) -> None:
    """A request that waits for a place has it as soon as the request before is answered, or its client gone."""
    server = start(HTTP_BODIES_MIB="2")
    first, second = request(message("first", MIB)), request(message("second", MIB))
    for leaves in (False, True):
        with server.connect() as slow, server.connect() as waiting:
            slow.sendall(first[:-1000])
            time.sleep(0.1)
            waiting.sendall(second[:200_000])
            time.sleep(0.1)
            if leaves:
                slow.close()
            else:
                slow.sendall(first[-1000:])
                assert read_answer(slow).status == 200
            waiting.sendall(second[200_000:])
            assert read_answer(waiting).status == 200


def test_a_large_body_that_stands_still_makes_way(start: Start) -> None:
    """While others wait for its place it has two seconds; alone it has the twenty of every request."""
    server = start(HTTP_BODIES_MIB="2")
    with server.connect(10) as slow:
        slow.sendall(request(message("slow", MIB))[:-1000])
        began = time.monotonic()
        taken = False
        while not taken and time.monotonic() - began < 10:
            taken = server.raw(request(message("other", MIB)), timeout_s=10).status == 200
        assert taken
        assert 1.5 < time.monotonic() - began < 6
        assert read_answer(slow).status == 429


@pytest.mark.parametrize("size", [20_000, 300_000])
def test_chunked_bodies_count(start: Start, size: int) -> None:
    """A body without a length is counted as it comes, and released."""
    server = start(HTTP_BODIES_MIB="1")
    body = message(f"chunked-{size}", size)
    for _ in range(4):
        parts = [body[at : at + 10_000] for at in range(0, size, 10_000)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
        sent = f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"
        assert server.raw(sent).status == 200


def test_many_small_bodies_that_stand_still(start: Start) -> None:
    """They share a quarter of the budget: then they are not read, and refused; a whole message is taken."""
    server = start(HTTP_BODIES_MIB="1")
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connect(10)) for _ in range(20)]
        for connection in slow:
            connection.sendall(head(60_000))
            connection.sendall(b" " * 40_000)
        time.sleep(0.3)
        assert server.send({"service": "small", "timestamp": 1}, message_id="small").status == 200
        statuses = []
        until = time.monotonic() + 4
        for connection in slow:
            connection.settimeout(max(until - time.monotonic(), 0.01))
            with contextlib.suppress(TimeoutError):
                statuses.append(read_answer(connection).status)
        assert statuses.count(429) == len(statuses) >= 5


def test_everything_is_given_back(server: Server) -> None:
    """Uploads that are aborted on any way, answered early, or pipelined behind a stream that is never read."""
    upload = message("given-back", 300_000)
    chunks = b"%x\r\n%b\r\n" % (200_000, upload[:200_000])
    for sent, held in (
        (request(upload)[:-10], 300_000),
        (request(upload, path="/api/replay")[:-10], 300_000),
        (f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode() + chunks, 14 * MIB),
        (request(message("small", 30_000))[:-10], 29_990),
        (b"GET /api/tail HTTP/1.1\r\nhost: localhost\r\n\r\n" + request(message("behind", 30_000)), 30_000),
    ):
        with server.connect() as connection:
            connection.sendall(sent)
            time.sleep(0.1)
            assert bodies_held(server) == held, sent[:100]
        come_to_rest(server)


def test_a_request_is_answered_once(start: Start) -> None:
    """What was answered before its body was complete is only closed when the server ends."""
    server = start()
    with server.connect() as connection:
        connection.sendall(head(MIB, path="/nowhere") + b" " * 1_000)
        assert read_answer(connection).status == 404
        server.terminate()
        assert ended(connection)


@pytest.mark.parametrize(("size", "status"), [(2, 400), (20, 200)])
def test_a_body_in_tiny_chunks(server: Server, size: int, status: int) -> None:
    """It costs what it weighs, not what so many pieces would; pieces that are all framing are refused."""
    memory = Memory(server.process.pid)
    before = memory.now()
    chunks = (b"%x\r\n" % size + b" " * size + b"\r\n") * 50_000
    last = message(f"tiny-{size}")
    with server.connect(30) as connection:
        connection.sendall(f"{HEAD}transfer-encoding: chunked\r\n\r\n".encode())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(10):
                connection.sendall(chunks)
            connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
        assert read_answer(connection).status == status
    assert memory.now() - before < 40


# --- crowds ------------------------------------------------------------------------------------------------------


def test_more_connections_than_room(server: Server) -> None:
    """Three times as many as may wait, all at once and again at once: all are served, and none is refused."""
    statuses = []
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(server.connect()) for _ in range(200)]
        for turn in range(3):
            for number, connection in enumerate(opened):
                connection.sendall(request(message(f"crowd-{turn}-{number}")))
            statuses += [read_answer(connection).status for connection in opened]
    assert set(statuses) == {200}


# --- connections -------------------------------------------------------------------------------------------------


def slow_sockets(server: Server, count: int, stack: contextlib.ExitStack) -> list[socket.socket]:
    """Connections whose requests begin, and go no further."""
    opened = []
    for _ in range(count):
        connection = stack.enter_context(server.connect())
        connection.sendall(b"POST /pubsub/push HTTP/1.1\r\nhost: x\r\nx-slow: ")
        opened.append(connection)
    return opened


def test_slow_connections_make_way(tmp_path: Path) -> None:
    """A thousand slow sockets on a process of 1,024 descriptors keep no client out, and a line says so."""
    limited = ("prlimit", "--nofile=1024:1024", *SERVE)
    with Server(tmp_path, command=limited) as server, contextlib.ExitStack() as stack:
        server.wait_for(lambda line: "HTTP_CONNECTIONS_MAX=2000 needs 2100 descriptors and there are 1024" in line)
        slow_sockets(server, 1_000, stack)
        time.sleep(1.2)
        began = time.monotonic()
        for number in range(20):
            with server.connect(5) as connection:
                connection.sendall(request(message(f"good-{number}")))
                assert read_answer(connection).status == 200
        assert time.monotonic() - began < 5
        line = json.loads(server.wait_for(lambda line: "the limit of 924 connections is met" in line))
        assert (line["severity"], line["reason"]) == ("WARNING", "too_many_connections")
        assert "HTTP_CONNECTIONS_MAX" in line["message"]


def test_slow_and_idle_connections_go_first(start: Start) -> None:
    """The slow are answered 503 and closed before the idle; both before one that is at work."""
    server = start(HTTP_CONNECTIONS_MAX="6")
    server.http.close()
    with contextlib.ExitStack() as stack:
        # A stream of the dashboard's: being answered for as long as it is open.
        stream = stack.enter_context(server.connect())
        stream.sendall(b"GET /api/tail HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert stream.recv(1_000).startswith(b"HTTP/1.1 200")
        idle = stack.enter_context(server.connect())
        idle.sendall(request(message("idle")))
        assert read_answer(idle).status == 200
        slow = slow_sockets(server, 4, stack)
        time.sleep(1.2)
        for number in range(5):
            new = stack.enter_context(server.connect())
            new.sendall(request(message(f"new-{number}")))
            assert read_answer(new).status == 200
        for connection in slow:
            answer = read_answer(connection)
            assert (answer.status, answer.json["reason"]) == (503, "too_many_connections")
            assert ended(connection)
        assert ended(idle)
        stream.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            assert stream.recv(1_000)


def test_clients_that_do_not_read_make_way(start: Start) -> None:
    """Their answers are written, and not read: others need the place more."""
    server = start(HTTP_CONNECTIONS_MAX="4")
    server.http.close()
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.socket()) for _ in range(4)]
        for connection in opened:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.connect(("127.0.0.1", server.port))
        for _ in range(300):
            for connection in opened:
                connection.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n")
            time.sleep(0.005)
        time.sleep(1.2)
        with server.connect() as connection:
            connection.sendall(request(message("reads")))
            assert read_answer(connection).status == 200


def test_a_stream_is_not_idle(start: Start) -> None:
    """Its request began to arrive before the one before was answered: it is at work all the same."""
    server = start(HTTP_CONNECTIONS_MAX="2")
    server.http.close()
    tail = b"GET /api/tail HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with server.connect() as stream, server.connect() as idle:
        stream.sendall(request(message("before")) + tail[:10])
        assert read_answer(stream).status == 200
        stream.sendall(tail[10:])
        assert stream.recv(1_000).startswith(b"HTTP/1.1 200")
        idle.sendall(request(message("idle")))
        assert read_answer(idle).status == 200
        with server.connect() as new:
            new.sendall(request(message("new")))
            assert read_answer(new).status == 200
        assert ended(idle)
        stream.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            while True:
                assert stream.recv(1_000)


def test_a_stream_that_makes_way_just_ends(start: Start) -> None:
    """Its request announced a body that never comes, so it is slow; a refusal would land in the middle of it."""
    server = start(HTTP_CONNECTIONS_MAX="1")
    server.http.close()
    with server.connect(5) as stream:
        stream.sendall(b"GET /api/tail HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n")
        assert stream.recv(1_000).startswith(b"HTTP/1.1 200")
        time.sleep(1.2)
        with server.connect() as new:
            new.sendall(request(message("new")))
            assert read_answer(new).status == 200
        while part := stream.recv(1_000):
            assert b"HTTP/1.1" not in part


def test_a_connection_too_many_is_refused(start: Start) -> None:
    """Where all others are at work there is no place: 503, and the work goes on."""
    server = start(HTTP_CONNECTIONS_MAX="2")
    server.http.close()
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stream = stack.enter_context(server.connect())
            stream.sendall(b"GET /api/tail HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert stream.recv(1_000).startswith(b"HTTP/1.1 200")
        with server.connect() as refused:
            answer = read_answer(refused)
        assert (answer.status, answer.json["reason"]) == (503, "too_many_connections")
        assert "2 connections" in answer.json["error"]
        server.wait_for(lambda line: "refused: 1." in line)
