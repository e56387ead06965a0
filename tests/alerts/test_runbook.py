"""The runbook speaks of every alert, of no other, and of no threshold that is not in the data."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click

from millpond.alerts.definitions import load
from millpond.alerts.table import render
from millpond.cli.root import COMMANDS, cli
from tests.alerts.tools import ROOT, unreadable

PAGE = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
ALERTS = load()
PARTS = dict(re.findall(r"^### (\S+)\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_alert_has_its_heading_and_every_heading_its_alert() -> None:
    """The heading is the id, so that the link in an alert leads there."""
    assert list(PARTS) == [alert.id for alert in ALERTS.alerts]
    for alert in ALERTS.alerts:
        assert alert.runbook == f"docs/runbook.md#{alert.id}"


def test_every_part_says_what_it_means_where_to_look_what_to_do_and_when_it_ends() -> None:
    """In that order."""
    for name, text in PARTS.items():
        assert re.findall(r"^\*\*(\w+)[.*]", text, re.MULTILINE) == ["Means", "Look", "Do", "Ends"], name


def test_the_table_is_the_one_the_data_makes() -> None:
    """As the command prints it, once."""
    command = [sys.executable, "-m", "millpond.alerts", "table"]
    made = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()
    assert made == render(ALERTS)
    assert PAGE.count(f"\n\n{made}\n") == 1


def test_no_threshold_is_quoted_anywhere_else() -> None:
    """It would be forgotten when the data changes."""
    prose = PAGE.replace(render(ALERTS), "")
    assert re.findall(r"\d+(?:\.\d+)? ?%|(?:over|above|at least|more than) \d+", prose) == []


def test_every_query_is_promql(tmp_path: Path) -> None:
    """As promtool reads it, one to a line."""
    queries = [line for block in fenced("promql") for line in block.splitlines()]
    assert len(queries) > 10
    assert unreadable(queries, tmp_path) == ""


def test_every_command_exists() -> None:
    """With its options."""
    lines = [line for block in fenced("sh") for line in block.splitlines() if line.startswith("millpond ")]
    used = {
        " ".join(words) for words in (re.findall(r"^millpond ([a-z]+)(?: ([a-z]+))?", line)[0] for line in lines)
    }
    assert {"dlq list", "dlq replay", "tail ", "doctor ", "why "} <= used
    for line in lines:
        command = cli.get_command(click.Context(cli), line.split()[1])
        assert command is not None, line
        if isinstance(command, click.Group):
            command = command.commands[line.split()[2]]
        options = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", line)) <= options, line
    assert set(re.findall(r"`millpond ([a-z]+)", PAGE)) <= set(COMMANDS)
