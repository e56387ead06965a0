"""A store that fails is seen before messages do: a line for each failed try, and not too many."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable
from typing import Any

import pytest

from millpond.core.errors import AccessDenied, Unavailable
from millpond.telemetry.log import FAILED_TRIES_PER_S_MAX, Log
from millpond.telemetry.metrics import Metrics
from tests.common.faulty_store import FaultyStore
from tests.common.pond import service
from tests.common.rig import Bench


def failed_tries(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("reason") == "store_try_failed"]


async def test_each_failed_try_of_a_commit_leaves_a_line_although_no_message_fails() -> None:
    """Which try it was, what the store said, and how many messages wait for it."""
    bench = Bench(FaultyStore(in_flight_max=1))
    bench.store.before = [Unavailable("over quota", "RESOURCE_EXHAUSTED"), Unavailable("away", "UNAVAILABLE")]
    results = await bench.send(*(service(f"m{n}", n, "ok", n) for n in range(5)))
    assert {result.outcome for result in results} == {"applied"}
    lines = failed_tries(bench.lines())
    assert [(line["attempt"], line["error_code"], line["messages_waiting"]) for line in lines] == [
        (1, "RESOURCE_EXHAUSTED", 5),
        (2, "UNAVAILABLE", 5),
    ]
    assert {(line["severity"], line["error_type"], line["lines_left_out"]) for line in lines} == {
        ("WARNING", "Unavailable", 0)
    }
    assert lines[0]["error"] == "over quota"
    assert bench.service.metrics.store_errors["Unavailable"] == 2


async def test_a_failed_read_and_a_call_that_hangs_leave_a_line_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging call is the store's fault as much as one it answers; its own name for it stays inside."""
    bench = Bench(FaultyStore(in_flight_max=1), FIRESTORE_RETRY_MAX_TOTAL_S="0.01")
    read = FaultyStore.read
    faults: list[Exception] = [Unavailable("away", "UNAVAILABLE")]

    async def failing(store: FaultyStore, refs: Any) -> Any:
        if faults:
            raise faults.pop()
        return await read(store, refs)

    monkeypatch.setattr(FaultyStore, "read", failing)
    await bench.send(service("m1", 1, "ok", 1))
    bench.store.gate.clear()
    (hung,) = await bench.send(service("m2", 2, "ok", 2))
    assert (hung.outcome, hung.reason) == ("retry", "store_unavailable")
    assert [(line["error_type"], line["error_code"]) for line in failed_tries(bench.lines())] == [
        ("Unavailable", "UNAVAILABLE"),
        ("Unavailable", "DEADLINE_EXCEEDED"),
    ]


async def test_denied_access_leaves_a_line_of_its_own_kind() -> None:
    """So that the two can be counted apart."""
    bench = Bench(FaultyStore(in_flight_max=1))
    bench.store.before = [AccessDenied("no", "PERMISSION_DENIED")]
    await bench.send(service("m1", 1, "ok", 1))
    assert [line["error_type"] for line in failed_tries(bench.lines())] == ["AccessDenied"]


def test_an_outage_is_no_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten lines a second; the next one says how many were left out."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    output = io.BytesIO()
    log = Log(output, env="dev", metrics=Metrics())
    for _ in range(25):
        log.failed_try(Unavailable("away", "UNAVAILABLE"), 1, 7)
    clock[0] += 1
    log.failed_try(Unavailable("away", "UNAVAILABLE"), 2, 8)
    log.failed_try(Unavailable("away", "UNAVAILABLE"), 3, 9)
    monkeypatch.undo()
    log.close()
    lines = failed_tries(json.loads(line) for line in output.getvalue().splitlines())
    assert [line["lines_left_out"] for line in lines] == [0] * FAILED_TRIES_PER_S_MAX + [15, 0]
