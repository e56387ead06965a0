"""Firestore away from a real server: not ready, and its page says so, traffic or not, until it is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.event_streams import reading
from tests.common.readiness import store_verdict
from tests.common.relay import Relay, relayed
from tests.common.server import Answer, Server
from tests.common.waiting import eventually

T0 = "2026-01-08T12:00:00Z"
NOTICED_S = 20.0
# An idle service counts its letters every 15 s.
IDLE_NOTICED_S = 40.0
ENVIRONMENT = {
    "STORE": "firestore",
    "ENV": "test",
    "SYSTEM_EVENTS_TOPIC": "system.events",
    "DEFAULT_REGION": "local",
    "FIRESTORE_RETRY_MAX_TOTAL_S": "4",
    "FIRESTORE_RPC_DEADLINE_S": "2",
}


@pytest.fixture
def relay(firestore_emulator: str) -> Iterator[Relay]:
    with relayed(firestore_emulator) as relay:
        yield relay


def serve(folder: Path, project: str, address: str) -> Server:
    return Server(folder, {**ENVIRONMENT, "GCP_PROJECT": project, "FIRESTORE_EMULATOR_HOST": address})


def send(server: Server, name: str) -> Answer:
    return server.send({"service": name, "timestamp": T0}, message_id=name)


def test_firestore_away(tmp_path: Path, project: str, relay: Relay) -> None:
    """While messages come: 503 for each, not ready, and critical on the page; all of it over when it is back."""
    with serve(tmp_path, project, relay.address) as server, reading(server, "/api/live") as page:
        assert send(server, "before").status == 200
        page.find("alerts")
        relay.cut()
        assert send(server, "away").status == 503
        eventually(lambda: store_verdict(page) == "critical", NOTICED_S, "the page does not say so")
        answer = server.get("/ready")
        assert (answer.status, answer.json["reason"]) == (503, "store_failing")
        assert server.get("/live").status == 200
        relay.mend()
        eventually(lambda: server.get("/ready").status == 200, IDLE_NOTICED_S, "it is not ready again")
        eventually(lambda: store_verdict(page) == "ok", NOTICED_S, "the page does not say so")
        assert send(server, "away").status == 200


def test_firestore_away_from_an_idle_server(tmp_path: Path, project: str, relay: Relay) -> None:
    """No message, and no question for its readiness: the page says so all the same."""
    with serve(tmp_path, project, relay.address) as server, reading(server, "/api/live") as page:
        page.find("totals")
        relay.cut()
        eventually(lambda: store_verdict(page) == "critical", IDLE_NOTICED_S, "the page does not say so")
        relay.mend()
        eventually(lambda: store_verdict(page) == "ok", NOTICED_S, "the page does not say so")
