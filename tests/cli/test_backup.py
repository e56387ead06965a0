"""`millpond backup`, beside a real server that goes on writing, and after it."""

from __future__ import annotations

import signal
import subprocess
import threading
import time

import apsw
import pytest

from tests.cli.shell import Serve, Shell
from tests.common.server import Server
from tests.common.sqlite_files import message_ids

PATIENCE_S = 20.0


def push(server: Server, number: int) -> int:
    data = {"service": f"s{number % 50}", "status": "ok", "timestamp": f"2026-01-08T12:{number % 60:02}:00Z"}
    sent = {**data, "n": number, "text": "x" * 2_000}
    return server.send(sent, message_id=f"b-{number}", topic="system.events").status


class Pusher(threading.Thread):
    """Pushes one message after the other, at most 5,000, and remembers which were acknowledged."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self.acknowledged = 0
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set() and self.acknowledged < 5_000:
            assert push(self._server, self.acknowledged) == 200
            self.acknowledged += 1

    def wait_for(self, count: int) -> None:
        until = time.monotonic() + PATIENCE_S
        while self.acknowledged < count:
            assert self.is_alive(), "pushing failed"
            assert time.monotonic() < until, "too slow"
            time.sleep(0.005)

    def end(self) -> None:
        self.enough.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()


def test_a_backup_under_way_of_a_server_that_serves(shell: Shell, serve: Serve) -> None:
    """Everything acknowledged before it began is in the copy; the copy serves; the server has lost nothing."""
    server = serve()
    pusher = Pusher(server)
    pusher.start()
    pusher.wait_for(100)
    copies = []
    for name in ("one.db", "two.db"):
        before = pusher.acknowledged
        report = shell.ok("backup", name, "--json").json
        after = pusher.acknowledged
        copied = message_ids(shell.folder / name)
        assert {f"b-{n}" for n in range(before)} <= copied
        # One more may have been committed and not yet acknowledged.
        assert copied <= {f"b-{n}" for n in range(after + 1)}
        assert (report["events"], report["documents"]) == (len(copied), 50)
        assert report["bytes"] == (shell.folder / name).stat().st_size
        copies.append(copied)
    assert copies[0] < copies[1]
    pusher.wait_for(pusher.acknowledged + 50)
    pusher.end()
    assert server.terminate() == 0
    assert {f"b-{n}" for n in range(pusher.acknowledged)} == message_ids(shell.store)
    of_copy = {"STORE": f"sqlite:{shell.folder / 'one.db'}"}
    served = serve(of_copy)
    assert served.get("/api/stats").json["total"] == len(copies[0])
    assert push(served, 999_999) == 200
    assert served.get("/api/stats").json["total"] == len(copies[0]) + 1
    assert served.terminate() == 0
    assert list(shell.folder.glob("*.partial*")) == []


def fill(serve: Serve) -> None:
    """Three messages, and the server that took them is gone."""
    server = serve()
    for number in range(3):
        push(server, number)
    assert server.terminate() == 0


def test_the_report_says_what_to_do_with_it(shell: Shell, serve: Serve) -> None:
    """Without a server: the size, the counts, and the two commands to go on with."""
    fill(serve)
    ran = shell.ok("backup", "pond.db")
    facts = {line[:13].strip(): line[13:].strip() for line in ran.out.splitlines()[1:]}
    assert facts == {"size": facts["size"], "documents": "3", "receipts": "3", "log entries": "3"}
    assert "STORE=sqlite:pond.db millpond verify" in ran.err
    assert "STORE=sqlite:pond.db millpond serve" in ran.err


def test_what_is_refused(shell: Shell, serve: Serve) -> None:
    """One line and nothing made: a file that exists, no folder, no store, a store in memory, Firestore."""
    fill(serve)
    shell.write("taken.db", "mine")
    google = dict.fromkeys(("GCP_PROJECT", "ENV", "SYSTEM_EVENTS_TOPIC", "DEFAULT_REGION"), "x1")
    refusals: list[tuple[str, dict[str, str], int, str]] = [
        ("taken.db", {}, 1, "taken.db exists and is not overwritten"),
        ("none/copy.db", {}, 1, "there is no folder none"),
        ("copy.db", {"STORE": "sqlite:nothing.db"}, 3, "there is no store at nothing.db"),
        ("copy.db", {"STORE": "memory"}, 2, "STORE=memory"),
        ("copy.db", {"STORE": "firestore", **google}, 2, "gcloud firestore export gs://BUCKET --project=x1"),
    ]
    before = sorted(path.name for path in shell.folder.iterdir())
    for name, env, code, words in refusals:
        ran = shell.run("backup", name, env=env)
        assert (ran.code, ran.out) == (code, ""), ran
        (line,) = ran.err.splitlines()
        assert words in line
    assert sorted(path.name for path in shell.folder.iterdir()) == before
    assert (shell.folder / "taken.db").read_text() == "mine\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_backup_leaves_nothing(shell: Shell, serve: Serve, number: int, code: int) -> None:
    """Ctrl-C, and what a supervisor sends, in the middle of a copy that takes a while."""
    fill(serve)
    writer = apsw.Connection(str(shell.store))
    # Big enough that the signal comes before the end.
    writer.execute(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 250) "
        "INSERT INTO documents SELECT 'big', x, 1, NULL, zeroblob(1000000) FROM n"
    )
    writer.close()
    process = shell.start("backup", "copy.db", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + PATIENCE_S
    while not (partial := list(shell.folder.glob("copy.db.*.partial"))) or partial[0].stat().st_size < 1_000_000:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.001)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err.strip()) == (code, b"", b"")
    assert list(shell.folder.glob("copy.db*")) == []


def test_a_bar_on_a_terminal(shell: Shell, serve: Serve) -> None:
    """A terminal sees the progress; the answer stays the same."""
    fill(serve)
    ran = shell.on_terminal("backup", "copy.db")
    assert ran.code == 0
    assert "Copying" in ran.out
    assert "documents    3" in ran.out
