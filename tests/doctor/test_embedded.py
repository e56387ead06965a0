"""The embedded store as `doctor` sees it: real files, whole and damaged, old and new, held by others."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import apsw
import pytest

from millpond.core.timestamps import SECOND_US
from millpond.doctor import embedded as embedded_check
from millpond.doctor.embedded import check_embedded
from millpond.doctor.findings import Finding, State
from millpond.stores.sqlite import schema as sqlite_schema
from millpond.stores.sqlite.connection import open_reader, open_writer
from millpond.stores.sqlite.lock import StoreLock
from tests.common.filled_store import fill


def of(findings: Sequence[Finding], check: str) -> list[Finding]:
    return [finding for finding in findings if finding.check == check]


def only(findings: Sequence[Finding], state: State) -> Finding:
    (found,) = [finding for finding in findings if finding.state is state]
    return found


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_a_store_that_is_fine_is_left_as_it_is(pond: Path) -> None:
    """Nothing but good news, and not a byte, a file or a time is different afterwards."""
    before = contents(pond.parent)
    found = check_embedded(pond)
    assert {finding.state for finding in found} == {State.OK}
    assert {finding.check for finding in found} == {"store", "expiry", "clock", "server"}
    assert contents(pond.parent) == before


def test_no_store_yet(tmp_path: Path) -> None:
    """Not a problem: the first server makes it. A folder in its place is one."""
    assert only(check_embedded(tmp_path / "none.db"), State.WARNING).found.startswith("there is no store")
    assert "is no file" in only(check_embedded(tmp_path), State.PROBLEM).found


def test_a_damaged_page_is_found(pond: Path) -> None:
    """Bytes flipped in the middle of the file."""
    content = bytearray(pond.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 64] = bytes(byte ^ 0xFF for byte in content[middle : middle + 64])
    pond.write_bytes(content)
    found = only(check_embedded(pond), State.PROBLEM)
    assert "damaged" in found.found
    assert found.advice.startswith("stop the server and put a backup in its place")


def test_a_damaged_head_is_found(pond: Path) -> None:
    """The first page is what makes a file a store."""
    pond.write_bytes(b"not a store at all" + pond.read_bytes()[18:])
    assert "not a Millpond store" in only(check_embedded(pond), State.PROBLEM).found


def test_another_schema(pond: Path, tmp_path: Path) -> None:
    """An older one is upgraded by the next server, which is worth a backup; a newer one cannot be used."""
    open_writer(tmp_path / "old.db", migrations=sqlite_schema.MIGRATIONS[:-1]).close()
    older = only(check_embedded(tmp_path / "old.db"), State.WARNING)
    assert "millpond backup" in older.advice
    connection = apsw.Connection(str(pond))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "schema 99" in only(check_embedded(pond), State.PROBLEM).found


def test_a_store_in_use_is_read_with_its_write_ahead_log(pond: Path) -> None:
    """What was committed a moment ago and not folded back is looked at as well."""
    writer = open_writer(pond)
    writer.execute("PRAGMA user_version = 99")
    assert any("schema 99" in finding.found for finding in check_embedded(pond))
    writer.close()


def test_a_server_that_starts_meanwhile_is_no_damage(pond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a write-ahead log appears during the check, what looks like damage is looked at again."""
    real = embedded_check.check_integrity
    writers: list[apsw.Connection] = []

    def torn(connection: apsw.Connection, path: Path) -> Finding:
        if not writers:
            writers.append(open_writer(path))
            sqlite_schema.set_last_version(writers[0], 7)
            return Finding("store", State.PROBLEM, "torn")
        return real(connection, path)

    monkeypatch.setattr(embedded_check, "check_integrity", torn)
    assert {finding.state for finding in check_embedded(pond)} == {State.OK}
    writers[0].close()


def test_a_check_that_takes_too_long_is_given_up(pond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A very big store is not read for ever; the advice is what checks all of it."""
    monkeypatch.setattr(embedded_check, "CHECK_S_MAX", -1.0)
    monkeypatch.setattr(embedded_check, "_INSTRUCTIONS", 1)
    assert "millpond backup" in only(check_embedded(pond), State.UNCHECKED).advice


def test_a_write_ahead_log_that_is_not_folded_back(pond: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that does not end keeps it growing."""
    monkeypatch.setattr(embedded_check, "WAL_BYTES_WARNING", 1_000_000)
    reader = open_reader(pond)
    reader.execute("BEGIN")
    sqlite_schema.last_version(reader)
    fill(pond, 1_000, 400)
    assert "write-ahead log" in only(check_embedded(pond), State.WARNING).found
    reader.close()


def test_what_expired_and_is_still_there(pond: Path) -> None:
    """The next server sweeps it; where one runs and it is still there, the sweep does not work."""
    long_ago = time.time_ns() // 1_000 - 3_600 * SECOND_US
    connection = apsw.Connection(str(pond))
    connection.execute("UPDATE documents SET expire_at = ? WHERE id < 'p2'", (long_ago,))
    connection.close()
    (idle,) = of(check_embedded(pond), "expiry")
    assert idle.state is State.OK
    assert "the next server sweeps them" in idle.found
    lock = StoreLock(pond)
    (served,) = of(check_embedded(pond), "expiry")
    lock.release()
    assert (served.state, served.found.split(" ")[0]) == (State.WARNING, idle.found.split(" ")[0])


def test_what_has_just_expired_is_no_reason_to_worry(pond: Path) -> None:
    """The server sweeps once a minute, a thousand at a time."""
    connection = apsw.Connection(str(pond))
    connection.execute("UPDATE documents SET expire_at = ?", (time.time_ns() // 1_000 - 60 * SECOND_US,))
    connection.close()
    lock = StoreLock(pond)
    (served,) = of(check_embedded(pond), "expiry")
    lock.release()
    assert (served.state, served.found) == (State.OK, "nothing that expired is left")


class _Ready(BaseHTTPRequestHandler):
    """Answers /ready as a server does that is stopping."""

    def do_GET(self) -> None:
        body = json.dumps({"status": "unavailable", "path": self.path}).encode()
        self.send_response(503 if self.path == "/ready" else 404)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing to standard error."""


def test_who_holds_the_store(pond: Path) -> None:
    """A command at work, a server that is not ready, one that does not answer; servers that do are in tests/cli."""
    lock = StoreLock(pond)
    (command,) = of(check_embedded(pond), "server")
    assert (command.state, "a command, writes" in command.found) == (State.OK, True)
    with HTTPServer(("127.0.0.1", 0), _Ready) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        lock.announce(f"http://127.0.0.1:{server.server_port}")
        (unready,) = of(check_embedded(pond), "server")
        server.shutdown()
    (silent,) = of(check_embedded(pond), "server")
    lock.release()
    assert (unready.state, "answers /ready with 503" in unready.found) == (State.PROBLEM, True)
    assert (silent.state, "does not answer" in silent.found) == (State.PROBLEM, True)


@pytest.mark.parametrize(
    ("took_us", "state"),
    [
        (20_000, State.OK),
        (-5_000_000, State.WARNING),
        (-90_000_000, State.PROBLEM),
        (7_200_000_000, State.UNCHECKED),
    ],
)
def test_the_clock_by_the_event_log(tmp_path: Path, took_us: int, state: State) -> None:
    """A message that arrived before it was published shows a clock that is behind."""
    path = tmp_path / "pond.db"
    fill(path, 0, 20, took_us)
    (clock,) = of(check_embedded(path), "clock")
    assert clock.state is state, clock


def test_the_clock_by_an_empty_log(tmp_path: Path) -> None:
    """It cannot be known."""
    open_writer(tmp_path / "pond.db").close()
    (clock,) = of(check_embedded(tmp_path / "pond.db"), "clock")
    assert clock.state is State.UNCHECKED
