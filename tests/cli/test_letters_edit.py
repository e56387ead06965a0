"""dlq edit: correct a letter's payload in an editor or by an option, through a running server and without one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.orders import STRICT
from tests.cli.shell import Shell

LETTER = "-__m1"
ORDER = {"orderId": "o1", "at": "2026-01-08T12:00:01Z", "total": 12345678901234567}
CORRECTED = {**ORDER, "quantity": 3}


@pytest.fixture
def buried(shell: Shell) -> Shell:
    """An order without a quantity, which the view refuses."""
    shell.environment["VIEWS"] = "orders"
    (shell.folder / "orders.py").write_text(STRICT)
    line = {"topic": "orders", "data": ORDER, "messageId": "m1", "publishTime": "2026-01-08T12:00:10Z"}
    assert shell.run("ingest", shell.write("o.jsonl", line)).code == 1
    return shell


@pytest.fixture
def either_way(buried: Shell, start: Callable[[], object]) -> Shell:
    start()
    return buried


def letter(shell: Shell) -> dict[str, Any]:
    shown: dict[str, Any] = shell.ok("dlq", "show", LETTER, "--json").json
    return shown


def test_a_letter_is_corrected_tried_and_replayed(either_way: Shell) -> None:
    """The difference is shown, the original kept, the dry run sees the correction, and the replay applies it."""
    ran = either_way.ok("dlq", "edit", LETTER, "--data", json.dumps(CORRECTED), "--by", "Ada", "--yes")
    assert '+  "quantity": 3' in ran.out
    assert f"millpond dlq replay {LETTER} --dry-run" in ran.err
    shown = letter(either_way)
    assert (json.loads(shown["data"]), json.loads(shown["original"])) == (CORRECTED, ORDER)
    assert [edit["by"] for edit in shown["edits"]] == ["Ada"]
    text = either_way.ok("dlq", "show", LETTER).out
    assert "by Ada: " in text
    assert "payload, as it arrived" in text
    assert "applied" in either_way.ok("dlq", "replay", LETTER, "--dry-run").out
    assert either_way.run("get", "orders/o1").code == 1
    assert either_way.ok("dlq", "replay", LETTER, "--json").json["summary"] == {"applied": 1}
    assert either_way.ok("get", "orders/o1", "--json").json["data"]["quantity"] == 3
    assert "with the corrected payload" in either_way.ok("why", "m1").out
    late = either_way.run("dlq", "edit", LETTER, "--data", "{}", "--yes")
    assert late.code == 1
    assert "publish the change as a new message" in late.err


def test_the_original_is_put_back(either_way: Shell) -> None:
    """`--revert` takes the correction away; a second one has nothing to take."""
    either_way.ok("dlq", "edit", LETTER, "--file", "-", "--yes", stdin=json.dumps(CORRECTED).encode())
    ran = either_way.ok("dlq", "edit", LETTER, "--revert", "--yes", "--json")
    assert json.loads(ran.json["data"]) == ORDER
    assert "original" not in letter(either_way)
    again = either_way.run("dlq", "edit", LETTER, "--revert", "--yes")
    assert (again.code, again.err) == (1, "millpond: the payload is the same: nothing was changed\n")


@pytest.mark.parametrize("data", ["{", "[]", '{"n": 1e999}', "\x1b[2J"])
def test_a_payload_that_is_no_json_object_changes_nothing(buried: Shell, data: str) -> None:
    """The error says what is wrong; the letter stays as it was."""
    before = letter(buried)
    ran = buried.run("dlq", "edit", LETTER, "--data", data, "--yes")
    assert ran.code == 1
    assert "the payload cannot be used, and nothing was changed" in ran.err
    assert "\x1b" not in ran.err
    assert letter(buried) == before


def test_an_editor_gets_the_payload_with_every_digit(buried: Shell) -> None:
    """It opens indented JSON; what is saved is checked, shown as a difference, and asked about."""
    script = buried.folder / "editor.sh"
    script.write_text(
        '#!/bin/sh\ncp "$1" seen.json\nsed -i \'s/"orderId": "o1",/"orderId": "o1", "quantity": 3,/\' "$1"\n'
    )
    script.chmod(0o755)
    buried.environment["EDITOR"] = str(script)
    refused = buried.on_terminal("dlq", "edit", LETTER, keys=b"n\n")
    assert refused.code == 1
    assert "nothing was changed" in refused.out
    assert "original" not in letter(buried)
    saved = buried.on_terminal("dlq", "edit", LETTER, keys=b"y\n")
    assert saved.code == 0, saved
    seen = (buried.folder / "seen.json").read_text()
    assert '\n  "total": 12345678901234567' in seen
    assert json.loads(letter(buried)["data"]) == CORRECTED


def test_a_command_that_cannot_ask_says_so(buried: Shell) -> None:
    """Without a terminal it neither opens an editor nor takes silence for yes; two sources are a mistake."""
    for arguments, text in (
        ((), "give --data or --file"),
        (("--data", "{}"), "give --yes to edit"),
        (("--data", "{}", "--revert"), "give one of --data, --file and --revert"),
    ):
        ran = buried.run("dlq", "edit", LETTER, *arguments)
        assert (ran.code, text in ran.err) == (2, True), ran
    missing = buried.run("dlq", "edit", "nothing", "--data", "{}", "--yes")
    assert missing.code == 1
    assert "there is no letter nothing" in missing.err
