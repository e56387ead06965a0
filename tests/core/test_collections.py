"""Collections that Millpond owns are named in one place, and no view may have one of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from millpond import settings as settings_module
from millpond.core import collections
from millpond.core.collections import OWN, is_own, part_ref, root_of, token_ref
from millpond.core.errors import SettingsError
from millpond.core.model import Ref
from millpond.service.views import load_views

SRC = Path(__file__).parents[2] / "src"
# Also the path of a letter's parts.
NAMED = re.compile(rf"\b({'|'.join(sorted(OWN))})\b|/{collections.LETTER_PARTS}\b")


def spelled(text: str) -> list[str]:
    """Texts in a source that name such a collection. Docstrings may; they are for reading."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in prose
        and NAMED.search(node.value)
    ]


def test_the_names_are_spelled_in_one_place() -> None:
    own = SRC / "millpond/core/collections.py"
    found = {path.relative_to(SRC): spelled(path.read_text(encoding="utf-8")) for path in SRC.rglob("*.py")}
    assert {path: names for path, names in found.items() if names and path != own.relative_to(SRC)} == {}
    assert len(found[own.relative_to(SRC)]) == len(OWN)


def test_the_search_finds_every_way_to_spell_one() -> None:
    source = '"""Of flow_runs."""\nA = "flow_runs"\nB = f"documents/flow_runs/{A}"\nC = f"{A}/parts"\nD = "parts"\n'
    assert spelled(source) == ["flow_runs", "documents/flow_runs/", "/parts"]


@pytest.mark.parametrize("name", sorted(OWN))
def test_no_view_may_write_there(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither into the collection nor below it."""
    for number, collection in enumerate((name, f"{name}/x/y")):
        module = f"taking_{name}_{number}"
        source = (
            "from millpond import Latest\n\nclass Taking(Latest):\n"
            f"    topics = ('t',)\n    collection = {collection!r}\n    key = 'k'\n\n"
            "    def document(self, event):\n        return {}\n"
        )
        (tmp_path / f"{module}.py").write_text(source)
        monkeypatch.syspath_prepend(str(tmp_path))
        with pytest.raises(SettingsError, match=f"writes to {name}, which is taken"):
            load_views(settings_module.load({"STORE": "memory", "VIEWS": module}))


def test_what_is_below_a_collection_belongs_to_its_owner() -> None:
    letter = Ref(collections.LETTERS, "s__1")
    assert part_ref(letter, "a-000").path == "dead_letters/s__1/parts/a-000"
    assert token_ref(letter, "a").path == "dead_letters/s__1/parts/a-token"
    assert root_of(part_ref(letter, "a-000").collection) == collections.LETTERS
    assert is_own(part_ref(letter, "a-000").collection)
    assert not is_own("ops_services")
    assert not is_own("flow_runs_archive/x/flow_runs")
