"""The Pub/Sub emulator and servers it pushes to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.common.server import Server, Start
from tests.ingress.broker.support import Broker


@pytest.fixture
def broker(pubsub_emulator: str, project: str) -> Iterator[Broker]:
    broker = Broker(project, pubsub_emulator)
    yield broker
    broker.close()


@pytest.fixture
def start(tmp_path: Path, broker: Broker, pubsub_emulator: str) -> Iterator[Start]:
    """Start servers on one store of the test's own, beside the emulator."""
    with contextlib.ExitStack() as running:

        def started(**environment: str) -> Server:
            cloud = {"PUBSUB_EMULATOR_HOST": pubsub_emulator, "GCP_PROJECT": broker.project}
            return running.enter_context(Server(tmp_path, {**cloud, **environment}))

        yield started
