"""The house style, where no linter has a rule for it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
FILES = sorted(SRC.rglob("*.py"))
LINES_MAX = 350
# One assignment that the build reads; there is nothing to say about it.
_NEEDS_NO_DOCSTRING = {"millpond/_version.py"}
_MAY_PRINT = {"millpond/http/banner.py"}


def name_of(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def faults_of(name: str, text: str) -> list[str]:
    tree = ast.parse(text)
    faults = []
    if len(text.splitlines()) > LINES_MAX:
        faults.append(f"over {LINES_MAX} lines")
    if ast.get_docstring(tree) is None and name not in _NEEDS_NO_DOCSTRING:
        faults.append("no docstring")
    if name not in _MAY_PRINT and not name.startswith("millpond/cli/"):
        faults += [f"print() in line {line}" for line in _prints(tree)]
    faults += [f"{found[0]} left behind" for found in re.finditer(r"\b(TODO|FIXME|XXX)\b", text)]
    return faults


def _prints(tree: ast.AST) -> list[int]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_source_file_is_tidy(path: Path) -> None:
    """Short enough to read, says what it is for, prints nothing, and leaves no notes to self."""
    assert faults_of(name_of(path), path.read_text(encoding="utf-8")) == []


def test_files_are_found() -> None:
    """The search looks at the package."""
    assert {"millpond/core/plan.py", "millpond/cli/root.py", "millpond/http/banner.py"} <= {
        name_of(p) for p in FILES
    }


def test_each_fault_is_noticed() -> None:
    """A file with every fault at once is told all of them; the same prints are fine on the command line."""
    # Put together here, so that a search for such notes does not find this file.
    bad = "x = 1\nprint(x)  # " + "TO" + "DO\n" + "\n" * LINES_MAX
    assert faults_of("millpond/x.py", bad) == [
        f"over {LINES_MAX} lines",
        "no docstring",
        "print() in line 2",
        "TO" + "DO left behind",
    ]
    assert faults_of("millpond/cli/x.py", '"""Says what it is."""\nprint(1)\n') == []
