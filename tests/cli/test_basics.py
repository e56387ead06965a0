"""Help, version, completion, settings, views, and how every command ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from millpond.cli.root import COMMANDS, cli
from tests.cli.flow_shell import RUN, the_line
from tests.cli.shell import Serve, Shell
from tests.common.process import Ran

DLQ = ("list", "show", "replay", "purge")
FLOW = ("submit", "show", "run-local", "sweep")
SUBCOMMANDS = [["dlq", name] for name in DLQ] + [["flow", name] for name in FLOW]


def lines_of(ran: Ran) -> list[str]:
    return ran.err.splitlines()


def test_help_names_every_command_and_exit_code(shell: Shell) -> None:
    """A newcomer finds all commands and what the exit codes mean on the first page."""
    out = shell.ok("--help").out
    for name in COMMANDS:
        assert f"  {name} " in out
    for code in ("0", "1", "2", "3", "130"):
        assert f"    {code} " in out


@pytest.mark.parametrize("path", [[name] for name in COMMANDS] + SUBCOMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(path: list[str]) -> None:
    """Each help page says what the command does, shows an example, and matches its line on the first page.

    Those about flow runs also say when the answer is no, and that it may be had as JSON.
    """
    group = cli
    with cli.make_context("millpond", ["--help"], resilient_parsing=True) as ctx:
        command = group.get_command(ctx, path[0])
        assert command is not None
        assert len(path) > 1 or command.get_short_help_str(limit=200) == COMMANDS[path[0]].summary
        for name in path[1:]:
            command = getattr(command, "commands")[name]  # noqa: B009 - a group's, which mypy cannot know here
        text = command.get_help(ctx)
    assert "Example" in text
    assert f"  millpond {' '.join(path)}" in text
    if path[0] == "flow" and len(path) > 1:
        assert "Exits with 1" in " ".join(text.split())
        assert "--json" in text


def test_help_loads_neither_the_engine_nor_rich(shell: Shell) -> None:
    """The first page comes at once: nothing heavy is imported for it."""
    probe = "import sys; from millpond.cli import run; run(['--help']); print(*sys.modules)"
    python = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, env=shell.environment
    )
    loaded = set(python.stdout.splitlines()[-1].split())
    assert not loaded & {"rich", "httpx", "uvicorn", "millpond.engine.queue", "asyncio"}


def test_version_is_one_line(shell: Shell) -> None:
    """`--version` prints the name and the version."""
    assert shell.ok("--version").out.startswith("millpond 0.")


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: Shell, name: str) -> None:
    """The script names the command and the variable that click completes through."""
    out = shell.ok("completion", name).out
    assert "millpond" in out
    assert "_MILLPOND_COMPLETE" in out


def test_completion_completes_commands(shell: Shell) -> None:
    """What the script asks for is answered."""
    ran = shell.ok(env={"_MILLPOND_COMPLETE": "bash_complete", "COMP_WORDS": "millpond co", "COMP_CWORD": "1"})
    assert ran.out.split() == ["plain,cost", "plain,config", "plain,completion"]


def test_config_masks_secrets(shell: Shell) -> None:
    """A secret's value is shown nowhere, neither as text nor as JSON."""
    secret = {"ADMIN_TOKEN": "correct-horse-battery"}
    text, machine = shell.ok("config", env=secret), shell.ok("config", "--json", env=secret)
    assert "correct-horse" not in text.out + machine.out
    (row,) = [row for row in machine.json["settings"] if row["name"] == "ADMIN_TOKEN"]
    assert row == {**row, "value": "********", "origin": "environment", "secret": True}


def test_config_says_where_each_value_came_from(shell: Shell) -> None:
    """Command line beats environment beats default, also when the option stands before the command."""
    rows = shell.ok("--store", "sqlite:a.db", "config", "--json", env={"PORT": "9000"}).json["settings"]
    found = {row["name"]: (row["value"], row["origin"]) for row in rows}
    assert found["STORE"] == ("sqlite:a.db", "command line")
    assert found["PORT"] == (9000, "environment")
    assert found["HOST"] == ("127.0.0.1", "default")
    inner = shell.ok("--store", "sqlite:a.db", "config", "--store", "sqlite:b.db").out
    assert "sqlite:b.db" in inner
    assert "sqlite:a.db" not in inner


def test_views_lists_built_in_and_own_views(shell: Shell) -> None:
    """A module's view stands beside the built-in ones, with its own docstring."""
    (shell.folder / "parcels.py").write_text(
        'from millpond import Tally\n\n\nclass Parcels(Tally):\n    """Scans of each depot."""\n\n'
        '    topics = ("parcel-scans",)\n    collection = "parcels"\n    key = "depot"\n    time = "at"\n\n'
        "    def fold(self, event, current):\n        return {'n': current.get('n', 0) + 1}\n"
    )
    views = {view["name"]: view for view in shell.ok("views", "--views", "parcels", "--json").json["views"]}
    assert views["ops_services"]["kind"] == "latest"
    assert views["trade_signals"]["kind"] == "merge"
    own = views["parcels"]
    assert (own["kind"], own["topics"], own["time"]) == ("tally", ["parcel-scans"], ["at"])
    assert own["summary"] == "Scans of each depot."
    assert "Scans of each depot." in shell.ok("views", "--views", "parcels").out


@pytest.mark.parametrize(
    ("arguments", "env", "code", "words"),
    [
        (["nosuch"], {}, 2, "No such command"),
        (["ls", "--nosuch"], {}, 2, "No such option"),
        (["get", "ops_services"], {}, 2, "COLLECTION/ID"),
        (["config"], {"PORT": "many"}, 2, "PORT=many"),
        (["serve"], {"POISON_POLICY": "maybe"}, 2, "POISON_POLICY=maybe"),
        (["serve", "--port", "70000"], {}, 2, "PORT=70000"),
        (["views", "--views", "no_such_module"], {}, 2, "VIEWS=no_such_module"),
        (["ls"], {"STORE": "memory"}, 2, "name that server with --url"),
        (["ls"], {}, 3, "there is no store at"),
        (["dlq", "replay", "--all"], {}, 3, "there is no store at"),
        (["dlq", "replay"], {"STORE": "sqlite:/dev/null"}, 2, "--all"),
        (["dlq", "replay", "--subscription", "s", "--all"], {}, 2, "--subscription goes with neither"),
        (["dlq", "replay", "--subscription", "s", "x__1"], {}, 2, "--subscription goes with neither"),
        (["dlq", "replay", "--subscription", "s", "--dry-run"], {}, 2, "--dry-run"),
        (["dlq", "replay", "--limit", "5", "--all"], {}, 2, "--limit goes with --subscription"),
        (["dlq", "purge", "--all", "--yes", "--state", "replayed"], {}, 2, "never"),
        (["dlq", "purge", "--all", "--yes", "--state", "failed", "--replayed"], {}, 2, "--state succeeded"),
        (["pubish"], {}, 2, "No such command 'pubish': did you mean \"publish\"?"),
        (["dlq", "lst"], {}, 2, "No such command 'lst': did you mean \"list\"? (see millpond dlq --help)"),
        (["flow", "sweeep"], {}, 2, 'did you mean "sweep"?'),
        (["publish", "--topic", "t", "--data", "{}"], {}, 3, "no server holds sqlite:"),
        (["publish", "--topic", "t", "--data", "{}"], {"STORE": "memory"}, 2, "--url http://127.0.0.1:8080"),
        (["tail"], {}, 3, "no server holds sqlite:"),
        (["tail"], {"STORE": "memory", "PORT": "0"}, 2, "STORE=memory does not say which server"),
        (["load"], {}, 3, "no server holds sqlite:"),
        (["get", "a/b", "--url", "http://127.0.0.1:9"], {}, 3, "cannot reach http://127.0.0.1:9"),
        (["ls", "--url", "nowhere"], {}, 2, "must be a URL"),
        (["publish", "--topic", "t"], {}, 2, "--data"),
        (["publish", "--topic", "t", "--data", "{"], {}, 2, "not JSON"),
        (["publish", "--topic", "t", "--data", "{}", "--attribute", "x"], {}, 2, "NAME=VALUE"),
        (["publish", "--topic", "t", "--data", "{}", "--url", "ftp://x"], {}, 2, "must be a URL"),
        (["ingest", "nosuch.jsonl"], {}, 2, "nosuch.jsonl"),
        (["ingest", "/dev/null", "--url", "http://127.0.0.1:9"], {}, 3, "cannot reach http://127.0.0.1:9"),
        (["load", "--url", "http://127.0.0.1:9", "--requests", "5"], {}, 3, "cannot reach http://127.0.0.1:9"),
        (["load", "--url", "http://example.com/pubsub/push"], {}, 2, "--allow-remote"),
        (["load", "--url", "http://10.0.0.1:8080"], {}, 2, "--allow-remote"),
        (["load", "--url", "http://localhost.evil.test"], {}, 2, "--allow-remote"),
        (["load", "--topic", "market-tick"], {}, 2, 'did you mean "market-ticks"? known: ingest-heartbeat,'),
        (["tail", "--url", "http://127.0.0.1:9"], {}, 3, "cannot reach http://127.0.0.1:9"),
        (["tail", "--url", "http://nosuch.invalid"], {}, 3, "there is no such host"),
        (["tail", "--outcome", "sideways"], {}, 2, "sideways"),
        (["tail", "--limit", "0"], {}, 2, "--limit"),
        (["demo"], {"EVENT_LOG": "off"}, 2, "EVENT_LOG"),
        (["demo"], {"PORT": "x"}, 2, "PORT"),
        (["flow", "submit", "nosuch.json"], {}, 2, "nosuch.json"),
        (["flow", "run-local", "nosuch.json"], {}, 2, "nosuch.json"),
        (["flow", "show", "r"], {}, 3, "there is no store at"),
        (["flow", "show", "r", "--store", "memory"], {}, 2, "STORE=memory"),
        (["flow", "sweep", "--store", "memory"], {}, 2, "STORE=memory"),
        (["flow", "sweep", "--steps", "nowhere"], {}, 2, "STEPS=nowhere: cannot be imported"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_failures_are_one_line_and_an_exit_code(
    shell: Shell, arguments: list[str], env: dict[str, str], code: int, words: str
) -> None:
    """What went wrong is one line on standard error, nothing on standard output, and the documented code."""
    ran = shell.run(*arguments, env=env)
    assert (ran.code, ran.out) == (code, ""), ran
    (line,) = lines_of(ran)
    assert line.startswith("millpond: ")
    assert words in line


def test_serve_refuses_a_store_in_use(shell: Shell, serve: Serve) -> None:
    """A second server on the same store ends with one line that names the first."""
    server = serve()
    ran = shell.run("serve", "--port", "0")
    assert ran.code == 2
    (line,) = lines_of(ran)
    assert f"is in use by process {server.process.pid} ({server.url})" in line


@pytest.mark.parametrize(
    "command",
    [
        ("flow", "submit", "run.json"),
        ("flow", "sweep"),
        ("dlq", "replay", "x"),
        ("dlq", "purge", "x", "--yes"),
        ("rebuild", "ops_services", "--yes"),
    ],
    ids=" ".join,
)
def test_the_servers_token(flow: Shell, serve: Serve, command: tuple[str, ...]) -> None:
    """Without the server's token nothing is done, and a missing one is told from a wrong one; with it all is."""
    token = {"ADMIN_TOKEN": "correct-horse-battery"}
    flow.write("run.json", RUN)
    server = serve(token)
    assert f"ADMIN_TOKEN is missing: {server.url} asks for it" in the_line(flow.run(*command), 2)
    line = the_line(flow.run(*command, env={"ADMIN_TOKEN": "wrong"}), 2)
    assert f"ADMIN_TOKEN=(secret): was refused by {server.url}" in line
    assert "wrong" not in line
    # There is no letter x.
    assert flow.run(*command, env=token).code == (1 if "x" in command else 0)


def test_a_reader_that_goes_away_is_no_error(shell: Shell) -> None:
    """`millpond … | head -1` ends quietly, as other commands do."""
    process = shell.start("config", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=20)
    assert err == b""
    assert process.returncode == 141


def test_interrupting_a_command_leaves_no_traceback(shell: Shell) -> None:
    """Ctrl-C ends a command that waits for its input with 130, and releases the store."""
    process = shell.start("ingest", "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for_holder(shell.store, process.pid)
    in_use = shell.run("dlq", "replay", "x")
    assert in_use.code == 3
    assert f"is in use by process {process.pid}" in in_use.err
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    assert shell.run("dlq", "replay", "x").code == 1


def wait_for_holder(store: Path, pid: int) -> None:
    lock = store.with_name(store.name + ".lock")
    for _ in range(1_000):
        if lock.exists() and lock.read_bytes() and json.loads(lock.read_bytes())["pid"] == pid and store.exists():
            # The store is open; a moment later so is the pipe.
            time.sleep(0.3)
            return
        time.sleep(0.01)
    raise AssertionError("the command never took the lock")
