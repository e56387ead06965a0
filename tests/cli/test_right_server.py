"""Commands reach the server of the store that was named, and no other, and say which one it was."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.shell import Serve, Shell
from tests.cli.test_tail import Tailing
from tests.common.server import Server

EVENT = {"service": "api", "status": "ok", "timestamp": "2026-01-08T12:00:00Z"}
PUBLISH = ("publish", "--topic", "system.events", "--data", json.dumps(EVENT))
SENDING = {
    "publish": PUBLISH,
    "tail": ("tail", "--limit", "1"),
    "load": ("load", "--requests", "5"),
}
FIRESTORE = {
    "STORE": "firestore",
    "GCP_PROJECT": "nowhere",
    "ENV": "dev",
    "SYSTEM_EVENTS_TOPIC": "system.events",
    "DEFAULT_REGION": "local",
}


@pytest.fixture
def other(shell: Shell, serve: Serve) -> Iterator[Server]:
    """A server on another store. Commands find it at HOST and PORT, as they would find one on 8080."""
    server = serve({"STORE": f"sqlite:{shell.folder / 'other.db'}"})
    shell.environment["PORT"] = str(server.port)
    yield server
    server.kill()


def contents(server: Server) -> Any:
    return server.get("/api/collections").json, server.get("/api/stats").json["total"]


@pytest.mark.parametrize("named", ["--store", "STORE"])
@pytest.mark.parametrize("command", SENDING.values(), ids=SENDING.keys())
def test_no_other_server_stands_in_for_a_named_store(
    shell: Shell, other: Server, command: tuple[str, ...], named: str
) -> None:
    """If no server holds the store, the command says so and what to do; the server at PORT gets nothing."""
    before = contents(other)
    store = f"sqlite:{shell.store}"
    if named == "--store":
        del shell.environment["STORE"]
    ran = shell.run(*command, *(["--store", store] if named == "--store" else []))
    assert (ran.code, ran.out) == (3, "")
    assert ran.err == (
        f"millpond: no server holds {store}: start one with `millpond serve --store {store}`, "
        "or name another server with --url\n"
    )
    assert contents(other) == before


@pytest.mark.parametrize("env", [{"STORE": "memory"}, FIRESTORE], ids=["memory", "firestore"])
@pytest.mark.parametrize("command", SENDING.values(), ids=SENDING.keys())
def test_a_store_without_a_lock_needs_a_url(
    shell: Shell, other: Server, command: tuple[str, ...], env: dict[str, str]
) -> None:
    """Nothing says which server has such a store, so none is assumed."""
    before = contents(other)
    ran = shell.run(*command, env=env)
    assert (ran.code, ran.out) == (2, "")
    assert f"STORE={env['STORE']} does not say which server to use" in ran.err
    assert f"--url {other.url}" in ran.err
    assert contents(other) == before


def test_each_store_has_its_own_server(shell: Shell, serve: Serve, other: Server) -> None:
    """With two servers, each message goes to the store that was named, and the answer names the server."""
    mine = serve()
    before = contents(other)
    first, *_ = shell.ok(*PUBLISH, "--message-id", "m-1").out.splitlines()
    assert first == f"200 applied, message m-1, through {mine.url}"
    assert shell.ok("load", "--requests", "5", "--json").json["url"] == f"{mine.url}/pubsub/push"
    assert contents(other) == before
    after = contents(mine)
    sent = shell.ok(*PUBLISH, "--store", f"sqlite:{other.store.with_name('other.db')}", "--json").json
    assert (sent["through"], sent["outcome"]) == (other.url, "applied")
    assert shell.ok(*PUBLISH, "--url", other.url, "--json").json["through"] == other.url
    assert contents(mine) == after


def test_without_a_named_store_the_holder_comes_first(shell: Shell, serve: Serve, other: Server) -> None:
    """The default store's server is used if it runs; only without one the server at HOST and PORT."""
    del shell.environment["STORE"]
    assert shell.ok(*PUBLISH, "--json").json["through"] == other.url
    # The default store of this folder.
    mine = serve({"STORE": "sqlite:var/millpond.db"})
    before = contents(other)
    assert shell.ok(*PUBLISH, "--json").json["through"] == mine.url
    assert contents(other) == before


def test_a_tail_does_not_go_over_to_another_server(shell: Shell, serve: Serve, other: Server) -> None:
    """While the store's server is away, the messages of the server at HOST and PORT are not shown as its own."""
    del shell.environment["STORE"]
    own = {"STORE": "sqlite:var/millpond.db"}
    mine = serve(own)
    tail = Tailing(shell).begun()
    assert tail.notes == [f"Watching {mine.url}; Ctrl-C ends it"]
    assert mine.terminate() == 0
    tail.wait_for(lambda: any("waiting for the server to come back" in note for note in tail.notes))
    for number in range(5):
        # It looks for a server every second or two.
        shell.ok(*PUBLISH, "--message-id", f"elsewhere-{number}", "--url", other.url)
        time.sleep(0.5)
    again = serve(own)
    tail.wait_for(lambda: any(f"The server is back at {again.url}" in note for note in tail.notes))
    shell.ok(*PUBLISH, "--message-id", "here")
    tail.wait_for(lambda: tail.lines)
    assert tail.interrupt() == 130
    assert [line for line in tail.lines if "elsewhere" in line] == []


def test_writing_commands_name_their_server(shell: Shell, serve: Serve) -> None:
    """Who asks where a replay, a rebuild or a run went finds it in the output, in text and in JSON."""
    server = serve()
    assert shell.run("publish", "--topic", "system.events", "--data", "{}", "--message-id", "bad").code == 1
    run = shell.write("run.json", {"steps": {"a": {"stepType": "X", "status": "READY"}}})
    commands = [
        ("dlq", "replay", "--all"),
        ("dlq", "purge", "--all", "--yes"),
        ("rebuild", "ops_services", "--yes"),
        ("flow", "submit", run, "--run-id", "r"),
        ("flow", "sweep"),
    ]
    for command in commands:
        text = shell.run(*command)
        assert text.code in {0, 1}, text
        assert server.url in text.out + text.err, command
    for command in [commands[0], *commands[2:]]:
        # Purged: nothing is replayed, so nothing went through a server.
        through = None if command[:2] == ("dlq", "replay") else server.url
        assert shell.run(*command, "--json").json["through"] == through, command


def test_a_missing_default_store_points_at_the_server_that_answers(shell: Shell, other: Server) -> None:
    """Documents that a server keeps elsewhere, as the demo does, are one pasted option away."""
    del shell.environment["STORE"]
    shell.ok(*PUBLISH, "--message-id", "m-1")
    for command in (("ls",), ("get", "ops_services/dev__api"), ("why", "m-1"), ("dlq", "list")):
        ran = shell.run(*command)
        assert (ran.code, ran.out) == (3, "")
        assert f"a server answers at {other.url}: --url {other.url} asks that one" in ran.err
    assert shell.ok("get", "ops_services/dev__api", "--url", other.url, "--json").json["data"]["status"] == "ok"


def test_a_default_store_without_the_document_points_there_too(shell: Shell, other: Server) -> None:
    """An older store in this folder does not hide where the message went."""
    del shell.environment["STORE"]
    line = {"topic": "market-ticks", "data": {"symbol": "SPY", "price": 1}, "publishTime": "2026-01-08T12:00:01Z"}
    shell.ok("ingest", shell.write("old.jsonl", line))
    for command in (("get", "ops_services/dev__api"), ("ls", "ops_services"), ("why", "m-1")):
        ran = shell.run(*command)
        assert (ran.code, ran.out) == (1, "")
        assert f"--url {other.url} asks that one" in ran.err


def test_a_named_store_is_not_exchanged_for_what_answers(shell: Shell, other: Server) -> None:
    """If a store was named, no other one is suggested."""
    assert other.url not in shell.run("ls").err


def test_a_misspelt_topic_gets_a_suggestion(shell: Shell, serve: Serve) -> None:
    """The answer names the nearest topic and all that views feed on, and so does the letter."""
    serve()
    ran = shell.run("publish", "--topic", "market-tics", "--data", '{"x": 1}')
    assert ran.code == 1
    _, error, hint = ran.out.splitlines()
    assert error == (
        'no view feeds on "market-tics" (from the attribute topic); did you mean "market-ticks"? known topics: '
        "ingest-heartbeat, market-bars-1m, market-ticks, system.events, trade-signals"
    )
    letter = shell.ok(*shlex.split(hint.partition(": millpond ")[2]), "--json").json
    assert letter["error"] == error
