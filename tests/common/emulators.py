"""Google's own emulators, started and ended by the tests, on free ports, each in a process group of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from millpond.core.errors import Unavailable
from millpond.core.model import Put, Ref
from millpond.stores.firestore.store import FirestoreStore
from tests.common.needed import lacking
from tests.common.process import Process, free_port

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
    port = free_port()
    address = f"127.0.0.1:{port}"
    # gcloud leaves its Java child behind if only gcloud is ended: so the group is. It needs its own settings.
    with Process([*_COMMANDS[kind], f"--host-port={address}"], folder, os.environ) as process:
        process.wait_for_port(port, START_S)
        yield address


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
