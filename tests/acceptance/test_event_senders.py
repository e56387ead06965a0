"""Who may send events: tokens where they are asked for, and servers that others can reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.flow_events import event, post
from tests.common.eventarc import Sent
from tests.common.issuer import ACCOUNT, AUDIENCE, FORBIDDEN, UNAUTHENTICATED, Issuer, good
from tests.common.process import MILLPOND
from tests.common.server import Server, Start

EVERYWHERE = "0.0.0.0"  # noqa: S104 - that is the point


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture(scope="module")
def guarded(start: Start, issuer: Issuer) -> Server:
    return start(PUSH_AUDIENCE=AUDIENCE, PUSH_SERVICE_ACCOUNT=ACCOUNT, PUSH_CERTS_URL=issuer.url)


@pytest.mark.parametrize(
    ("token", "status", "reason"),
    [
        (None, 401, "push_unauthenticated"),
        (UNAUTHENTICATED["another key under our id"], 401, "push_unauthenticated"),
        (FORBIDDEN["another account"], 403, "push_forbidden"),
        (good, 200, "event_filtered"),
    ],
)
def test_tokens(guarded: Server, token: Any, status: int, reason: str) -> None:
    """Where tokens are asked for, nothing of an event is looked at before its token was found good."""
    headers = {} if token is None else {"authorization": token().decode()}
    answer = post(guarded, event("r", None), **headers)
    assert (answer.status, answer.json["reason"]) == (status, reason)
    assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
    nonsense = post(guarded, Sent({}, b"nonsense"), **headers)
    assert nonsense.status == (400 if status == 200 else status)


def test_two_tokens(guarded: Server) -> None:
    """A proxy in front may have checked the other one."""
    sent = event("r", None)
    headers = [*sent.headers.items(), *[("authorization", good().decode())] * 2]
    assert httpx.post(f"{guarded.url}/events", headers=headers, trust_env=False).status_code == 401


def test_others_can_reach_it(start: Start) -> None:
    """It takes events from every sender only where a setting says that a proxy in front asks for tokens."""
    server = start(HOST=EVERYWHERE, PUSH_UNAUTHENTICATED="allow")
    assert post(server, event("r", None)).status == 200
    assert server.http.post("/api/flow-runs", content=b"{}").status_code == 403


def test_a_puller_that_others_can_reach(tmp_path: Path) -> None:
    """It starts without being asked who may push, and takes no events."""
    environment = {"HOST": EVERYWHERE, "PUBSUB_EMULATOR_HOST": "127.0.0.1:1", "GCP_PROJECT": "p"}
    with Server(tmp_path, environment, (*MILLPOND, "pull", "--subscription", "events")) as server:
        answer = post(server, event("r", None))
        assert (answer.status, answer.json["reason"]) == (403, "push_forbidden")
        assert "PUSH_AUDIENCE" in answer.json["error"]
