"""`millpond doctor`, as a person and as a script see it, beside servers that are well and servers that are not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cli.shell import Serve, Shell
from tests.common.server import Server

EVENT = '{"service": "api", "status": "ok", "timestamp": "2026-01-08T12:00:00Z"}'


def states(report: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for finding in report["findings"]:
        found.setdefault(finding["check"], set()).add(finding["state"])
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def served(shell: Shell, serve: Serve) -> Server:
    server = serve()
    shell.ok("publish", "--topic", "system.events", "--data", EVENT)
    return server


def test_beside_a_server_that_is_well(shell: Shell, serve: Serve) -> None:
    """Everything is fine but what cannot be known; the server is found and asked."""
    server = served(shell, serve)
    report = shell.ok("doctor", "--json").json
    assert (report["problems"], report["warnings"]) == (0, 0), report
    fine = ("settings", "views", "store", "expiry", "clock", "ids", "documents", "server", "disk")
    assert states(report) == {**{check: {"ok"} for check in fine}, "subscription": {"unchecked"}}
    (found,) = [finding for finding in report["findings"] if finding["check"] == "server"]
    assert found["found"] == f"process {server.process.pid} serves {server.url}, and is ready"


def test_without_a_server_nothing_changes(shell: Shell, serve: Serve) -> None:
    """Not a file more, not a byte other; with no store yet it is a warning, and none is made."""
    report = shell.ok("doctor", "--json").json
    assert (report["problems"], states(report)["store"]) == (0, {"warning"})
    assert contents(shell.folder) == {}
    assert served(shell, serve).terminate() == 0
    before = contents(shell.folder)
    shell.ok("doctor")
    assert contents(shell.folder) == before


def test_a_server_that_hangs(shell: Shell, serve: Serve) -> None:
    """It holds the store and answers nothing: a problem, and the exit code says so."""
    server = served(shell, serve)
    server.process.send_signal(signal.SIGSTOP)
    try:
        ran = shell.run("doctor", "--json")
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert ran.code == 1
    (problem,) = [finding for finding in ran.json["findings"] if finding["state"] == "problem"]
    assert f"process {server.process.pid} holds the store, but {server.url} does not answer" in problem["found"]


def test_wrong_settings_are_findings(shell: Shell) -> None:
    """What `serve` would refuse to start with, all at once, with no secret in it, and the rest examined."""
    wrong = {"PORT": "many", "POISON_POLICY": "maybe", "ADMIN_TOKEN": "correct-horse-battery", "HOST": "192.0.2.7"}
    ran = shell.run("doctor", env=wrong)
    assert ran.code == 1
    assert "problem    settings      PORT=many: must be a whole number" in ran.out
    assert "\n                         -> mend it: nothing starts with it" in ran.out
    assert "problem    settings      POISON_POLICY=maybe: must be one of" in ran.out
    assert "ok         disk" in ran.out
    assert ran.out.splitlines()[-1].startswith("2 problems, ")
    assert "correct-horse" not in ran.out + ran.err


def test_hostile_text_is_escaped(shell: Shell) -> None:
    """A setting that would clear the screen is shown, not obeyed."""
    ran = shell.run("doctor", env={"ENV": "x", "PORT": "\x1b[2J"})
    assert "\x1b" not in ran.out
    assert "PORT=\\x1b[2J" in ran.out


def test_options_before_and_after_the_command(shell: Shell) -> None:
    """--store counts, wherever it stands, and a wrong one is a finding too."""
    for arguments in (["--store", "tape", "doctor"], ["doctor", "--store", "tape"]):
        ran = shell.run(*arguments)
        assert ran.code == 1
        assert "STORE=tape" in ran.out
    assert "other.db" in shell.ok("doctor", "--store", "sqlite:other.db").out


def test_colours_are_for_terminals(shell: Shell) -> None:
    """A terminal gets them, a pipe and NO_COLOR do not."""
    assert "\x1b[32mok" in shell.on_terminal("doctor").out
    assert "\x1b[" not in shell.ok("doctor").out
    shell.environment["NO_COLOR"] = "1"
    assert "\x1b[" not in shell.on_terminal("doctor").out


def test_it_works_without_googles_libraries(shell: Shell) -> None:
    """Only what is asked for needs them, and then the line to install them is the finding."""
    program = "import sys; sys.modules['google'] = None; from millpond.cli import run; sys.exit(run(sys.argv[1:]))"

    def without(*arguments: str, **env: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=shell.folder,
            env={**os.environ, **shell.environment, **env},
        )
        assert done.stderr == ""
        return done.returncode, done.stdout

    code, out = without("doctor", "--json")
    assert (code, json.loads(out)["problems"]) == (0, 0)
    code, out = without("doctor", "--subscription", "ticks")
    assert (code, "pip install 'millpond[gcp]'" in out, "ok         disk" in out) == (1, True, True)
    names = dict.fromkeys(("GCP_PROJECT", "ENV", "SYSTEM_EVENTS_TOPIC", "DEFAULT_REGION"), "x1")
    code, out = without("doctor", STORE="firestore", **names)
    assert (code, "pip install 'millpond[gcp]'" in out, "ok         disk" in out) == (1, True, True)


def test_a_subscription_s_routing_is_told_without_pubsub(shell: Shell) -> None:
    """It follows from the settings: where every message goes, or that each must say so itself, and what to set."""
    report = shell.ok("doctor", "--json", "--subscription", "quotes", "--subscription", "market-ticks").json
    lost, found = [finding for finding in report["findings"] if finding["check"] == "routing"]
    assert (lost["state"], found["state"]) == ("warning", "ok")
    assert lost["found"].startswith("quotes: no setting says which topic its messages belong to")
    assert """set ROUTES='{"quotes": {"kind": "KIND", "topic": "TOPIC"}}'""" in lost["advice"]
    assert found["found"].startswith("market-ticks: each message is routed to market-ticks by its own name")


def test_routes_that_keep_a_server_from_starting_are_a_problem(shell: Shell) -> None:
    """The same line that `serve` would end with."""
    shell.environment["ROUTES"] = '{"quotes": {"kind": "market-tick"}}'
    ran = shell.run("doctor", "--json")
    assert ran.code == 1
    (told,) = [finding["found"] for finding in ran.json["findings"] if finding["state"] == "problem"]
    assert told in shell.run("serve").err
