"""The public API is a list: pinned, documented name by name, and cheap to import. What is not in it is private."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import millpond

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# A new name is a promise to every user; a name that goes breaks their code.
VIEWS = {
    *("DELETE", "Document", "Event", "InvalidEvent", "Latest", "Merge", "Ref", "Snapshot", "Tally", "View"),
    *("SEQUENCE_LAST", "adopted_stamp", "clamp_event_time", "decode_id", "decode_stamp", "encode_id"),
    *("find_counter", "hash_of", "is_blank", "parse_sequence", "parse_time", "representable", "text_or_none"),
    *("to_datetime", "to_text", "trimmed"),
}
STEPS = {"Documents", "StepContext", "StepFailed", "step"}
EMBEDDING = {
    *("Delivery", "MillpondError", "Outcome", "Overloaded", "Pond", "Result", "Settings", "SettingsError"),
    *("StoreError", "UsageError", "ViewResult", "load_settings"),
}
PRODUCERS = {"shard_of"}
HEAVY = (
    "apsw",
    "asyncio",
    "click",
    "google",
    "matplotlib",
    "prometheus_client",
    "rich",
    "starlette",
    "uvicorn",
    "uvloop",
)


def imported_names(text: str) -> set[str]:
    """What Python code imports from `millpond`, and from modules below it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "millpond":
            names |= {alias.name if node.module == "millpond" else f"{node.module}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names if alias.name.startswith("millpond.")}
    return names


def modules_after(code: str) -> set[str]:
    """The modules that a new interpreter has loaded after `code`."""
    shown = f"{code}\nimport sys\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", shown], capture_output=True, check=True, text=True).stdout.split()
    )


def test_the_public_api_is_pinned() -> None:
    assert set(millpond.__all__) == VIEWS | STEPS | EMBEDDING | PRODUCERS | {"__version__"}
    assert sorted(set(millpond.__all__)) == sorted(millpond.__all__) == sorted(dir(millpond))


@pytest.mark.parametrize("name", millpond.__all__)
def test_a_public_name_is_there(name: str) -> None:
    """Those that are loaded late, too."""
    assert getattr(millpond, name) is not None


def test_a_name_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Ponds'"):
        _ = millpond.Ponds


@pytest.mark.parametrize("name", sorted(VIEWS | STEPS | EMBEDDING | PRODUCERS))
def test_a_public_name_is_documented(name: str) -> None:
    """In code on a page of those who use it: views, steps, embedding or producers."""
    pages = ("views.md", "flow.md", "embedding.md", "pull.md")
    text = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in pages)
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    assert re.search(rf"\b{name}\b", code), f"{name} stands in no code of {pages}"


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.py")), ids=lambda path: path.name)
def test_an_example_imports_public_names_only(path: Path) -> None:
    """What a user copies goes on working. The Functions Framework's target has a module of its own."""
    private = imported_names(path.read_text(encoding="utf-8")) - set(millpond.__all__) - {"millpond.functions"}
    assert private == set()


def test_the_import_is_cheap_and_silent() -> None:
    """A module of views loads neither the engine nor a server, nor does it start anything."""
    loaded = modules_after("import millpond")
    assert [name for name in HEAVY if name in loaded] == []
    assert {name.split(".")[1] for name in loaded if name.startswith("millpond.")} == {"_version", "core", "flow"}


def test_a_pond_loads_no_server_and_no_cloud_library() -> None:
    """A host brings its own server; Google's libraries are for those who name them."""
    loaded = modules_after("from millpond import Pond, Latest\nPond(store='memory')")
    assert {"uvicorn", "uvloop", "google", "matplotlib", "click", "rich"} & loaded == set()
    assert "millpond.pond" in loaded
