"""A real server whose disk is full: not ready, and its page says so; ready again with space, without a message."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.event_streams import reading
from tests.common.readiness import store_verdict
from tests.common.server import Answer, Server
from tests.common.waiting import eventually

T0 = "2026-01-08T12:00:00Z"
NOTICED_S = 12.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, {"FIRESTORE_RETRY_MAX_ATTEMPTS": "2"}) as server:
        assert send(server, "before").status == 200
        yield server


def send(server: Server, name: str) -> Answer:
    # Too large for what the file may still grow.
    return server.send({"service": name, "timestamp": T0, "status": "x" * 100_000}, message_id=name)


def fill(server: Server) -> None:
    """From here on no file of the server may grow, as on a full disk: reads succeed, and every commit fails."""
    size = max(file.stat().st_size for file in server.store.parent.glob("millpond.db*"))
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, hard))


def make_room(server: Server) -> None:
    _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


def test_a_full_disk(server: Server) -> None:
    """`/ready`, `/health` and the page's verdict follow the commits; `/live` does not: a restart would not help."""
    assert server.get("/ready").status == 200
    with reading(server, "/api/live") as page:
        page.find("alerts")
        fill(server)
        assert send(server, "full").status == 503
        eventually(lambda: server.get("/ready").status == 503, NOTICED_S, "it is still ready")
        answer = server.get("/health")
        assert (answer.status, answer.json["status"], answer.json["reason"]) == (
            503,
            "unavailable",
            "store_failing",
        )
        assert server.get("/live").status == 200
        assert server.get("/api/stats").status == 200
        eventually(lambda: store_verdict(page) == "critical", NOTICED_S, "the page does not say so")
        # Without traffic, for a while: reads go on succeeding, and must not make up for it.
        time.sleep(3)
        assert server.get("/ready").status == 503
        make_room(server)
        eventually(lambda: server.get("/ready").status == 200, NOTICED_S, "it is not ready again")
        eventually(lambda: store_verdict(page) == "ok", NOTICED_S, "the page does not say so")
    assert send(server, "full").status == 200
    told = [(line["severity"], line["message"]) for line in server.log_lines if "ready" in line["message"]]
    assert told == [
        ("INFO", "ready"),
        ("ERROR", "the store fails every call: not ready"),
        ("NOTICE", "the store answers again: ready"),
    ]
