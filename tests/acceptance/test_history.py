"""The day that the overview shows: from before a kill, on the next server, and never at the cost of a message."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.common.process import millpond
from tests.common.push import push_body
from tests.common.server import Server, Start
from tests.common.waiting import eventually

# A server that saves its minutes every half second; nothing else differs.
QUICK = (
    sys.executable,
    "-c",
    "import millpond.live.monitor as m; m.SAVE_EVERY_S = 0.5; from millpond.cli import main; main()",
    "serve",
)


def beat(server: Server, number: int) -> None:
    payload = {"service": f"s{number}", "timestamp": "2026-01-08T12:00:00Z"}
    assert server.push(push_body(payload, message_id=f"m-{number}")).status == 200


def history(server: Server) -> Any:
    answer = server.get("/api/history")
    assert answer.status == 200, answer
    return answer.json


def applied(server: Server) -> int:
    return sum(history(server)["outcomes"].get("applied", []))


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, command=QUICK) as server:
        yield server


def test_a_killed_server_leaves_its_minutes(quick: Server, start: Start, tmp_path: Path) -> None:
    """After kill -9 the next server shows what was counted before, and adds to it."""
    for number in range(7):
        beat(quick, number)
    eventually(lambda: stored(quick) == 7, 15, "the minutes were not stored")
    quick.kill()
    server = start(tmp_path)
    before = history(server)
    assert sum(before["outcomes"]["applied"]) == 7
    assert before["views"] == {"ops_services": {"applied": 7}}
    assert [len(before[name]) for name in ("p50", "p99", "commits", "buried")] == [len(before["at"])] * 4
    assert before["at"][-1] % 60 == 0
    beat(server, 7)
    eventually(lambda: applied(server) == 8, 10, "what arrives now is not added")


def stored(server: Server) -> int:
    """How many applied messages the documents in the store have."""
    hours = [doc["data"]["minutes"] for doc in server.get("/api/docs/ops_history").json["docs"]]
    minutes = [minute for hour in hours for minute in json.loads(hour).values()]
    return sum(minute.get("outcomes", {}).get("applied", 0) for minute in minutes)


def test_a_regular_end_leaves_them_too(start: Start, tmp_path: Path) -> None:
    """The last minute before a deployment is not lost, and the end is not later for it."""
    server = start(tmp_path)
    beat(server, 1)
    eventually(lambda: applied(server) == 1, 10, "it was not counted")
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < 3
    assert applied(start(tmp_path)) == 1


def test_commands_leave_no_trace_in_it(tmp_path: Path) -> None:
    """A command that opens the store itself serves nothing, so it has no history."""
    env = {"STORE": f"sqlite:{tmp_path / 'pond.db'}"}
    line = json.dumps(push_body({"symbol": "A"}, topic="market-ticks")).encode()
    millpond(tmp_path, "ingest", "-", env=env, stdin=line)
    listed = millpond(tmp_path, "ls", "--json", env=env).out
    assert "market_ticks_latest" in listed
    assert "ops_history" not in listed


def test_switched_off_nothing_is_stored(start: Start, tmp_path: Path) -> None:
    """HISTORY=off: the day is that of the process, and gone with it."""
    server = start(tmp_path, HISTORY="off")
    beat(server, 1)
    eventually(lambda: applied(server) == 1, 10, "it was not counted")
    assert server.terminate() == 0
    after = start(tmp_path)
    assert applied(after) == 0
    assert "ops_history" not in after.http.get("/api/collections").text
