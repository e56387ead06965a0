"""SIGTERM while steps run that will not stop: the process ends in time all the same, and gives every step back."""

from __future__ import annotations

import time
from pathlib import Path

from tests.common.process import millpond
from tests.common.server import Start

# Plain and in a thread; in asyncio's own threads, or a pool left behind, which the interpreter waits for; deaf to
# being cancelled.
STEPS = """
import asyncio, concurrent.futures, time
from millpond import step

@step("THREAD")
def thread(context):
    time.sleep(60)

@step("TO_THREAD")
async def to_thread(context):
    await asyncio.to_thread(time.sleep, 60)

@step("LEFT_POOL")
def left_pool(context):
    concurrent.futures.ThreadPoolExecutor(1).submit(time.sleep, 60)

@step("STUBBORN")
async def stubborn(context):
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""
TYPES = ("THREAD", "TO_THREAD", "STUBBORN")
END_S = 8.0


def test_steps_that_will_not_stop_are_given_back_in_time(start: Start, tmp_path: Path) -> None:
    """READY again, their attempt not counted, and the store is free for the next server."""
    (tmp_path / "stubborn.py").write_text(STEPS)
    server = start(tmp_path, STEPS="stubborn")
    left = {"runId": "left", "steps": {"a": {"stepType": "LEFT_POOL", "status": "READY"}}}
    assert server.http.post("/api/flow-runs", json=left).status_code == 201
    server.wait_for(lambda line: '"step_succeeded"' in line)
    run = {"runId": "r", "steps": {name: {"stepType": name, "status": "READY"} for name in TYPES}}
    assert server.http.post("/api/flow-runs", json=run).status_code == 201
    for name in TYPES:
        server.wait_for(lambda line, name=name: '"step_claimed"' in line and f'"stepId":"{name}"' in line)
    began = time.monotonic()
    assert server.terminate() == 0
    assert time.monotonic() - began < END_S
    shown = millpond(tmp_path, "flow", "show", "r", "--json", "--store", f"sqlite:{server.store}")
    steps = shown.json["data"]["steps"]
    ended = {name: (found["status"], found["claim"]["attempt"]) for name, found in steps.items()}
    assert ended == dict.fromkeys(TYPES, ("READY", 0))
    again = start(tmp_path)
    assert again.get("/ready").status == 200
