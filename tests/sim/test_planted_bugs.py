"""The tester tested: planted bugs are patches that apply, are caught, and shrink to something a person can read."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from proof.mutants import run as mutants

NAMES = [path.stem for path in mutants.patches()]


def test_there_are_enough_of_them() -> None:
    assert len(NAMES) >= 25


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_applies_and_says_what_it_is(name: str, tmp_path: Path) -> None:
    (patch,) = mutants.patches([name])
    source = mutants.planted(patch, tmp_path)
    changed = subprocess.run(
        ["diff", "-rq", "-x", "__pycache__", str(mutants.ROOT / "src"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()

    assert patch.read_text().partition("\n")[0].endswith(".")
    assert changed
    # Of the product: a bug in the simulation would prove nothing about it.
    assert not [line for line in changed if "/sim/" in line]


def test_a_patch_that_no_longer_applies_is_not_caught(tmp_path: Path) -> None:
    patch = tmp_path / "gone.patch"
    patch.write_text(
        "Gone.\n\n--- a/src/millpond/plan.py\n+++ b/src/millpond/plan.py\n@@ -1 +1 @@\n-nothing\n+more\n"
    )
    verdict = mutants.try_bug(patch, seeds=1, shrink=False)

    assert not verdict.caught
    assert verdict.checker.startswith("gone.patch no longer applies")


def test_a_bug_that_is_none_is_not_caught(tmp_path: Path) -> None:
    patch = tmp_path / "harmless.patch"
    readme = "src/millpond/sim/__init__.py"
    line = (mutants.ROOT / readme).read_text().rstrip("\n")
    patch.write_text(f"Harmless.\n\n--- a/{readme}\n+++ b/{readme}\n@@ -1 +1,2 @@\n {line}\n+# harmless\n")
    verdict = mutants.try_bug(patch, seeds=3, shrink=False)

    assert not verdict.caught
    assert verdict.checker == "NOT CAUGHT in 3 seeds"


def test_a_failure_shrinks_to_ten_messages_at_most_and_can_be_repeated(tmp_path: Path) -> None:
    (patch,) = mutants.patches(["arrival-order-on-ties"])
    verdict = mutants.try_bug(patch, seeds=200, shrink=True)
    source = mutants.planted(patch, tmp_path)
    again = subprocess.run(
        [sys.executable, "-m", *shlex.split(str(verdict.command)), "--trace"],
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert verdict.caught
    assert 1 <= (verdict.messages or 99) <= 10
    assert again.returncode == 1
    assert again.stdout.splitlines()[-1].startswith(f"BROKEN {verdict.checker}")
