"""What every folder of tests may use: servers, an event loop, and Google's emulators, one of each for a process.

The emulators hold everything by project, so a test that takes a project of its own (`project`) has an empty one.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import signal
import threading
from collections.abc import Iterator

import pytest

from tests.common.emulators import HOW_TO_GET, MISSING, emulator, warm_up_firestore
from tests.common.scheduling import Scheduling, scheduler
from tests.common.server import Server, Start, starting
from tests.common.stores import Run

_numbers = itertools.count(1)


def pytest_configure() -> None:
    """A shell that starts us in the background has SIGINT ignored, and every command a test interrupts with it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs on the event loop of the fixture `run`, or on one of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    run: Run = pyfuncitem.funcargs.get("run", asyncio.run)  # type: ignore[assignment]  # fixtures have no types here
    run(pyfuncitem.obj(**given))
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests measured (`record_property("measured", …)`), and what could not run here."""
    for report in (report for word in ("passed", "failed") for report in terminalreporter.stats.get(word, [])):
        for name, text in report.user_properties:
            if name == "measured":
                terminalreporter.write_line(f"measured: {text}")
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if MISSING in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"skipped {len(skipped)} {HOW_TO_GET}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Scheduling | None:
    """With `-n`: which tests share a process. Each process has emulators of its own, if it needs any."""
    return scheduler(config, log)


@pytest.fixture(scope="session")
def firestore_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The Firestore emulator's host and port."""
    with emulator("firestore", tmp_path_factory.mktemp("firestore")) as address:
        warm_up_firestore(address)
        yield address


@pytest.fixture(scope="session")
def pubsub_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The Pub/Sub emulator's host and port."""
    with emulator("pubsub", tmp_path_factory.mktemp("pubsub")) as address:
        yield address


@pytest.fixture
def project() -> str:
    """A Google Cloud project that no other test uses."""
    return f"project-{next(_numbers)}"


@pytest.fixture
def run() -> Iterator[Run]:
    """Run one coroutine to its end on the test's own event loop."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start servers, each on a store of its own unless `folder` names one; all are killed at the end."""
    with starting(lambda: tmp_path_factory.mktemp("store")) as started:
        yield started


@pytest.fixture(scope="module")
def server(start: Start) -> Server:
    """A server with default settings, shared by a module."""
    return start()
