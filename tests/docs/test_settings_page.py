"""docs/settings.md is what the table of settings says, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from millpond.settings import docs as settings_docs
from millpond.settings import parse
from millpond.settings import table as settings_table
from tests.common.process import millpond

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "settings.md"


def test_the_page_is_the_generators_output() -> None:
    """A developer who changes a setting regenerates its page."""
    again = "run: .venv/bin/python -m millpond.settings_docs > docs/settings.md"
    assert PAGE.read_text(encoding="utf-8") == settings_docs.render(), again


def test_the_module_writes_the_page() -> None:
    """The command the page names does what it says, whatever the terminal's encoding."""
    command = [sys.executable, "-m", "millpond.settings.docs"]
    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.decode() == settings_docs.render()


def test_every_setting_has_a_row() -> None:
    """Name, default, what is allowed and meaning stand in one row each."""
    rows = [line for line in settings_docs.render().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [setting.name for setting in settings_table.TABLE]
    assert all(row.replace(r"\|", "").count("|") == 5 for row in rows)


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        (parse.optional, "any text"),
        (parse.whole(1, 9), "a whole number from 1 to 9"),
        (parse.number(0, 1, off=True), "a number from 0 to 1, or off"),
        (parse.one_of("a", "b"), "one of a, b"),
        (parse.text("a name"), "a name"),
    ],
)
def test_what_is_allowed_is_the_parsers_own_word(parser: parse.Parse, text: str) -> None:
    """The page takes it from the refusal, so it cannot differ from the error a user sees."""
    assert settings_docs.allowed(settings_table.Setting("X", "", parser, "")) == text


def test_secrets_are_said_to_be_masked() -> None:
    """A reader must know that `millpond config` does not show them."""
    secrets = [setting.name for setting in settings_table.TABLE if setting.secret]
    assert secrets == ["ADMIN_TOKEN"]
    assert "It masks secrets: `ADMIN_TOKEN`." in settings_docs.render()


def test_the_excerpt_of_config_is_what_it_prints() -> None:
    """The command line's page shows its first lines as they are."""
    marked = "$ millpond config | head -6\n"
    shown = (ROOT / "docs" / "cli.md").read_text().split(marked)[1].split("```")[0].splitlines()
    assert shown == millpond(ROOT, "config").out.splitlines()[:6]
