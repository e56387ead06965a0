"""The build before `source.order`, from this repository's own history, and the file it wrote.

That build ordered bars and signals by their revision, whatever their ids, and had no name for a rule. It is run as
its users ran it; where the history is not there (an archive, a shallow clone), tests that need it say so and skip.
"""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.common.server import Server

COMMIT = "ce3a1773ce65d07f083cd01c54a7072fc9cf7e1f"
ROOT = Path(__file__).parents[2]
# What it wrote with the messages below. Made anew with `make_file`.
FILE = Path(__file__).parent / "earlier-build.db.gz"
# The file's ticks are of January; nothing of it may expire.
SETTINGS = {
    "BARS_ID": "event",
    "SIGNALS_ID": "event",
    "ENV": "prod",
    "DEFAULT_REGION": "eu",
    "SYSTEM_EVENTS_TOPIC": "system.events",
    "TICK_HISTORY_TTL_DAYS": "36500",
    "RECEIPT_TTL_DAYS": "36500",
}
# Topic, the word its ids begin with, and where its documents are.
STREAMS = (
    ("market-bars-1m", "bar", "market_bars_1m"),
    ("trade-signals", "signal", "trade_signals"),
    ("market-ticks", "tick", "market_ticks"),
)


def at(second: int) -> str:
    return f"2026-01-08T12:{second // 60:02d}:{second % 60:02d}Z"


def messages() -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    """Topic, message id, when it was published, and the payload."""
    for topic, word, _ in STREAMS:
        newer = {"symbol": "SPY", "ts": at(60), "close": 2, "note": "newer"}
        yield topic, f"{word}-m1", 120, {"eventId": f"{word}-1", **newer}
        # The earlier build puts a bar back by an older one that was published later.
        yield topic, f"{word}-m2", 120, {"eventId": f"{word}-2", **newer}
        yield topic, f"{word}-m3", 300, {"eventId": f"{word}-2", **newer, "ts": at(0), "note": "older"}
        ahead = {"ts": "2027-01-08T12:00:00Z", "note": "a clock that runs ahead"}
        yield topic, f"{word}-m4", 130, {"eventId": f"{word}-3", **newer, **ahead}
    sequenced = {"eventId": "signal-4", "symbol": "SPY", "ts": at(60), "sequence": 5, "note": "fifth"}
    yield "trade-signals", "signal-m5", 120, sequenced
    said = {"service": "api", "timestamp": at(60), "severity": "INFO", "git_sha": "deadbeef"}
    yield "system.events", "service-m1", 120, said


@contextmanager
def earlier_server(source: Path, folder: Path, environment: dict[str, str]) -> Iterator[Server]:
    """A server of the earlier build, whose `src` is at `source`."""
    with Server(folder, {**SETTINGS, **environment, "PYTHONPATH": str(source)}) as server:
        yield server


def unpack_source(folder: Path) -> Path:
    """The earlier build's `src`, under this folder."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", COMMIT, "src"], capture_output=True, check=False
    )
    if archive.returncode != 0:
        pytest.skip(f"this checkout has no history with commit {COMMIT[:7]}, the earlier build")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def unpack_file(path: Path) -> None:
    path.write_bytes(gzip.decompress(FILE.read_bytes()))


def make_file() -> None:
    """Write FILE anew, with the earlier build."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with earlier_server(unpack_source(folder), folder, {}) as server:
            for topic, message_id, published, payload in messages():
                answer = server.send(payload, message_id=message_id, published=at(published), topic=topic)
                assert answer.status == 200, answer
            server.terminate()
        FILE.write_bytes(gzip.compress((folder / "millpond.db").read_bytes(), mtime=0))
