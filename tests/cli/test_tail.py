"""`millpond tail`: a real server's outcomes, line by line, through restarts and against hostile text."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millpond.sse_client import EVENT_BYTES_MAX, LINE_BYTES_MAX, EventParser, ServerSentEvent, StreamEnded
from tests.cli.shell import Serve, Shell
from tests.common.server import Server

PATIENCE_S = 20.0
EVENT = {"service": "api", "status": "ok", "timestamp": "2026-01-08T12:05:00Z"}


class Tailing:
    """A running `millpond tail`; what it prints is kept as it comes."""

    def __init__(self, shell: Shell, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.process = shell.start("tail", *arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines: list[str] = []
        self.notes: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(pipe, kept), daemon=True)
            for pipe, kept in ((self.process.stdout, self.lines), (self.process.stderr, self.notes))
        ]
        for reader in self._readers:
            reader.start()

    def wait_for(self, true: Callable[[], object]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < until, (self.process.poll(), self.lines, self.notes)
            time.sleep(0.01)

    def begun(self) -> Tailing:
        self.wait_for(lambda: any(note.startswith("Watching ") for note in self.notes))
        return self

    def ended(self) -> int:
        """Its exit code, with everything it printed read."""
        code = self.process.wait(timeout=PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        assert not any("Traceback" in note for note in self.notes), self.notes
        return code

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    @staticmethod
    def _read(pipe: Any, kept: list[str]) -> None:
        kept.extend(line.decode().rstrip("\n") for line in iter(pipe.readline, b""))


@pytest.fixture
def pond(serve: Serve) -> Iterator[Server]:
    server = serve()
    yield server
    server.kill()


def publish(shell: Shell, message_id: str, topic: str = "system.events", **changes: Any) -> None:
    data = json.dumps({**EVENT, **changes})
    shell.ok("publish", "--topic", topic, "--message-id", message_id, "--data", data)


@pytest.mark.usefixtures("pond")
def test_one_line_for_each_outcome(shell: Shell) -> None:
    """When, the outcome, topic, id, documents, why where it is not plain, and how long it took."""
    tail = Tailing(shell, "--limit", "4").begun()
    publish(shell, "m-1")
    publish(shell, "m-0", timestamp="2026-01-08T12:00:00Z")
    publish(shell, "m-1")
    shell.run("publish", "--topic", "system.events", "--message-id", "bad", "--data", '{"nothing": 1}')
    assert tail.ended() == 0
    took, doc = r"  [\d.]+ ms", r"system\.events     m-\d  ops_services/dev__api"
    shapes = [
        r"\d\d:\d\d:\d\d\.\d{3}  applied          " + doc + took,
        r".*  stale_ignored    " + doc + r"  \(stale_event_ignored\)" + took,
        r".*  duplicate        " + doc + r"  \(duplicate_event_noop\)" + took,
        r".*  poison           system\.events     bad  \(invalid_event\)  service is missing" + took,
    ]
    for shape, line in zip(shapes, tail.lines, strict=True):
        assert re.fullmatch(shape, line), line


@pytest.mark.usefixtures("pond")
def test_filters_and_json(shell: Shell) -> None:
    """Any of the values of one option, all of the options; one JSON document a line, flushed as it comes."""
    by_topic = Tailing(shell, "--topic", "market-ticks", "--topic", "orders", "--json").begun()
    by_view = Tailing(shell, "--view", "ops_services", "--outcome", "stale_ignored", "--json").begun()
    publish(shell, "m-1")
    shell.ok("publish", "--topic", "market-ticks", "--message-id", "t-1", "--data", '{"symbol": "SPY", "price": 1}')
    publish(shell, "m-0", timestamp="2026-01-08T12:00:00Z")
    by_topic.wait_for(lambda: by_topic.lines)
    by_view.wait_for(lambda: by_view.lines)
    assert [by_topic.interrupt(), by_view.interrupt()] == [130, 130]
    (tick,), (stale,) = map(json.loads, by_topic.lines), map(json.loads, by_view.lines)
    assert (tick["messageId"], tick["outcome"], len(tick["views"])) == ("t-1", "applied", 2)
    assert (stale["messageId"], stale["reason"]) == ("m-0", "stale_event_ignored")


def test_a_server_that_restarts_is_waited_for(shell: Shell, serve: Serve, pond: Server) -> None:
    """Said once when it goes and once when it is back, at another port; then it goes on."""
    tail = Tailing(shell).begun()
    publish(shell, "before")
    tail.wait_for(lambda: tail.lines)
    assert pond.terminate() == 0
    tail.wait_for(lambda: any("waiting for the server to come back" in note for note in tail.notes))
    # Two tries at least are made in vain.
    time.sleep(2.5)
    again = serve()
    tail.wait_for(lambda: any(f"The server is back at {again.url}" in note for note in tail.notes))
    publish(shell, "after")
    tail.wait_for(lambda: len(tail.lines) == 2)
    assert tail.interrupt() == 130
    assert "after" in tail.lines[1]
    assert len([note for note in tail.notes if note]) == 3, tail.notes


def test_a_server_that_is_killed_is_waited_for(shell: Shell, serve: Serve, pond: Server) -> None:
    """A connection that breaks is a server that went away."""
    tail = Tailing(shell, "--limit", "1").begun()
    pond.kill()
    tail.wait_for(lambda: any("waiting for the server" in note for note in tail.notes))
    serve()
    tail.wait_for(lambda: any("The server is back" in note for note in tail.notes))
    publish(shell, "after")
    assert tail.ended() == 0


@pytest.mark.usefixtures("pond")
def test_what_came_too_fast_is_counted(shell: Shell) -> None:
    """Under load some are dropped; those shown and those dropped are all there were."""
    tail = Tailing(shell, "--json").begun()
    # Fewer at once than may wait: none is refused, and each has an outcome.
    load = shell.ok("load", "--requests", "3000", "--concurrency", "60", "--url", url_of(shell), "--json").json
    sent = load["answers"]["200"]
    assert sent == 3_000

    def counted() -> int:
        return len(tail.lines) + sum(int(note.split(" ")[0]) for note in tail.notes if "dropped" in note)

    tail.wait_for(lambda: counted() >= sent)
    assert tail.interrupt() == 130
    assert counted() == sent
    assert any("dropped" in note for note in tail.notes)


def url_of(shell: Shell) -> str:
    lock = shell.store.with_name(shell.store.name + ".lock")
    return str(json.loads(lock.read_text())["url"]) + "/pubsub/push"


@pytest.mark.usefixtures("pond")
def test_hostile_text_cannot_drive_the_terminal(shell: Shell) -> None:
    """A document's id that would clear the screen or break the line is shown as its escapes."""
    text, machine = Tailing(shell, "--limit", "1").begun(), Tailing(shell, "--limit", "1", "--json").begun()
    evil = "evil\x1b[2J\x7f\u202e\nforged"
    publish(shell, "m-1", service=evil)
    assert [text.ended(), machine.ended()] == [0, 0]
    assert "evil\\x1b[2J\\x7f\\u202e\\nforged" in text.lines[0]
    assert machine.lines[0].isprintable()
    assert json.loads(machine.lines[0])["views"][0]["doc"] == f"ops_services/dev__{evil}"


@pytest.mark.usefixtures("pond")
def test_colours_are_for_terminals(shell: Shell) -> None:
    """The outcome is coloured where a person looks."""
    sender = threading.Timer(1.5, publish, (shell, "m-1"))
    sender.start()
    shown = shell.on_terminal("tail", "--limit", "1")
    sender.join()
    assert shown.code == 0
    assert "\x1b[32mapplied" in shown.out


def test_the_token_is_sent_and_a_wrong_one_said(shell: Shell, serve: Serve) -> None:
    """ADMIN_TOKEN, as elsewhere; the secret itself is shown nowhere."""
    right = {"ADMIN_TOKEN": "correct-horse"}
    serve(right)
    tail = Tailing(shell, "--limit", "1", env=right).begun()
    publish(shell, "m-1")
    assert tail.ended() == 0
    for env in ({}, {"ADMIN_TOKEN": "wrong-horse"}):
        ran = shell.run("tail", env=env)
        assert (ran.code, ran.out) == (2, "")
        (line,) = ran.err.splitlines()
        assert "ADMIN_TOKEN" in line
        assert "horse" not in line


def test_a_server_that_has_ended_cannot_be_followed(shell: Shell, pond: Server) -> None:
    """Its store names it no more."""
    assert pond.terminate() == 0
    assert shell.run("tail", env={"PORT": "0"}).code == 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}", "answered 404"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi", "answered 200"),
        (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
        (b"", "has ended the stream"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: outcome\ndata: [1]\n\n",
            "not a JSON object",
        ),
    ],
    ids=["404", "a page", "not HTTP", "silence", "no outcome"],
)
def test_something_else_that_listens(shell: Shell, answer: bytes, words: str) -> None:
    """It is no Millpond, and that is said; nothing is printed as if it were an outcome."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_once() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        threading.Thread(target=answer_once, daemon=True).start()
        tail = Tailing(shell, "--url", f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert tail.ended() == 3
    assert any(words in note for note in tail.notes), tail.notes
    assert tail.lines == []


def test_a_reader_that_goes_away(shell: Shell, pond: Server) -> None:
    """`millpond tail | head -1` ends when there is something to say."""
    tail = shell.start("tail", "--url", pond.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert tail.stdout is not None
    assert tail.stderr is not None
    assert tail.stderr.readline().startswith(b"Watching")
    tail.stdout.close()
    publish(shell, "m-1")
    assert tail.wait(timeout=PATIENCE_S) == 141
    assert tail.stderr.read() == b""


STREAM = (
    b'\xef\xbb\xbf: hello\r\nevent: outcome\r\ndata: {"a":\r\ndata: 1}\r\n\r\n'
    b"data:plain\r\rid: 7\nretry: 5\n\nevent: x\n\ndata\n\n"
)
MESSAGES = [
    ServerSentEvent("outcome", '{"a":\n1}'),
    ServerSentEvent("message", "plain"),
    ServerSentEvent("message", ""),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_events_however_they_are_cut(size: int) -> None:
    """The same events from the same bytes, wherever a chunk ends, a line's end included."""
    parser = EventParser()
    chunks = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [message for chunk in chunks for message in parser.feed(chunk)] == MESSAGES


def test_lines_and_events_have_an_end() -> None:
    """A server gone mad cannot fill our memory."""
    with pytest.raises(StreamEnded, match="line over"):
        list(EventParser().feed(b"x" * (LINE_BYTES_MAX + 1)))
    lines = (b"data: " + b"x" * 1_000 + b"\n") * (EVENT_BYTES_MAX // 1_000 + 2)
    with pytest.raises(StreamEnded, match="event over"):
        list(EventParser().feed(lines))
