"""A planted bug: a small patch of the product's source in `patches/`, and what must catch it.

    What is wrong with it, in one sentence.
    Caught by: tests/ingress/test_oidc.py::test_a_good_token     (left out: by the simulation)

    --- a/src/millpond/…

A patch is applied to a copy of `src/`, never to the tree itself. A patch that no longer applies fails: a change
that moves the code must also move the bug.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PATCHES = Path(__file__).resolve().parent / "patches"
_CAUGHT_BY = "Caught by: "


class Bug(NamedTuple):
    """`tests` are pytest's names of those that must catch it; empty if the simulation must."""

    name: str
    text: str
    tests: tuple[str, ...]
    patch: Path

    @classmethod
    def read(cls, patch: Path) -> Bug:
        text, second, *_ = patch.read_text(encoding="utf-8").splitlines()
        named = second.removeprefix(_CAUGHT_BY) if second.startswith(_CAUGHT_BY) else ""
        return cls(patch.stem, text, tuple(filter(None, named.split(", "))), patch)


class Verdict(NamedTuple):
    """The result for one bug. `checker` is the promise or the test that caught it, or why it was not caught.

    For the simulation: `seeds` it took, and with --shrink the `messages` of the smallest world that shows it.
    `command` reproduces the failure.
    """

    bug: str
    text: str
    by: str
    caught: bool
    checker: str
    seeds: int | None = None
    messages: int | None = None
    command: str | None = None


def bugs(names: Sequence[str] = ()) -> list[Bug]:
    found = [Bug.read(path) for path in sorted(PATCHES.glob("*.patch"))]
    unknown = set(names) - {bug.name for bug in found}
    if unknown:
        sys.exit(f"there is no planted bug {', '.join(sorted(unknown))}: see {PATCHES.relative_to(ROOT)}")
    return [bug for bug in found if not names or bug.name in names]


def plant(bug: Bug, folder: Path) -> Path:
    """Copy the source and plant the bug. Returns the path to put first in PYTHONPATH. Raises ValueError."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    applied = subprocess.run(
        ["git", "apply", "-p1", str(bug.patch)], cwd=folder, capture_output=True, text=True, check=False
    )
    if applied.returncode:
        raise ValueError(f"{bug.patch.name} no longer applies: {applied.stderr.strip()}")
    return folder / "src"


def environment(source: Path) -> dict[str, str]:
    """The environment of a process that runs this source, as do the processes it starts."""
    return {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
