"""The pages for newcomers, walked as they would: each block pasted in order, into a shell in an empty folder.

A block of the first terminal runs until the next one of it, which is a restart. What a page shows as output (a
block of text after the commands) must be printed; `…` stands for anything.
"""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.common.process import free_port, run
from tests.common.server import Server

ROOT = Path(__file__).parents[2]
WALKS = ("replace-a-consumer", "on-call", "your-own-events")
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return [Block(*found) for found in _BLOCK.findall(text)]


def is_shown(output: str, shown: str) -> bool:
    """Whether this is what a page shows, line ends aside; `…` is any text."""
    pattern = ".*".join(re.escape(part.strip()) for part in shown.strip().split("…"))
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


class Walker:
    """A newcomer with two terminals in one folder."""

    def __init__(self, folder: Path) -> None:
        commands = folder / "bin"
        commands.mkdir()
        millpond = commands / "millpond"
        millpond.write_text(f'#!/bin/sh\nexec {sys.executable} -m millpond "$@"\n')
        millpond.chmod(0o755)
        self._folder = folder / "empty"
        self._folder.mkdir()
        self._environment = {"PORT": str(free_port()), "PATH": f"{commands}:/usr/bin:/bin"}
        self._first_terminal: Server | None = None

    def paste(self, block: Block) -> str:
        """What the second terminal printed, standard error aside."""
        if block.title.startswith("First terminal"):
            self.close()
            command = ["sh", "-c", f"exec {block.text.strip()}"]
            store = {"STORE": "sqlite:var/millpond.db"}
            self._first_terminal = Server(self._folder, {**self._environment, **store}, command)
            return ""
        done = run(["bash", "-e", "-c", block.text], self._folder, self._environment)
        assert done.code == ("exits with 1" in block.title), (block, done)
        return done.out

    def close(self) -> None:
        if self._first_terminal is not None:
            assert self._first_terminal.terminate() == 0
            self._first_terminal = None


@pytest.mark.parametrize("page", WALKS)
def test_a_page_can_be_walked(page: str, tmp_path: Path) -> None:
    """Pasted in order, each block ends as the page says and prints what it shows."""
    steps = blocks(page)
    assert sum(step.language == "text" for step in steps) >= 3
    with contextlib.closing(Walker(tmp_path)) as walker:
        output = ""
        for step in steps:
            if step.language == "text":
                assert is_shown(output, step.text), f"{page} shows:\n{step.text}\nprinted was:\n{output}"
            else:
                assert step.language == "sh"
                output = walker.paste(step)


def test_another_output_is_noticed() -> None:
    """Lines may be left out where the page says so, and nowhere else."""
    assert is_shown("a  b\nc\nd\n", "a … b\n…\nd\n")
    assert not is_shown("a\nb\nc\n", "a\nc\n")
    assert not is_shown("a\nb\n", "a\n…\nc\n")
