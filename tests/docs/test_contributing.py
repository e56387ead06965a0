"""CONTRIBUTING.md describes the tree as it is: its tables, its commands, its paths and its names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from millpond.cli.root import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# `make install`, a build and a running server make them; they are not in the tree.
_MADE = {".venv", "var", "dist"}
_PATH = re.compile(r"(?:\.?[\w-]+/)+[\w.-]*|\.?[\w.-]+\.(?:py|md|toml|lock|json|yaml)\b")
# Python's own, and the ends of settings' names.
_NOT_OURS = {"print", "ValueError", "_S", "_DAYS"}


def listed(page: str, head: str) -> list[str]:
    """The names in the first cells of the table whose head begins with `head`."""
    _, _, table = page.partition(f"\n| {head} |")
    lines = table.partition("\n\n")[0].splitlines()[2:]
    return [name for line in lines for name in re.findall(r"`([^`]+)`", line.split("|")[1])]


def product() -> set[str]:
    """The modules and packages at the top of src/millpond. Git may leave folders without Python files behind."""
    top = ROOT / "src" / "millpond"
    return {path.name for path in top.glob("*.py")} | {path.parent.name for path in top.glob("*/*.py")}


def suites() -> set[str]:
    """The folders below tests, at any depth."""
    top = ROOT / "tests"
    return {path.parent.relative_to(top).as_posix() for path in top.rglob("*.py")} - {"."}


def targets() -> set[str]:
    return {f"make {name}" for name in re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE)}


@lru_cache
def words() -> frozenset[str]:
    """Every name that stands in the code, in the tests, or in the Makefile."""
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py"), ROOT / "Makefile"]
    others = [path for path in files if path != Path(__file__)]
    return frozenset(word for path in others for word in re.findall(r"\w+", path.read_text(encoding="utf-8")))


def faults(page: str) -> list[str]:
    """Commands, paths and names on the page that do not exist."""
    fenced = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in fenced for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL))
    found = []
    for text in [*lines, *spans]:
        found += [text for path in _PATH.findall(text) if not _exists(path)]
        found += [text for target in re.findall(r"^make ([a-z-]+)", text) if f"make {target}" not in targets()]
        found += [text for module in re.findall(r"python -m ([\w.]+)", text) if find_spec(module) is None]
        found += [text for command in re.findall(r"^millpond ([a-z]+)", text) if command not in COMMANDS]
        if re.fullmatch(r"\w[\w.]*", text) and not _PATH.fullmatch(text) and not _known(text):
            found.append(text)
    return found


def _known(name: str) -> bool:
    return all(part in words() | product() | _NOT_OURS for part in name.split("."))


def _exists(path: str) -> bool:
    places = (ROOT, ROOT / "src" / "millpond", ROOT / "tests", ROOT / "src" / "millpond" / "alerts")
    return path.split("/", maxsplit=1)[0] in _MADE or any((place / path).exists() for place in places)


@pytest.mark.parametrize(
    ("head", "there"), [("in `src/millpond`", product), ("in `tests`", suites), ("target", targets)]
)
def test_a_table_lists_what_is_there(head: str, there: Callable[[], set[str]]) -> None:
    """Each package, folder or target once: none is missing, and none is listed that does not exist."""
    assert sorted(listed(PAGE, head)) == sorted(there())


def test_what_the_page_names_exists() -> None:
    """A reader can run every command, open every path and find every name."""
    assert faults(PAGE) == []


def test_a_stale_name_is_noticed() -> None:
    """Of each kind: a path, a target, a module, a subcommand, a name, also inside a block of commands."""
    good = "`make test` `tests/core` `python -m millpond.settings.docs` `millpond verify` `check_together`\n"
    bad = ["make gone", "tests/gone", "python -m millpond.gone", "millpond gone", "settings_parse.gone_now"]
    assert faults(good + " ".join(f"`{text}`" for text in bad)) == bad
    assert faults("```sh\nmake lock   # needs uv\nmake gone   # not there\n```\n") == ["make gone"]


def test_a_row_listed_twice_is_noticed() -> None:
    """The names are compared as a list, so that a second row is not lost in a set."""
    page = "\n| in `tests` | what |\n|---|---|\n| `core` | a |\n| `core`, `cli` | b |\n\n| `gone` | c |\n"
    assert listed(page, "in `tests`") == ["core", "core", "cli"]
