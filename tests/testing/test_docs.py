"""docs/testing-views.md: its examples run, its output is what the command prints, and its table has every cause."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from millpond.testing.faults import CAUSES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing-views.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with everything that the page says to copy."""
    for name, text in EXAMPLES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_examples_pass(folder: Path) -> None:
    """The five lines, the poison, the fixture and the strategy, as tests of a user."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert re.search(r"^4 passed", ran.stdout, re.MULTILINE), ran.stdout
    assert len([line for line in EXAMPLES["test_orders.py"].splitlines() if line]) <= 5


def test_the_output_is_what_the_command_prints(folder: Path) -> None:
    ((command, shown),) = re.findall(r"<!-- output: millpond (.*?) -->\n```text\n(.*?)```", PAGE, re.DOTALL)
    millpond = [sys.executable, "-m", "millpond", *command.split()]
    ran = subprocess.run(millpond, cwd=folder, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, shown)


def test_the_table_has_every_cause_and_what_to_do() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE)
    assert rows[1:] == [(cause.word, cause.remedy) for cause in CAUSES]
