"""What the test of several instances measured, printed at the end of the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FIGURES = "several instances"


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes lines for the end of the run. They go with the test's report, which may come from another process."""
    return lambda lines: request.node.user_properties.append((FIGURES, lines))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports("passed")
    lines = [value for report in reports for name, value in report.user_properties if name == FIGURES]
    if lines:
        terminalreporter.section(FIGURES)
        for line in lines:
            terminalreporter.write_line(line)
