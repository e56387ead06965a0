"""The tester tested: planted bugs are patches that apply and are caught, and nothing else counts as a catch."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from proof.mutants.by_tests import Suites
from proof.mutants.planted import ROOT, Bug, Verdict, bugs, plant
from proof.mutants.run import try_bug

BUGS = bugs()
BY_TESTS = [bug for bug in BUGS if bug.tests]


def a_bug(folder: Path, *tests: str, change: str = "# harmless", text: str = "A bug.") -> Bug:
    """A bug that adds a line at the end of a module."""
    path = "src/millpond/sim/__init__.py"
    lines = (ROOT / path).read_text().splitlines()
    head = f"{text}\nCaught by: {', '.join(tests)}\n" if tests else f"{text}\n"
    patch = folder / "a-bug.patch"
    patch.write_text(
        f"{head}\n--- a/{path}\n+++ b/{path}\n@@ -{len(lines)} +{len(lines)},2 @@\n {lines[-1]}\n+{change}\n"
    )
    return Bug.read(patch)


def a_test(folder: Path, body: str) -> str:
    path = folder / "test_it.py"
    path.write_text(body)
    return str(path)


def test_there_are_enough_of_both_kinds() -> None:
    assert len(BUGS) - len(BY_TESTS) >= 40
    assert len(BY_TESTS) >= 55


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_planted_bug_applies_and_says_what_it_is(bug: Bug, tmp_path: Path) -> None:
    source = plant(bug, tmp_path)
    changed = subprocess.run(
        ["diff", "-rq", "-x", "__pycache__", str(ROOT / "src"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()

    assert bug.text.endswith(".")
    assert changed
    # Of the product: a bug in the simulation would prove nothing about it.
    assert not [line for line in changed if "/sim/" in line]


@pytest.mark.parametrize("bug", BY_TESTS, ids=[bug.name for bug in BY_TESTS])
def test_a_planted_bug_names_tests_that_exist(bug: Bug) -> None:
    """By function, not by folder: the run must stay short, and the verdict must say which promise was broken."""
    for test in bug.tests:
        path, _, name = test.partition("::")
        function = re.escape(name.partition("[")[0])
        assert re.search(rf"^(async )?def {function}\(", (ROOT / path).read_text(), re.MULTILINE), test


@pytest.mark.parametrize("tests", [(), ("tests/docs/test_links.py",)], ids=["simulation", "tests"])
def test_a_patch_that_no_longer_applies_is_not_caught(tmp_path: Path, tests: tuple[str, ...]) -> None:
    patch = tmp_path / "gone.patch"
    patch.write_text(
        "Gone.\n\n--- a/src/millpond/core/plan.py\n+++ b/src/millpond/core/plan.py\n@@ -1 +1 @@\n-nothing\n+more\n"
    )
    verdict = try_bug(Bug.read(patch)._replace(tests=tests), Suites(), seeds=1)

    assert not verdict.caught
    assert verdict.checker.startswith("gone.patch no longer applies")


# --- by the simulation -------------------------------------------------------------------------------------------


def test_a_bug_that_is_none_is_not_caught(tmp_path: Path) -> None:
    verdict = try_bug(a_bug(tmp_path), Suites(), seeds=3)

    assert not verdict.caught
    assert verdict.checker == "NOT CAUGHT in 3 seeds"


def test_a_failure_shrinks_to_ten_messages_at_most_and_can_be_repeated(tmp_path: Path) -> None:
    (bug,) = bugs(["arrival-order-on-ties"])
    verdict = try_bug(bug, Suites(), seeds=200, shrink=True)
    source = plant(bug, tmp_path)
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


# --- by tests ----------------------------------------------------------------------------------------------------

PLANTED = "planted = True"
LOOKS = """
from millpond import sim

def test_it():
    assert not hasattr(sim, 'planted')
"""
LOOKS_TOO_EARLY = f"""
from millpond import sim
assert not hasattr(sim, 'planted')
{LOOKS}
"""
FIXTURE = """
import pytest
from millpond import sim

@pytest.fixture
def server():
    assert not hasattr(sim, 'planted')

def test_it(server):
    pass
"""
NEVER_PASSED = "def test_it():\n    assert False\n"
SKIPPED = "import pytest\n\ndef test_it():\n    pytest.skip('no')\n"


def tried(folder: Path, test: str, change: str = PLANTED) -> Verdict:
    return try_bug(a_bug(folder, a_test(folder, test), change=change), Suites())


def test_a_test_that_fails_has_caught_it(tmp_path: Path) -> None:
    verdict = tried(tmp_path, LOOKS)

    assert verdict.caught
    assert verdict.checker.endswith("test_it.py::test_it")


@pytest.mark.parametrize(
    ("test", "change", "why"),
    [
        (LOOKS, "# harmless", "NOT CAUGHT"),
        (LOOKS, "import nothing_of_that_name", "pytest ended with 2"),
        (LOOKS_TOO_EARLY, PLANTED, "pytest ended with 2"),
        (FIXTURE, PLANTED, "pytest ended with 1"),
        (NEVER_PASSED, PLANTED, "without the bug they fail, too"),
        (SKIPPED, PLANTED, "without the bug not all of them run"),
        ("", PLANTED, "without the bug they fail, too"),
    ],
    ids=["no bug", "no module", "no collection", "no fixture", "never passed", "skipped", "no test"],
)
def test_nothing_else_has_caught_it(tmp_path: Path, test: str, change: str, why: str) -> None:
    """What fails before the test, fails without the bug, or did not run, says nothing about the bug."""
    verdict = tried(tmp_path, test, change)

    assert not verdict.caught
    assert verdict.checker.startswith(why), verdict.checker


def test_servers_that_tests_start_have_the_bug() -> None:
    """They are processes of their own, and inherit which source to run."""
    (bug,) = bugs(["page-without-policy"])
    verdict = try_bug(bug, Suites())

    assert bug.tests[0].startswith("tests/acceptance/")
    assert verdict.caught, verdict.checker


def test_a_suite_is_run_once_without_bugs(tmp_path: Path) -> None:
    """However many bugs it must catch."""
    counted = tmp_path / "runs"
    test = f"from pathlib import Path\n{LOOKS}    with Path({str(counted)!r}).open('a') as runs: runs.write('x')\n"
    bug = a_bug(tmp_path, a_test(tmp_path, test), change=PLANTED)
    suites = Suites()

    assert [try_bug(bug, suites).caught for _ in range(3)] == [True] * 3
    assert counted.read_text() == "x"
