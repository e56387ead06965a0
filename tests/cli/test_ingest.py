"""ingest: files of messages, through a running server and without one."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.shell import Serve, Shell
from tests.common.push import PUBLISHED, push_body


def short(number: int, **others: Any) -> dict[str, Any]:
    data = {"service": f"s{number % 10}", "timestamp": f"2026-01-08T11:{number // 60 % 60:02d}:{number % 60:02d}Z"}
    return {"topic": "system.events", "data": data, "publishTime": PUBLISHED, **others}


def push(number: int) -> dict[str, Any]:
    return push_body(short(number)["data"], message_id=f"p{number}", topic="system.events")


@pytest.fixture
def target(shell: Shell, start: Callable[[], object]) -> Shell:
    start()
    return shell


def test_the_same_file_twice_changes_nothing(target: Shell) -> None:
    """Ids that are not given come from the lines, so the second time everything is a duplicate."""
    name = target.write("f.jsonl", *(short(n) for n in range(300)), push(1), push(2))
    first = target.ok("ingest", name, "--json").json
    before = [target.ok("ls", "ops_services", "--json").json, target.ok("ls", "--json").json]
    again = target.ok("ingest", name, "--json").json
    after = [target.ok("ls", "ops_services", "--json").json, target.ok("ls", "--json").json]
    assert first["messages"] == again["messages"] == 302
    assert again["outcomes"].keys() <= {"duplicate", "stale_ignored"}
    assert after == before


def test_bad_lines_are_numbered_and_skipped(target: Shell) -> None:
    """Each bad line is reported with its number and why, the good ones are applied, and the exit code is 1."""
    lines = [short(1), "{nonsense", "", '{"topic": "t", "data": [1]}', {**short(2), "publishTime": None}]
    name = target.write("f.jsonl", *lines, b"\xff\xfe", {"publish_time": 1, **short(3)}, {"message": {}}, short(4))
    ran = target.run("ingest", name, "--json")
    assert ran.code == 1
    assert [(fault["line"], fault["kind"]) for fault in ran.json["faults"]] == [
        (number, "bad_line") for number in (2, 4, 5, 6, 7, 8)
    ]
    assert ran.json["badLines"] == 6
    assert ran.json["outcomes"] == {"applied": 2}
    assert "line 5: bad line: publishTime is missing" in ran.err


def test_poison_is_buried_and_reported(target: Shell) -> None:
    """A message that can be read but never applied becomes a letter, also when it carries an attempt number."""
    name = target.write(
        "f.jsonl", {**push(1), "deliveryAttempt": 3, "message": {**push(1)["message"], "data": "!"}}
    )
    ran = target.run("ingest", name)
    assert ran.code == 1
    assert "line 1: poison: invalid_base64" in ran.err
    (letter,) = target.ok("dlq", "list", "--json").json["letters"]
    assert letter["messageId"] == "p1"


def test_publish_time_fills_the_gaps(shell: Shell) -> None:
    """--publish-time is for lines that have none; a wrong one is refused before anything is read."""
    line = {"topic": "ingest-heartbeat", "data": {"pipeline_id": "p"}}
    name = shell.write("f.jsonl", line, {**line, "data": {"pipeline_id": "q"}, "publishTime": PUBLISHED})
    assert shell.run("ingest", name, "--publish-time", "yesterday").code == 2
    shell.ok("ingest", name, "--publish-time", "2026-02-01T00:00:00Z")
    times = [doc["data"]["lastHeartbeatAt"] for doc in shell.ok("ls", "ingest_pipelines", "--json").json["docs"]]
    assert times == ["2026-02-01T00:00:00Z", PUBLISHED]


def test_a_pipe_is_applied_while_it_is_still_open(shell: Shell, serve: Serve) -> None:
    """What was written into the pipe is applied before the next line comes."""
    serve()
    process = shell.start("ingest", "-", "--json", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(short(1, messageId="piped")).encode() + b"\n")
    process.stdin.flush()
    while shell.run("why", "piped").code != 0:
        assert process.poll() is None
    out, _ = process.communicate(json.dumps(short(2)).encode(), timeout=20)
    assert json.loads(out)["messages"] == 2


class Moody(http.server.BaseHTTPRequestHandler):
    """A server that turns every message away twice before it takes it."""

    protocol_version = "HTTP/1.1"
    tries: dict[str, int] = {}  # noqa: RUF012 - one test, one server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = body["message"]["messageId"]
        self.tries[name] = self.tries.get(name, 0) + 1
        status = {1: 429, 2: 503}.get(self.tries[name], 200)
        answer = json.dumps({"outcome": "applied" if status == 200 else "retry", "reason": "moody"}).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("retry-after", "1")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def moody_server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Moody) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_busy_server_is_asked_again(shell: Shell) -> None:
    """429 and 503 are tried again, no sooner than Retry-After says, until the message is taken."""
    name = shell.write("f.jsonl", *(short(n, messageId=f"m{n}") for n in range(20)))
    with moody_server() as url:
        ran = shell.ok("ingest", name, "--url", url, "--json")
    assert ran.json["outcomes"] == {"applied": 20}
    assert set(Moody.tries.values()) == {3}
    assert ran.json["seconds"] >= 1.0


def test_a_server_whose_store_is_not_known_is_paced(shell: Shell) -> None:
    """It may be on Firestore. The bar counts messages, and says that the server is full when it refuses some."""
    name = shell.write("f.jsonl", *(short(n, messageId=f"paced{n}") for n in range(60)))
    with moody_server() as url:
        ran = shell.on_terminal("ingest", name, "--url", url, columns=160)
    assert ran.code == 0
    assert "messages/s, the server is full: at most " in ran.out


def test_a_server_with_an_embedded_store_is_not_paced(shell: Shell, serve: Serve) -> None:
    """By its URL it says what its store is; 1,000 messages would take four seconds."""
    server = serve()
    name = shell.write("f.jsonl", *(short(n, messageId=f"m{n}") for n in range(1_000)))
    ran = shell.ok("ingest", name, "--url", server.url, "--json")
    assert ran.json["outcomes"].keys() <= {"applied", "stale_ignored"}
    assert ran.json["seconds"] < 3
    assert " messages/s, " not in shell.on_terminal("ingest", name, "--url", server.url).out


def test_bulk_pace_holds_for_a_server_too(shell: Shell, serve: Serve) -> None:
    """`on` is for every store, and `off` for a server that does not say whether it needs a pace."""
    name = shell.write("f.jsonl", *(short(n, messageId=f"m{n}") for n in range(60)))
    shell.environment["BULK_PACE"] = "on"
    assert " messages/s, ramping up" in shell.on_terminal("ingest", name, "--url", serve().url, columns=160).out
    shell.environment["BULK_PACE"] = "off"
    with moody_server() as url:
        assert " messages/s, " not in shell.on_terminal("ingest", name, "--url", url, columns=160).out


def test_a_server_that_goes_away_exits_with_3(shell: Shell, serve: Serve) -> None:
    """A server that dies and stays away ends the command with one line that says how to go on."""
    server = serve()
    process = shell.start("ingest", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(short(1, messageId="before")).encode() + b"\n")
    process.stdin.flush()
    while shell.run("why", "before").code != 0:
        assert process.poll() is None
    server.kill()
    out, err = process.communicate(json.dumps(short(2)).encode(), timeout=20)
    assert (process.returncode, out) == (3, b"")
    (line,) = err.splitlines()
    assert b"run the same command again" in line


def test_a_killed_ingest_is_finished_by_running_it_again(shell: Shell) -> None:
    """Whatever a kill left undone, the same command completes: the documents are those of an undisturbed run."""
    name = shell.write("f.jsonl", *(short(n) for n in range(3_000)))
    process = shell.start("ingest", name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    waiting = shell.store.with_name("millpond.db-wal")
    while not waiting.exists() or waiting.stat().st_size < 100_000:
        assert process.poll() is None
    os.kill(process.pid, 9)
    process.wait()
    shell.ok("ingest", name)
    undisturbed = Shell(shell.folder / "other")
    undisturbed.folder.mkdir()
    undisturbed.ok("ingest", str(shell.folder / name))
    pages = [each.ok("ls", "ops_services", "--json").json["docs"] for each in (shell, undisturbed)]
    assert [doc["data"] for doc in pages[0]] == [doc["data"] for doc in pages[1]]
