"""What the test of several instances measured, printed where everybody sees it."""

from __future__ import annotations

import pytest

FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def figures(pytestconfig: pytest.Config) -> list[str]:
    """Lines for the end of the run."""
    return pytestconfig.stash.setdefault(FIGURES, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash.get(FIGURES, [])
    if lines:
        terminalreporter.section("several instances")
        for line in lines:
            terminalreporter.write_line(line)
