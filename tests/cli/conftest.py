"""Fixtures of the command-line tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Serve, Shell
from tests.common.flow_runs import write_steps


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.fixture
def serve(shell: Shell) -> Serve:
    """Start servers on the shell's store; all are killed when the test is over."""
    return shell.serve


@pytest.fixture(params=["through the server", "without a server"])
def start(request: pytest.FixtureRequest, serve: Serve) -> Callable[[], object]:
    """Start a server, or not: a command must do the same either way."""
    return serve if request.param == "through the server" else lambda: None


@pytest.fixture
def flow(shell: Shell) -> Shell:
    """A shell in a folder with flow-run steps of its own."""
    shell.environment["STEPS"] = write_steps(shell.folder)
    return shell
