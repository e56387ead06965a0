"""The application of docs/embedding.md as a user runs it: under uvicorn, with real requests, restarts, signals."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.common.process import run
from tests.common.push import push_body
from tests.common.waiting import eventually
from tests.pond.host import MOUNT, ExampleHost, stripping_proxy

LYON = {"parcelId": "P7", "depot": "Lyon", "scannedAt": "2026-01-08T12:00:00Z"}
OSLO = {"parcelId": "P7", "depot": "Oslo", "scannedAt": "2026-01-08T11:00:00Z"}
PUSH = f"{MOUNT}/pubsub/push"
START_AND_SHOW_THE_ERROR = """
import asyncio, fastapi_app, millpond
try:
    asyncio.run(fastapi_app.pond.__aenter__())
except millpond.MillpondError as error:
    print(error)
"""


@pytest.fixture(params=["asyncio", "uvloop"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ExampleHost]:
    with ExampleHost(tmp_path, "--loop", request.param) as started:
        yield started


def test_the_application_of_the_page(host: ExampleHost) -> None:
    """A route publishes, a route reads, and everything else is below the mount."""
    http = host.http
    assert http.post("/scans", json=LYON).json() == {"outcome": "applied"}
    assert http.post("/scans", json=OSLO).json() == {"outcome": "stale_ignored"}
    assert http.get("/parcels/P7").json()["depot"] == "Lyon"
    assert http.get("/parcels/P8").json() is None
    body = push_body({"parcelId": "P8", "depot": "Bern"}, topic="parcel-scans", message_id="m-8")
    pushed = http.post(PUSH, json=body)
    assert (pushed.status_code, pushed.json()["views"][0]["doc"]) == (200, "parcels/P8")
    assert http.post(PUSH, json=body).json()["outcome"] == "duplicate"
    docs = http.get(f"{MOUNT}/api/docs/parcels").json()["docs"]
    assert [doc["id"] for doc in docs] == ["P7", "P8"]
    assert http.get(f"{MOUNT}/api/why/m-8").json()["messages"][0]["messageId"] == "m-8"
    assert http.get(f"{MOUNT}/openapi.json").json()["servers"] == [{"url": MOUNT}]
    assert "millpond_messages_total" in http.get(f"{MOUNT}/metrics").text
    assert http.get(f"{MOUNT}/ready").status_code == 200
    assert http.get(MOUNT, follow_redirects=True).url.path == f"{MOUNT}/"
    assert "/scans" in http.get("/openapi.json").json()["paths"]
    assert not any(line.startswith("{") for line in host.output)


def test_a_stream_follows_and_ends_with_the_server(host: ExampleHost) -> None:
    """A page that is open keeps uvicorn from stopping no longer than a moment."""
    with host.http.stream("GET", f"{MOUNT}/api/tail") as tail:
        lines = tail.iter_lines()
        assert next(lines).startswith(":")
        host.http.post("/scans", json=LYON)
        (seen,) = [line for line in _until(lines, "data:") if line.startswith("data:")]
        assert json.loads(seen[5:])["topic"] == "parcel-scans"
        began = time.monotonic()
        host.process.send_signal(signal.SIGTERM)
        assert list(lines) is not None
    assert host.process.wait(timeout=10) == -signal.SIGTERM
    assert time.monotonic() - began < 3
    assert any("Application shutdown complete" in line for line in host.output)


def _until(lines: Iterator[str], start: str) -> Iterator[str]:
    for line in lines:
        yield line
        if line.startswith(start):
            return


def test_a_restart_keeps_the_data(tmp_path: Path) -> None:
    with ExampleHost(tmp_path) as first:
        first.http.post("/scans", json=LYON)
        first.terminate()
    with ExampleHost(tmp_path) as second:
        assert second.http.post("/scans", json=OSLO).json() == {"outcome": "stale_ignored"}
        assert second.http.get("/parcels/P7").json()["depot"] == "Lyon"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path, ending: signal.Signals) -> None:
    """The host ends in the middle of traffic: what a client was told is applied is in the store."""
    acknowledged: list[str] = []
    host = ExampleHost(tmp_path)

    def traffic(sender: int) -> None:
        with httpx.Client(base_url=host.url, trust_env=False) as http, contextlib.suppress(httpx.HTTPError):
            for number in range(100_000):
                name = f"P{sender}-{number}"
                payload = {"parcelId": name, "depot": "Bern"}
                if number % 2:
                    answer = http.post("/scans", json=payload)
                else:
                    answer = http.post(PUSH, json=push_body(payload, topic="parcel-scans", message_id=name))
                if answer.status_code != 200:
                    return
                assert answer.json()["outcome"] == "applied"
                acknowledged.append(name)

    senders = [threading.Thread(target=traffic, args=(number,)) for number in range(4)]
    with host:
        for sender in senders:
            sender.start()
        eventually(lambda: len(acknowledged) > 200)
        host.process.send_signal(ending)
        host.process.wait(timeout=15)
        for sender in senders:
            sender.join(timeout=15)
    with contextlib.closing(sqlite3.connect(tmp_path / "parcels.db")) as store:
        stored = {name for (name,) in store.execute("SELECT id FROM documents WHERE collection = 'parcels'")}
    assert set(acknowledged) - stored == set()


def test_a_second_process_on_the_store_is_refused(tmp_path: Path) -> None:
    """As with several workers: it says why, and what to do; the first one goes on."""
    with ExampleHost(tmp_path) as first:
        refused = run([sys.executable, "-c", START_AND_SHOW_THE_ERROR], tmp_path)
        assert f"parcels.db is in use by process {first.process.pid}" in refused.out
        assert "Run the host with one worker" in refused.out
        assert first.http.post("/scans", json=LYON).json() == {"outcome": "applied"}


def test_uvicorn_says_why_it_does_not_start(tmp_path: Path) -> None:
    """The second of two workers fails at its start, with the error in uvicorn's own log."""
    with ExampleHost(tmp_path), pytest.raises(AssertionError) as failed:
        ExampleHost(tmp_path)
    assert "one process writes to an SQLite store" in str(failed.value)


def test_behind_a_proxy_that_takes_a_part_of_the_path_off(tmp_path: Path) -> None:
    """The server is told the part with --root-path: links and redirects begin with it."""
    with (
        ExampleHost(tmp_path, "--root-path", "/shop") as host,
        stripping_proxy(host.url, "/shop") as url,
        httpx.Client(base_url=url, trust_env=False) as http,
    ):
        assert http.post(PUSH, json=push_body(LYON, topic="parcel-scans")).json()["outcome"] == "applied"
        assert http.get(f"{MOUNT}/openapi.json").json()["servers"] == [{"url": f"/shop{MOUNT}"}]
        assert http.get(f"{MOUNT}/api").json()["endpoints"][1] == f"{url}{MOUNT}/"
        assert http.get(MOUNT, follow_redirects=True).url.path == f"/shop{MOUNT}/"
