"""Bugs in code that the simulation does not run: the tests that the patch names must fail with it, pass without it.

Only a failed test has caught a bug. An error before the test (a failed import, a server that does not start, a
fixture) does not count, and neither does a skipped test. Called by `run.py`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

from proof.mutants.planted import ROOT, Bug, Verdict, environment

TESTS = "tests"
_TIMEOUT_S = 120
# Time for pytest to stop the servers it started, after SIGTERM.
_ENDING_S = 20
_OPTIONS = ("-x", "-q", "-rfE", "--no-header", "--tb=no", "-p", "no:cacheprovider")
# Exit codes of pytest.
_PASSED, _TESTS_FAILED = 0, 1
_FAILED = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)


class Run(NamedTuple):
    """How a run of pytest ended; `status` is None if it did not end in time."""

    status: int | None
    output: str

    @property
    def failed(self) -> str | None:
        """The first test that failed."""
        found = _FAILED.search(self.output)
        return found[1] if found is not None and self.status == _TESTS_FAILED else None

    @property
    def summary(self) -> str:
        """In pytest's own words."""
        if self.status is None:
            return f"no result after {_TIMEOUT_S} s"
        lines = self.output.strip().splitlines()
        return f"pytest ended with {self.status}: {lines[-1] if lines else 'no output'}"


class Suites:
    """Which of the named tests pass on the source as it is. Each is run once, however many bugs it must catch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: dict[tuple[str, ...], Future[str]] = {}

    def try_bug(self, bug: Bug, source: Path) -> Verdict:
        fault = self._fault(bug.tests)
        if fault:
            return _missed(bug, f"without the bug {fault}")
        done = run_tests(bug.tests, source)
        if done.failed is None:
            return _missed(bug, "NOT CAUGHT" if done.status == _PASSED else done.summary)
        command = " ".join(["pytest", *(f"'{test}'" for test in bug.tests)])
        return Verdict(bug.name, bug.text, TESTS, caught=True, checker=done.failed, command=command)

    def _fault(self, tests: tuple[str, ...]) -> str:
        """Why these tests can catch nothing; empty if they can."""
        with self._lock:
            known = self._faults.get(tests)
            if known is None:
                asked = self._faults[tests] = Future()
        if known is not None:
            return known.result()
        try:
            asked.set_result(_fault_of(run_tests(tests, ROOT / "src")))
        except BaseException as error:
            asked.set_exception(error)
            raise
        return asked.result()


def run_tests(tests: tuple[str, ...], source: Path) -> Run:
    command = [sys.executable, "-m", "pytest", *_OPTIONS, *tests]
    # Importing the plugins of other tests, such as schemathesis, takes longer than most of these tests.
    env = {**environment(source), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        try:
            output, _ = running.communicate(timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.kill(running.pid, signal.SIGINT)
            try:
                output, _ = running.communicate(timeout=_ENDING_S)
            except subprocess.TimeoutExpired:
                running.kill()
                output, _ = running.communicate()
            return Run(None, output)
    return Run(running.returncode, output)


def _fault_of(done: Run) -> str:
    if done.status != _PASSED:
        return f"they fail, too: {done.failed or done.summary}"
    return f"not all of them run: {done.summary}" if " skipped" in done.summary else ""


def _missed(bug: Bug, why: str) -> Verdict:
    return Verdict(bug.name, bug.text, TESTS, caught=False, checker=why)
