"""`millpond new`: what it makes, what it refuses, and that it refuses before anything is written."""

from __future__ import annotations

import ast
import json
import re

import pytest

from millpond.scaffold import NAME_CHARS_MAX, Project
from tests.cli.shell import Shell

FILES = [
    ".dockerignore",
    ".gitignore",
    "Dockerfile",
    "README.md",
    "events.jsonl",
    "test_web_shop.py",
    "web_shop.py",
]


def made(shell: Shell) -> list[str]:
    return sorted(path.relative_to(shell.folder).as_posix() for path in shell.folder.rglob("*") if path.is_file())


def test_a_folder_with_a_view_and_all_that_belongs_to_it(shell: Shell) -> None:
    """Its files, no more; names follow from the one given, and the next steps are printed."""
    out = shell.ok("new", "web-shop").out
    assert made(shell) == [f"web-shop/{name}" for name in FILES]
    assert "cd web-shop\n" in out
    assert "millpond test web_shop --events events.jsonl\n" in out
    commands = [line.strip() for line in out.splitlines() if line.startswith("  ")]
    readme = (shell.folder / "web-shop" / "README.md").read_text().splitlines()
    assert [line for line in commands[2:] if line not in readme] == []
    assert commands.count("export VIEWS=web_shop BUILT_IN_VIEWS=none") == 2
    view = (shell.folder / "web-shop" / "web_shop.py").read_text()
    assert "class WebShop(Latest):" in view
    assert 'topics = ("web-shop-events",)' in view
    assert len([line for line in view.splitlines() if line.strip()]) <= 15


def test_the_same_as_json(shell: Shell) -> None:
    """One document, with the names that a script needs next."""
    ran = shell.ok("new", "web-shop", "--json").json
    assert (ran["folder"], ran["module"], ran["topic"]) == ("web-shop", "web_shop", "web-shop-events")
    assert sorted(ran["files"]) == FILES


@pytest.mark.parametrize("name", ["shop", "Web-Shop", "a", "x_1-", "latest", "o" * NAME_CHARS_MAX])
def test_every_name_that_is_taken_makes_whole_files(name: str) -> None:
    """No placeholder is left, the Python compiles, and each sample is a message for the view's topic."""
    project = Project(name)
    files = project.files()
    assert [name for name, text in files.items() if re.search(r"\{\{\w+\}\}", name + text)] == []
    for file in (f"{project.module}.py", f"test_{project.module}.py"):
        ast.parse(files[file])
    samples = [json.loads(line) for line in files["events.jsonl"].splitlines()]
    assert {sample["topic"] for sample in samples} == {project.topic}
    ids = [sample["messageId"] for sample in samples]
    assert len(ids) - len(set(ids)) == 1


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "cannot name a folder"),
        ("9lives", "cannot name a folder"),
        ("a/b", "cannot name a folder"),
        ("..", "cannot name a folder"),
        ("läden", "cannot name a folder"),
        ("two words", "cannot name a folder"),
        ("o" * (NAME_CHARS_MAX + 1), "cannot name a folder"),
        ("class", "a word of Python"),
        ("none", "a word of Python"),
        ("json", "would hide: take another name, for example my-json"),
        ("Test", "would hide: take another name, for example my-test"),
        ("millpond", "would hide"),
        ("msgspec", "would hide"),
        ("conftest", "would hide"),
        ("dead-letters", "a collection of Millpond's own"),
        ("googly", "begin with goog"),
    ],
)
def test_a_name_that_cannot_work_is_refused(shell: Shell, name: str, why: str) -> None:
    """With exit code 2, one line that says what to do, and nothing written."""
    ran = shell.run("new", "--", name)
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err
    assert len(ran.err.splitlines()) == 1
    assert made(shell) == []


def test_what_is_there_is_never_overwritten(shell: Shell) -> None:
    """Neither a file in the folder, nor a file of its name; an empty folder is filled."""
    (shell.folder / "shop").mkdir()
    (shell.folder / "shop" / "notes.txt").write_text("mine")
    (shell.folder / "depot").write_text("mine")
    (shell.folder / "link").symlink_to("elsewhere")
    for name, why in (("shop", "is not empty"), ("depot", "is no folder"), ("link", "is no folder")):
        ran = shell.run("new", name)
        assert (ran.code, ran.out) == (2, "")
        assert why in ran.err
    assert made(shell) == ["depot", "shop/notes.txt"]
    (shell.folder / "empty").mkdir()
    shell.ok("new", "empty")
    assert "empty/empty.py" in made(shell)
