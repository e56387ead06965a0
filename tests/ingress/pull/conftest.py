"""The Pub/Sub emulator, and `millpond pull` on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ingress.pull.support import RATE, Pull, PullBroker, Pulling


@pytest.fixture
def broker(pubsub_emulator: str, project: str) -> Iterator[PullBroker]:
    broker = PullBroker(project, pubsub_emulator)
    yield broker
    broker.close()


@pytest.fixture
def pull(tmp_path: Path, broker: PullBroker) -> Iterator[Pull]:
    """Start pullers, all on one store of the test's own; whatever still runs is killed at the end."""
    with contextlib.ExitStack() as running:

        def started(*subscriptions: str, **environment: str) -> Pulling:
            cloud = {"PUBSUB_EMULATOR_HOST": broker.emulator, "GCP_PROJECT": broker.project}
            own = {"PYTHONPATH": str(tmp_path), **cloud, **environment}
            return running.enter_context(Pulling(tmp_path, own, subscriptions))

        yield started


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Rates are measured to be read."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == RATE:
                terminalreporter.write_line(f"{report.nodeid}: {value:,} {RATE}")
