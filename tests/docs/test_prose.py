"""The words of source and tests, where no linter has a rule for them: actors are named, and rules are stated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "proof", "benchmarks", "examples")
TEXTS = {".py", ".js", ".json", ".html", ".css"}
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in TEXTS)
# A topic that the simulation draws, where another name would draw another world; and this file.
DATA = {"src/millpond/sim/facts.py", "tests/docs/test_prose.py"}
_ACTORS = re.compile(r"\b(?:nobody|somebody|whoever|anybody|everybody)\b", re.IGNORECASE)
_NUMBERS = re.compile(r"\bspecification 0\d\d\b|\b00[0-9](?='s\b| says\b)", re.IGNORECASE)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def faults_of(text: str) -> list[str]:
    return [
        f"line {number}: {found[0]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for pattern in (_ACTORS, _NUMBERS)
        for found in pattern.finditer(line)
    ]


@pytest.mark.parametrize("path", [path for path in FILES if name_of(path) not in DATA], ids=name_of)
def test_a_text_names_its_actors_and_rules(path: Path) -> None:
    """A sentence names the engine, the client or the operator, and states a rule instead of its number."""
    assert faults_of(path.read_text(encoding="utf-8")) == []


def test_each_fault_is_noticed() -> None:
    """Each word and each form of a number, in any case, once per place; other numbers are fine."""
    text = (
        "Nobody waits.\nfor whoever asks, and anybody\nas Specification 004 has it\n004 says 10, 002's order\n0.004"
    )
    assert faults_of(text) == [
        "line 1: Nobody",
        "line 2: whoever",
        "line 2: anybody",
        "line 3: Specification 004",
        "line 4: 004",
        "line 4: 002",
    ]


def test_files_are_found() -> None:
    """The search looks at code, pages and data."""
    wanted = {"src/millpond/core/plan.py", "src/millpond/alerts/alerts.json", "tests/core/test_plan.py"}
    assert wanted <= {name_of(path) for path in FILES}
