"""From start to end: what a newcomer sees, what refuses to start, and what survives however it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from millpond import settings
from millpond.core.errors import SettingsError
from millpond.settings import table as settings_table
from tests.common.process import MILLPOND, Ran, clean_environment, run
from tests.common.push import push_bytes, push_request
from tests.common.server import Server, Start, read_answer

T0 = "2026-01-08T12:00:00Z"
EXIT_S = 8.0


def millpond(folder: Path, *arguments: str, **environment: str) -> Ran:
    """Run a command that should end by itself."""
    env = {"PORT": "0", "STORE": f"sqlite:{folder / 'millpond.db'}", **environment}
    return run([*MILLPOND, *arguments], folder, env)


def refused(ended: Ran) -> str:
    """The one clear line of a command that would not start."""
    assert ended.code not in {0, 1}, ended
    assert ended.out == "", ended
    lines = ended.err.splitlines()
    assert len(lines) == 1, ended
    assert "Traceback" not in ended.err
    return lines[0]


# --- start -------------------------------------------------------------------------------------------------------


def test_the_first_lines(start: Start) -> None:
    """The URL, then a command that works when pasted: it answers applied, and duplicate when pasted again."""
    server = start()
    first, second, *_ = server.output
    assert first == f"Millpond 0.1.0 serves {server.url} with sqlite:{server.store}"
    prefix, _, command = second.partition(": ")
    assert prefix == "Try"
    assert command.startswith("curl ")
    assert server.url in command
    for expected in ("applied", "duplicate"):
        pasted = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=20, check=True)
        assert json.loads(pasted.stdout)["outcome"] == expected
    assert all(line.startswith("{") for line in server.output[2:])


def test_nothing_but_a_command_is_needed(tmp_path: Path) -> None:
    """Without any setting but the port, the store appears in var/, folder and all."""
    with serving(tmp_path, subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().rstrip().endswith(b" with sqlite:var/millpond.db")
        while b'"ready"' not in (line := process.stdout.readline()):
            assert line, "it ended before it was ready"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=EXIT_S) == 0
    assert (tmp_path / "var" / "millpond.db").exists()


def test_port_in_use(tmp_path: Path) -> None:
    """One line that names the variable, the port, and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        line = refused(millpond(tmp_path, "serve", PORT=port))
    assert f"PORT={port}" in line
    assert "in use" in line


def test_a_host_that_is_not_ours(tmp_path: Path) -> None:
    """An address of another machine, or none at all, is refused in one line as well."""
    for host in ("192.0.2.1", "nonsense.invalid"):
        assert host in refused(millpond(tmp_path, "serve", HOST=host))


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that cannot be made, a folder for a file, and a file that is no store: one clear line each."""
    (tmp_path / "file").write_text("not a database, and long enough to be taken for one" * 50)
    (tmp_path / "folder.db").mkdir()
    stores = [tmp_path / "file" / "below.db", tmp_path / "file", tmp_path / "folder.db", Path("/proc/none/x.db")]
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o555)
        stores.append(locked / "x.db")
    for store in stores:
        line = refused(millpond(tmp_path, "serve", STORE=f"sqlite:{store}"))
        assert str(store) in line or "STORE" in line, line


def test_a_second_serve_on_one_store(start: Start, tmp_path: Path) -> None:
    """It is refused, naming who holds the store, while reading beside the running server works."""
    server = start(tmp_path)
    server.send({"service": "held", "timestamp": T0}, message_id="held")
    line = refused(millpond(tmp_path, "serve"))
    assert str(server.store) in line
    assert str(server.process.pid) in line
    assert server.url in line
    listed = millpond(tmp_path, "ls", "ops_services", "--json")
    assert listed.code == 0, listed
    assert "dev__held" in listed.out
    assert server.send({"service": "held", "timestamp": T0}, message_id="held").json["outcome"] == "duplicate"
    server.kill()
    # The lock ended with its holder: there is no stale file to remove by hand.
    assert start(tmp_path).document("ops_services/dev__held") is not None


# --- settings ----------------------------------------------------------------------------------------------------

FREE_TEXT = {"ADMIN_TOKEN", "SOURCE_TOPIC"}
NOT_EMPTY = ("HOST", "ENV", "SYSTEM_EVENTS_TOPIC", "DEFAULT_REGION", "ARTIFACTS_DIR")
WORDS = ("yes please", "2", "")
NUMBERS = ("many", "", "-1", "nan", "inf", "1e999", "1,5", "0x10")
WRONG: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(NOT_EMPTY, ("", "  ")),
    "GCP_PROJECT": ("", "  ", "a/b", "p q", "projects/p"),
    "FIRESTORE_DATABASE": ("", "my/db", "default)", "a b", "x" * 64),
    "PORT": ("http", "", "-1", "65536", "80.0", "8080x"),
    "STORE": ("", "sqlite:", "postgres://db", "millpond.db", "sqlite: ", "MEMORY"),
    "BUILT_IN_VIEWS": ("", "ops_service", "all,none", "parcels"),
    "VIEWS": ("not-a-module", "a b", "a..b", "/etc/views.py", "no_such_module_anywhere"),
    "ROUTES": (
        "x",
        "[]",
        '{"s":"market-ticks"}',
        '{"s":{}}',
        '{"s":{"kind":5}}',
        '{"s":{"sort":"x"}}',
        "{" * 5_000,
    ),
    "SUBSCRIPTION_TOPIC_MAP": ("x", "[]", "null", '{"s":5}', '{"s":null}', "[" * 100_000),
    "CONSUMER_MAX_WORKERS": ("0", "-1", "1001", "eight", "1.5", ""),
    "CONSUMER_QUEUE_SIZE": ("0", "-1", "1000001", "many", "1.5", ""),
    "FIRESTORE_RETRY_MAX_ATTEMPTS": ("0", "-1", "101", "many", "1.5", ""),
    "FIRESTORE_RETRY_INITIAL_BACKOFF_S": (*NUMBERS, "0", "61", "7"),
    "FIRESTORE_RETRY_MAX_BACKOFF_S": (*NUMBERS, "0", "601", "0.1"),
    "FIRESTORE_RETRY_MAX_TOTAL_S": (*NUMBERS, "0", "601"),
    "MAX_FUTURE_SKEW_S": (*NUMBERS, "86401"),
    "NAIVE_TIMES": ("", "UTC", "local", "on"),
    "POISON_POLICY": ("", "AUTO", "bury", "auto "),
    "LETTER_TTL_DAYS": (*NUMBERS, "0", "36501"),
    "VIEW_ERROR_PARK_AFTER_S": (*NUMBERS, "31536001"),
    "VIEW_ERRORS": ("", "on", "FULL", "auto "),
    "RECEIPTS": ("", "both", "off"),
    "RECEIPT_TTL_DAYS": (*NUMBERS, "0", "off"),
    "FIRESTORE_COLLECTION_PREFIX": ("a/b", "__x", ".", "ü", "x" * 100 + "_", "t1"),
    "FIRESTORE_RPC_DEADLINE_S": (*NUMBERS, "0", "61"),
    "PUSH_AUDIENCE": ("https://pond.example/pubsub/push",),
    "PUSH_SERVICE_ACCOUNT": ("push@p.iam.gserviceaccount.com",),
    "PUSH_UNAUTHENTICATED": ("", "yes", "Allow"),
    "HTTP_CONNECTIONS_MAX": ("0", "-1", "1.5", "many"),
    "HTTP_BODIES_MIB": ("0", "-1", "1.5", "64 MiB"),
    "PUSH_CERTS_URL": (
        "",
        "http://keys.example/",
        "http://127.0.0.1.keys.example/",
        "ftp://127.0.0.1/",
        "https://",
    ),
    "EVENT_LOG": WORDS,
    "HISTORY": WORDS,
    "BULK_PACE": ("", "fast", "ON"),
    "FIRESTORE_PRICES": ("1", "{}", "cheap", '{"currency": "EUR"}'),
    "EVENT_LOG_TTL_DAYS": ("many", "-1", "nan", "0", "36501", "never"),
    "OPS_SERVICE_ID": ("", "region", "ENV_SERVICE"),
    "TICKS_MAX_LATE_S": (*NUMBERS, "off"),
    "TICK_HISTORY": WORDS,
    "TICK_HISTORY_TTL_DAYS": (*NUMBERS, "0"),
    "BARS_ID": ("", "minute"),
    "BARS_MAX_BACKFILL_DAYS": ("many", "-1", "nan", "0"),
    "SIGNALS_ID": ("", "nested"),
    "SIGNALS_DISTINCT_BY_VERSION": WORDS,
    "ACCESS_DENIED": ("", "drop", "dlq"),
    "DLQ_TOPIC": ("dead-letters", "projects/p/subscriptions/s", "a", "goog-letters", "{topic}.dlq", "a b"),
    "DLQ_PUBLISH_DEADLINE_S": (*NUMBERS, "0", "601"),
    "STEPS": ("not-a-module", "a b", "a..b", "/etc/steps.py", "no_such_module_anywhere"),
    "FLOW_LEASE_S": (*NUMBERS, "0", "3601"),
    "FLOW_ATTEMPTS_MAX": ("0", "-1", "101", "many", "1.5", ""),
    "FLOW_STEP_MAX_S": (*NUMBERS, "0", "86401"),
    "FLOW_STEPS_AT_ONCE": ("0", "-1", "1001", "many", "1.5", ""),
    "CHARTS_DEFAULT_TIMEZONE": ("", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "+01:00"),
}
# Found out only when the service is built, not when the text is read.
LATE = {("VIEWS", "no_such_module_anywhere"), ("STEPS", "no_such_module_anywhere")}
ROWS = [(name, value) for name, values in WRONG.items() for value in values if (name, value) not in LATE]


def test_every_setting_that_can_be_wrong_is_in_the_table() -> None:
    """A new setting needs rows here, or a reason why any text will do."""
    assert {setting.name for setting in settings_table.TABLE} == {*WRONG, *FREE_TEXT}


@pytest.mark.parametrize(("name", "value"), ROWS, ids=[f"{name}={value:.30}" for name, value in ROWS])
def test_a_wrong_value_is_refused(name: str, value: str) -> None:
    """The refusal names the variable, the value, and what is allowed."""
    with pytest.raises(SettingsError) as refusal:
        settings.load({name: value})
    text = str(refusal.value)
    # The two ends of a backoff are one rule, told of the first of them.
    named = name.replace("_MAX_BACKOFF_S", "_INITIAL_BACKOFF_S") if value == "0.1" else name
    assert text.startswith(f"{named}=")
    if named == name:
        assert value.strip()[:20] in text
    assert "must be " in text
    allowed = text.partition("must be ")[2]
    assert allowed
    assert "\n" not in text
    # A value is shown, not poured out.
    assert len(text) < 1_000


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"K_SERVICE": "pond"}, "STORE"),
        ({"STORE": "firestore"}, "GCP_PROJECT"),
        ({"STORE": "firestore", "GCP_PROJECT": "p"}, "ENV"),
        ({"STORE": "firestore", "GCP_PROJECT": "p", "ENV": "e"}, "SYSTEM_EVENTS_TOPIC"),
        (
            {"STORE": "firestore", "GCP_PROJECT": "p", "ENV": "e", "SYSTEM_EVENTS_TOPIC": "t"},
            "DEFAULT_REGION",
        ),
        ({"PUSH_AUDIENCE": "a"}, "PUSH_SERVICE_ACCOUNT"),
        ({"RECEIPT_TTL_DAYS": "0.01", "MAX_FUTURE_SKEW_S": "3600"}, "RECEIPT_TTL_DAYS"),
        ({"RECEIPT_TTL_DAYS": "0.5", "MAX_FUTURE_SKEW_S": "43200"}, "RECEIPT_TTL_DAYS"),
        ({"FIRESTORE_RETRY_INITIAL_BACKOFF_S": "2", "FIRESTORE_RETRY_MAX_BACKOFF_S": "1"}, "MAX_BACKOFF_S"),
    ],
    ids=[
        "a disk that is memory",
        "no project on Firestore",
        "no environment on Firestore",
        "no system topic on Firestore",
        "no region on Firestore",
        "an audience without an account",
        "receipts shorter than the skew",
        "receipts as short as the skew",
        "a first pause over the longest",
    ],
)
def test_values_that_do_not_go_together(environment: dict[str, str], named: str) -> None:
    """Each may be right alone; together they are refused in the same words."""
    with pytest.raises(SettingsError, match=named):
        settings.load(environment)


def test_a_wrong_value_ends_serve(tmp_path: Path) -> None:
    """`serve` says it in one line and exits 2; what is seen before the store is opened has touched nothing."""
    for name, value in (("POISON_POLICY", "bury"), ("PORT", "http"), ("VIEWS", "no_such_module_anywhere")):
        if name != "VIEWS":
            assert list(tmp_path.iterdir()) == []
        ended = millpond(tmp_path, "serve", **{name: value})
        assert ended.code == 2
        assert f"{name}={value}" in refused(ended)


# --- the end -----------------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """One message of the load, and how it was answered (0: not at all)."""

    message_id: str
    status: int


class Load:
    """Clients that publish unique messages on connections kept alive, until the server is gone."""

    def __init__(self, server: Server, clients: int = 16) -> None:
        self._server = server
        self.sent: list[Sent] = []
        self._threads = [
            threading.Thread(target=self._publish, args=(number,), daemon=True) for number in range(clients)
        ]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        until = time.monotonic() + 20
        while len(self.acknowledged) < 200:
            assert time.monotonic() < until, "the load does not get going"
            time.sleep(0.01)
        yield
        for thread in self._threads:
            thread.join(timeout=30)
            assert not thread.is_alive()

    @property
    def acknowledged(self) -> list[str]:
        return [one.message_id for one in self.sent if one.status == 200]

    def _publish(self, client: int) -> None:
        message_id = ""
        with contextlib.suppress(OSError, AssertionError), self._server.connect() as connection:
            for number in range(100_000):
                message_id = f"load-{client}-{number}"
                connection.sendall(push_request(load_bytes(message_id)))
                answer = read_answer(connection)
                self.sent.append(Sent(message_id, answer.status))
                message_id = ""
                if answer.status != 200 and answer.headers.get("connection") == "close":
                    return
        if message_id:
            self.sent.append(Sent(message_id, 0))


def load_bytes(message_id: str) -> bytes:
    return push_bytes({"service": message_id, "timestamp": T0}, message_id=message_id)


def check_survivors(start: Start, folder: Path, load: Load) -> None:
    """Every acknowledged message is in the store, and sending everything again changes none of its documents."""
    server = start(folder)
    kept = server.documents(("ops_services", "ops_dedupe"))
    acknowledged = set(load.acknowledged)
    missing = {message_id for message_id in acknowledged if f"ops_services/dev__{message_id}" not in kept}
    assert missing == set()
    total = server.get("/api/stats").json["total"]
    assert total >= len(acknowledged)
    for one in load.sent:
        answer = server.push(load_bytes(one.message_id))
        assert answer.status == 200
        if one.message_id in acknowledged:
            assert answer.json["reason"] == "duplicate_message_noop", one
    again = server.documents(("ops_services", "ops_dedupe"))
    assert {path: version for path, version in again.items() if path in kept} == kept
    assert server.get("/api/stats").json["total"] == len({one.message_id for one in load.sent})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_told_to_stop_under_load(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    """It exits 0 within eight seconds, whichever clients still talk to it, and keeps all it acknowledged."""
    server = start(tmp_path)
    load = Load(server)
    with server.connect() as idle, server.connect() as unfinished, load.running():
        idle.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert read_answer(idle).status == 200
        if number == signal.SIGTERM:
            unfinished.sendall(b"POST /pubsub/push HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
        begun = time.monotonic()
        os.kill(server.process.pid, number)
        assert server.process.wait(timeout=15) == 0
        assert time.monotonic() - begun < EXIT_S
    # Whatever could not be taken was answered so that it comes again, or not at all.
    assert {one.status for one in load.sent} <= {200, 503, 0}
    last = [json.loads(line) for line in server.output[2:]]
    assert any(line["message"].startswith("stopping") for line in last)
    assert [line for line in last if line["severity"] in {"CRITICAL", "ALERT"} or "stack" in line] == []
    logged = {line.get("messageId") for line in last}
    assert set(load.acknowledged) <= logged
    check_survivors(start, tmp_path, load)


def test_everything_is_there_after_a_restart(start: Start, tmp_path: Path) -> None:
    """Documents, receipts, letters and counts come back as they were; a process' own counts begin anew."""
    server = start(tmp_path)
    server.send({"service": "kept", "timestamp": T0}, message_id="kept-1")
    server.send({"symbol": "KEPT", "ts": T0}, message_id="kept-2", topic="market-ticks")
    server.send({"nothing": 1}, message_id="kept-3")
    collections = ("ops_services", "ops_dedupe", "market_ticks", "market_ticks_latest", "dead_letters")
    stats = server.get("/api/stats").json
    assert stats.pop("viewsSinceStart")["ops_services"] == {"applied": 1}
    before = (server.documents(collections), server.letters())
    assert server.terminate() == 0
    server = start(tmp_path)
    assert (server.documents(collections), server.letters()) == before
    assert server.get("/api/stats").json == {**stats, "viewsSinceStart": {}}


# --- the log -----------------------------------------------------------------------------------------------------


def test_log_lines_are_on_disk_within_100_ms(tmp_path: Path) -> None:
    """Standard output in a file: a message's line is there before a tenth of a second has passed."""
    path = tmp_path / "log"
    with path.open("wb") as out, serving(tmp_path, out):
        banner = _wait_in(path, " serves http://127.0.0.1:", 20)
        _wait_in(path, '"ready"', 20)
        address = ("127.0.0.1", int(banner.partition("127.0.0.1:")[2].split()[0]))
        waits = []
        with socket.create_connection(address, timeout=10) as connection:
            for number in range(15):
                publish(connection, f"disk-{number}")
                begun = time.monotonic()
                _wait_in(path, f'"disk-{number}"', 5)
                waits.append(time.monotonic() - begun)
    # The median, so that a machine busy with other things does not decide.
    assert statistics.median(waits) < 0.1, waits


def _wait_in(path: Path, text: str, timeout_s: float) -> str:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        for line in path.read_text().splitlines():
            if text in line:
                return line
        time.sleep(0.002)
    raise AssertionError(f"{text} did not appear in {path.read_text()[-2_000:]}")


@pytest.mark.parametrize("reader", ["gone", "asleep"])
def test_nobody_reads_the_log(tmp_path: Path, reader: str) -> None:
    """A reader of standard output that went away, or fell asleep, holds up neither a message nor the end."""
    with serving(tmp_path, subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().partition(b"127.0.0.1:")[2].split()[0])
        while b'"ready"' not in (line := process.stdout.readline()):
            assert line, "it ended before it was ready"
        if reader == "gone":
            process.stdout.close()
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            # More lines than a pipe holds.
            for number in range(200):
                publish(connection, f"unread-{number}")
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        # 141 is the documented code for a reader that went away, if there was something left to tell it.
        assert process.wait(timeout=EXIT_S) in ({0} if reader == "asleep" else {0, 141})
        assert time.monotonic() - begun < EXIT_S


@contextlib.contextmanager
def serving(folder: Path, out: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A bare `serve` whose standard output is the test's own business."""
    environment = clean_environment({"PORT": "0"})
    command = [sys.executable, "-m", "millpond", "serve"]
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=out, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def publish(connection: socket.socket, message_id: str) -> None:
    connection.sendall(push_request(load_bytes(message_id)))
    assert read_answer(connection).status == 200
