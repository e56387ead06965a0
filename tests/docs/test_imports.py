"""Imports point inward. The map is the table in docs/architecture.md, from the inside out."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "millpond"
API = "__init__"
# Rooms that may import less than everything further inside.
ONLY = {
    "core": set[str](),
    "settings": {"core"},
    "views": {API},
    "charts": {API},
    "engine": {"core", "concurrency", "telemetry"},
}
# The public API names these and loads them when they are first used: `tests/docs/test_public_api.py` checks that.
LAZY = {(API, "pond")}
# What the pure core may import besides the standard library.
PURE = {"msgspec"}


def rooms() -> list[str]:
    """The rooms of the map, the innermost first."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, table = text.partition("## Where things are")
    return [name.rstrip("/").removesuffix(".py") for name in re.findall(r"^\| \[`([^`]+)`\]", table, re.MULTILINE)]


def imports() -> dict[str, set[str]]:
    """What each module imports, anywhere in it: at its top, in a function, or for types only."""
    names = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in names.items()}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        wanted = found.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                wanted.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
                parts = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted.update(part if part in modules else str(node.module) for part in parts)
    return found


def room_of(module: str) -> str:
    return [*module.split("."), API][1]


IMPORTS = imports()
ROOMS = rooms()


def arrows() -> dict[tuple[str, str], list[str]]:
    """Between rooms: from, to, and the imports that make the arrow."""
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for module, wanted in IMPORTS.items():
        for other in wanted:
            if other.partition(".")[0] == "millpond" and room_of(other) != room_of(module):
                found[room_of(module), room_of(other)].append(f"{module} imports {other}")
    return found


def test_every_module_is_on_the_map() -> None:
    there = {path.stem if path.suffix == ".py" else path.name for path in PACKAGE.iterdir()}
    assert there - {"__pycache__", "py.typed"} == set(ROOMS)
    assert len(ROOMS) == len(set(ROOMS))
    assert {room_of(module) for module in IMPORTS} == set(ROOMS)


def test_no_arrow_points_outward() -> None:
    """So there is no cycle of packages, either: the map is in order."""
    arrows_out = {arrow for arrow in arrows() if ROOMS.index(arrow[1]) >= ROOMS.index(arrow[0])}
    outward = [why for arrow in arrows_out - LAZY for why in arrows()[arrow]]
    assert outward == []
    assert len(arrows()) > 50


@pytest.mark.parametrize("room", ONLY)
def test_a_room_imports_only_what_it_may(room: str) -> None:
    wrong = [why for (here, there), why in arrows().items() if here == room and there not in ONLY[room]]
    assert wrong == []


def test_the_core_is_pure() -> None:
    """It imports itself, the standard library and msgspec, and nothing that waits, draws or reads a clock."""
    core = {module: wanted for module, wanted in IMPORTS.items() if room_of(module) == "core"}
    outside = {name.partition(".")[0] for wanted in core.values() for name in wanted} - {"millpond"}
    assert outside - set(sys.stdlib_module_names) == PURE
    impure = {"asyncio", "io", "os", "random", "secrets", "socket", "subprocess", "threading", "time"}
    assert outside & impure == set()


def test_one_public_class_name_stands_in_one_place() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
    assert len(found) > 200
