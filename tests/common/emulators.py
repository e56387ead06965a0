"""Google's own emulators, started and ended by the tests, on free ports, each in a process group of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.core.errors import Unavailable
from millpond.core.model import Put, Ref
from millpond.stores.firestore.store import FirestoreStore
from tests.common.needed import lacking

START_S = 60.0
MISSING = "needs Google's emulators"
# Said once, at the end of the run.
HOW_TO_GET = (
    "tests that need Google's emulators: install the Google Cloud CLI and Java, then "
    "`gcloud components install cloud-firestore-emulator pubsub-emulator beta` "
    "(Debian: google-cloud-cli-firestore-emulator, google-cloud-cli-pubsub-emulator)"
)
_COMMANDS = {
    "firestore": ["gcloud", "emulators", "firestore", "start"],
    "pubsub": ["gcloud", "beta", "emulators", "pubsub", "start"],
}


@contextlib.contextmanager
def emulator(kind: str, folder: Path) -> Iterator[str]:
    """`firestore` or `pubsub`, running; its address as the client libraries' environment variables want it."""
    if shutil.which("gcloud") is None or shutil.which("java") is None:
        lacking(HOW_TO_GET, skipped_as=MISSING)
    address = f"127.0.0.1:{free_port()}"
    log = folder / f"{kind}.log"
    with log.open("wb") as output:
        # gcloud leaves its Java child behind when only gcloud is ended: so the group is.
        process = subprocess.Popen(
            [*_COMMANDS[kind], f"--host-port={address}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_up(kind, address, process, log)
        yield address
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def warm_up_firestore(address: str) -> None:
    """The first calls of a Java process that has just begun take longer than a test allows for, or fail."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FIRESTORE_EMULATOR_HOST", address)
        store = FirestoreStore(project="warm-up", deadline_s=START_S, keeps_log=True)

    async def first_calls() -> None:
        until = time.monotonic() + START_S
        while True:
            try:
                (found,) = await store.read([Ref("ponds", "a")])
                await store.commit([Put(found.ref, found.version, {"n": 1})])
                await store.collections()
                break
            except Unavailable:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.2)
        await store.close()

    asyncio.run(first_calls())


def free_port() -> int:
    """A port that stays free until it is used, seconds later.

    Below those the system lends to outgoing connections: other tests make thousands of these at the same time.
    """
    while True:
        # Not the shared generator: properties set its seed.
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _wait_until_up(kind: str, address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, _, port = address.rpartition(":")
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return
        time.sleep(0.1)
    raise AssertionError(f"the {kind} emulator did not start:\n{log.read_text()}")
