"""The server that is fuzzed, started as a user would, and its store's file, read from outside."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import apsw
import msgspec

from proof.fuzz.messages import prepared_runs
from tests.common.flow_runs import write_steps
from tests.common.server import Server

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
REST_S = 20.0


class Target(Protocol):
    """A fuzz target: a port, the file that holds its state, and its output."""

    port: int
    store: Path

    @property
    def output(self) -> Sequence[str]: ...

    def openapi(self) -> Any: ...

    def is_alive(self) -> bool: ...


class MillpondServer(Server):
    """`millpond serve` with the examples' views and two small steps."""

    def __init__(self, folder: Path) -> None:
        environment = {
            "STEPS": write_steps(folder),
            "VIEWS": "turnstiles,parcels",
            "PYTHONPATH": os.pathsep.join([str(EXAMPLES), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "BARS_MAX_BACKFILL_DAYS": "7",
            # Nothing may expire during the run.
            "TICK_HISTORY_TTL_DAYS": "36500",
            "ARTIFACTS_DIR": str(folder / "artifacts"),
        }
        super().__init__(folder, environment)

    def openapi(self) -> Any:
        return self.get("/openapi.json").json

    def is_alive(self) -> bool:
        return self.process.poll() is None and self.get("/health").status == 200

    def submit_runs(self) -> None:
        """Store the runs that events will be about, and wait until no step of them is running."""
        for run in prepared_runs():
            self.http.post("/api/flow-runs", json=run).raise_for_status()
        until = time.monotonic() + REST_S
        while not self._is_at_rest():
            if time.monotonic() > until:
                raise AssertionError("the runs did not come to rest")
            time.sleep(0.05)

    def _is_at_rest(self) -> bool:
        runs = [document["data"] for document in self.get("/api/docs/flow_runs?limit=1000").json["docs"]]
        return all(run["steps"]["a"]["status"] in {"SUCCEEDED", "FAILED"} for run in runs)


@contextlib.contextmanager
def millpond(folder: Path) -> Iterator[MillpondServer]:
    with MillpondServer(folder) as server:
        server.submit_runs()
        yield server


class State:
    """The store's file, opened read-only on a separate connection."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._connection.set_busy_timeout(5_000)
        self._seen = self._data_version()

    def close(self) -> None:
        self._connection.close()

    def has_changed(self) -> bool:
        """Whether another connection has written to the file since the last call, by SQLite's `data_version`."""
        seen, self._seen = self._seen, self._data_version()
        return seen != self._seen

    def logged(self) -> set[tuple[str, str]]:
        """Message id and topic of every entry of the event log; the store keeps each once."""
        return {(row[0], row[1]) for row in self._connection.execute("SELECT message_id, topic FROM events")}

    def buried(self) -> set[str]:
        """The message ids of all letters."""
        rows = self._connection.execute("SELECT body FROM documents WHERE collection = 'dead_letters'")
        return {msgspec.msgpack.decode(row[0])["messageId"] for row in rows}

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").get)
