"""get, ls, why, dlq list and dlq show with --url: what a server answers is what its store holds."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Serve, Shell
from tests.common.server import Server

TOKEN = {"ADMIN_TOKEN": "correct-horse-battery"}
READING = [
    ("ls",),
    ("ls", "ops_services"),
    ("ls", "ops_services", "--limit", "1"),
    ("ls", "ops_services", "--after", "dev__a b"),
    ("ls", "nothing_here"),
    ("get", "ops_services/dev__api"),
    ("get", "ops_services", "dev__a b"),
    ("get", "trade_signals/s1"),
    ("get", "dead_letters/cli__bad"),
    ("get", "ops_services/none"),
    ("why", "m-1"),
    ("why", "s-buy"),
    ("why", "bad"),
    ("why", "never-sent"),
    ("dlq", "list"),
    ("dlq", "list", "--limit", "1"),
    ("dlq", "list", "--reason", "unroutable_payload", "--state", "never"),
    ("dlq", "list", "--view", "nosuch"),
    ("dlq", "show", "cli__bad"),
    ("dlq", "show", "cli__none"),
]


class Filled(Shell):
    """A shell whose server asks for a token, and has documents of several kinds."""

    server: Server


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    shell = Filled(Path(tmp_path_factory.mktemp("filled")))
    shell.environment |= TOKEN
    shell.server = shell.serve()
    at = "2026-01-08T12:00:00Z"
    sent = [
        ("system.events", "m-1", {"service": "api", "version": "\x1b[31m", "timestamp": at}),
        ("system.events", "m-2", {"service": "a b", "timestamp": at}),
        ("trade-signals", "s-buy", {"signalId": "s1", "symbol": "SPY", "action": "buy", "decisionAt": at}),
        ("trade-signals", "s-sell", {"signalId": "s1", "action": "sell", "updatedAt": "2026-01-08T12:10:00Z"}),
        ("system.events", "bad", {"nothing": 1.5}),
        ("nowhere", "worse", {"x": 1}),
    ]
    for topic, message_id, data in sent:
        shell.run("publish", "--topic", topic, "--message-id", message_id, "--data", json.dumps(data))
    yield shell
    shell.close()


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_server_and_its_store_answer_alike(filled: Filled, command: tuple[str, ...]) -> None:
    """Text, JSON and exit code are the same; only hints name the server, so that they can be pasted."""
    option = f" --url {filled.server.url}"
    for form in ((), ("--json",)):
        read = filled.run(*command, *form)
        asked = filled.run(*command, *form, "--url", filled.server.url)
        shown = (asked.out.replace(option, ""), asked.err.replace(option, ""))
        assert (asked.code, *shown) == (read.code, read.out, read.err)


def test_the_hints_of_an_answer_can_be_pasted(filled: Filled) -> None:
    """The next page and the letter are asked of the same server."""
    option = f"--url {filled.server.url}"
    assert (
        f"millpond ls ops_services {option} --after 'dev__a b'"
        in filled.ok("ls", "ops_services", "--limit", "1", *option.split()).err
    )
    assert f"millpond dlq show cli__bad {option}" in filled.ok("why", "bad", *option.split()).out


@pytest.mark.parametrize(
    "command", [("ls",), ("get", "ops_services/dev__api"), ("why", "m-1"), ("dlq", "list"), ("tail",)], ids=" ".join
)
def test_the_token_is_missing_or_refused(filled: Filled, command: tuple[str, ...]) -> None:
    """The two are told apart, and neither token is shown."""
    url = filled.server.url
    missing = filled.run(*command, "--url", url, env={"ADMIN_TOKEN": ""})
    assert (missing.code, missing.out) == (2, "")
    assert missing.err.startswith(f"millpond: ADMIN_TOKEN is missing: {url} asks for it; set it to")
    wrong = filled.run(*command, "--url", url, env={"ADMIN_TOKEN": "wrong-horse"})
    assert (wrong.code, wrong.out) == (2, "")
    assert f"ADMIN_TOKEN=(secret): was refused by {url}" in wrong.err
    assert "horse" not in wrong.err


def test_a_store_in_memory_can_be_read(shell: Shell, serve: Serve) -> None:
    """Only its server can open it, and --url asks that one."""
    shell.environment["STORE"] = "memory"
    url = serve().url
    shell.ok("publish", "--url", url, "--topic", "market-ticks", "--data", '{"symbol": "SPY", "price": 1}')
    assert shell.ok("get", "market_ticks_latest/SPY", "--url", f"{url}/", "--json").json["data"]["price"] == 1
    assert "market_ticks_latest" in shell.ok("ls", "--url", f"{url}/pubsub/push").out


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Another service, which gives every request this answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the standard library's name

        def log_message(self, *_: Any) -> None:
            """Silent."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


HOSTILE = "\x1b]0;owned\x07\r\nmillpond: all is well\u202e"
ANSWERS: list[tuple[int, Any]] = [
    (200, {}),
    (200, []),
    (200, {"outcome": HOSTILE, "reason": HOSTILE, "error": HOSTILE, "trace": HOSTILE, "views": [HOSTILE]}),
    (200, {"outcome": "applied!", "status": 7, "through": HOSTILE, "views": [{"view": HOSTILE, "doc": HOSTILE}]}),
    (200, {"collections": [{"collection": HOSTILE, "docs": 1}], "docs": HOSTILE, "messages": HOSTILE}),
    (200, {"data": HOSTILE, "refusals": [{"view": 1}], "trace": 5, "letters": [HOSTILE], "next": HOSTILE}),
    (403, {"reason": HOSTILE, "error": HOSTILE}),
    (404, {"reason": "not_found", "error": HOSTILE}),
    (500, {"error": {"deep": HOSTILE}}),
]


@pytest.mark.parametrize(("status", "body"), ANSWERS, ids=range(len(ANSWERS)))
def test_another_service_cannot_drive_the_terminal(shell: Shell, status: int, body: Any) -> None:
    """Whatever it answers, no command succeeds by mistake, breaks, or prints a character that is not printable."""
    publish = ("publish", "--topic", "t", "--data", "{}")
    commands = [publish, (*publish, "--json"), ("get", "a/b"), ("ls", "a"), ("why", "x")]
    commands += [("dlq", "list"), ("dlq", "show", "x")]
    with answering(status, json.dumps(body).encode()) as url:
        for command in (*commands, ("ls",)):
            ran = shell.run(*command, "--url", url)
            lists_collections = command == ("ls",) and isinstance(body, dict) and "collections" in body
            assert ran.code in ({0} if lists_collections else {1, 3}), (command, ran)
            assert not set(ran.out + ran.err) & set("\x1b\x07\r\u202e"), (command, ran)
            assert "\nmillpond: all is well" not in ran.out + ran.err
    if "through" in body:
        told = ran_json(shell, publish, status, body)
        assert (told["status"], told["through"].startswith("http://127.0.0.1:")) == (200, True)


def ran_json(shell: Shell, publish: tuple[str, ...], status: int, body: Any) -> Any:
    with answering(status, json.dumps(body).encode()) as url:
        return shell.run(*publish, "--url", url, "--json").json
