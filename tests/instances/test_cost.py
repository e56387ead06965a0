"""`millpond cost` against what a proxy in front of Firestore saw: two servers, mixed traffic, faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from tests.common.firestore_proxy import (
    AFTER,
    BEFORE,
    COMMIT,
    HANG,
    READ,
    Counts,
    Fault,
    FirestoreProxy,
    running_proxy,
)
from tests.common.process import MILLPOND, Ran, run
from tests.common.push import JSON
from tests.common.server import Server
from tests.instances.broker import Broker
from tests.instances.traffic import Traffic

SEED = 20_261_118
EVENTS = 180
POISON = 6
# The servers look at their counters every two seconds.
STEP_S = 2
ROOT = Path(__file__).parents[2]
PRICES = '{"currency": "EUR", "reads": 1.00, "writes": 1.00, "deletes": 1.00, "storage": 1.00}'
VIEWS = {
    *("ops_services", "ingest_pipelines", "market_ticks_latest", "market_ticks", "market_bars_1m_by_symbol"),
    *("trade_signals", "fills_by_day"),
}


class Pair:
    """Two servers behind one proxy, and the command beside it."""

    def __init__(self, folder: Path, project: str, emulator: str, proxy: FirestoreProxy) -> None:
        self.database = f"projects/{project}/databases/(default)"
        self._folder = folder
        self._proxy = proxy
        self._emulator = emulator
        self._environment = {
            "ENV": "test",
            "SYSTEM_EVENTS_TOPIC": "system.events",
            "DEFAULT_REGION": "local",
            "STORE": "firestore",
            "GCP_PROJECT": project,
            "FIRESTORE_EMULATOR_HOST": proxy.address,
            "VIEWS": "tests.instances.counting",
            "PYTHONPATH": f"{ROOT}",
            "EVENT_LOG": "on",
            "BARS_ID": "nested",
            "FIRESTORE_COLLECTION_PREFIX": "pre.",
            "FIRESTORE_RPC_DEADLINE_S": "1",
        }
        with ThreadPoolExecutor() as starting:
            self.servers = list(starting.map(lambda _: Server(folder, self._environment), range(2)))

    def cost(self, *options: str, **environment: str) -> Ran:
        """The command, around the proxy: what it reads itself is not compared."""
        beside = {**self._environment, "FIRESTORE_EMULATOR_HOST": self._emulator, **environment}
        return run([*MILLPOND, "cost", *options], self._folder, beside)

    def seen(self) -> Counts:
        return self._proxy.counts[self.database]

    def work(self, faults: list[Fault]) -> None:
        """Traffic for every view, poison, a replay, and requests of people; then both end as they should."""
        traffic = Traffic(SEED, time.time_ns() // 1_000, EVENTS)
        deliveries = traffic.deliveries()
        parts = len(faults) + 1
        for part in range(parts):
            asyncio.run(Broker(self.servers, SEED).send(deliveries[part::parts]))
            if part < len(faults):
                self._proxy.faults[self.database] = faults[part]
        for number in range(POISON):
            self.servers[0].send({"nothing": "of use"}, message_id=f"poison-{number}", topic="fills")
        letters = [letter["id"] for letter in self.servers[1].get("/api/letters").json["letters"]]
        assert len(letters) == POISON
        for letter in letters[:2]:
            answer = self.servers[1].http.post(f"/api/letters/{letter}/replay", content=b"{}", headers=JSON)
            # It is as wrong as before.
            assert answer.json()["outcome"] == "poison", answer.text
        purged = self.servers[1].http.request("DELETE", f"/api/letters/{letters[2]}", headers=JSON)
        assert purged.status_code == 200, purged.text
        for path in (
            "/api/collections",
            "/api/docs/market_ticks?limit=10",
            "/api/docs/nowhere",
            "/api/why/poison-1",
        ):
            self.servers[0].get(path)
        time.sleep(STEP_S)

    def end(self) -> None:
        for server in self.servers:
            assert server.terminate() == 0


@pytest.fixture
def pair(firestore_emulator: str, project: str, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        proxy = stack.enter_context(running_proxy(firestore_emulator))
        opened = Pair(tmp_path, project, firestore_emulator, proxy)
        for server in opened.servers:
            stack.callback(server.kill)
        yield opened


def near(counted: int, seen: int) -> bool:
    return abs(counted - seen) <= 0.02 * seen


def total(cost: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = cost["total"]["counted"]
    return found


def test_the_command_counts_what_the_proxy_saw(pair: Pair) -> None:
    """Without faults every read, write and delete is counted, the servers' last write to the store too."""
    pair.work([])
    pair.end()
    seen = pair.seen()
    cost = pair.cost("--json").json
    counted = total(cost)
    assert (counted["reads"], counted["deletes"]) == (seen.billed_reads, seen.deletes)
    assert counted["writes"] + counted["deletes"] == seen.writes
    assert min(seen.billed_reads, seen.writes, seen.deletes) > 0
    assert (cost["unansweredReads"], cost["unansweredWrites"]) == (0, 0)
    _check_rows(cost)
    _check_text(pair)


def _check_rows(cost: dict[str, Any]) -> None:
    """Each view has its own operations and documents; what is stored was counted."""
    rows = {row["name"]: row for row in cost["rows"]}
    assert {name for name, row in rows.items() if row["isView"]} == VIEWS
    for name in (*VIEWS, "receipts", "dead letters", "event log", "history"):
        assert rows[name]["counted"]["writes"] > 0, name
        assert rows[name]["stored"]["documents"] > 0, name
        assert rows[name]["stored"]["bytes"] > rows[name]["stored"]["documents"] * 48, name
    assert rows["market_bars_1m_by_symbol"]["collections"][-1] == "market_bars_1m_by_symbol/*/days/*/minutes"
    assert rows["receipts"]["counted"]["expiring"] == rows["receipts"]["stored"]["documents"]
    assert rows["flow runs"]["counted"]["writes"] == 0
    assert cost["messages"] > EVENTS
    assert 1 <= cost["minutes"] < 60
    assert cost["scale"] == pytest.approx(1_440 / cost["minutes"], rel=1e-4)
    assert cost["total"]["cost"] is None
    assert 0 < cost["readsForThis"] < 500


def _check_text(pair: Pair) -> None:
    """The table has a line for each row; without prices no money, and with them no other prices than those set."""
    plain = pair.cost()
    assert plain.code == 0
    assert "to make 24 hours" in plain.out.splitlines()[0]
    assert "EUR" not in plain.out
    assert "set FIRESTORE_PRICES" in plain.err
    assert "messages a day" in plain.out.splitlines()[-1]
    priced = pair.cost("--json", FIRESTORE_PRICES=PRICES).json
    day, stored = priced["total"]["day"], priced["total"]["stored"]
    operations = (day["reads"] + day["writes"] + day["deletes"] + day["expiring"]) / 100_000
    storage = (stored["bytes"] + stored["indexBytes"]) / 2**30 * 12 / 365
    assert priced["total"]["cost"] == pytest.approx(operations + storage)
    assert priced["total"]["cost"] == pytest.approx(sum(row["cost"] for row in priced["rows"]))
    assert "EUR" in pair.cost(FIRESTORE_PRICES=PRICES).out


def test_faults_do_not_spoil_the_count(pair: Pair) -> None:
    """Aborted commits cost nothing; what was applied without an answer is told beside the figures."""
    faults = [
        Fault(COMMIT, BEFORE, StatusCode.ABORTED, times=3),
        Fault(COMMIT, AFTER, StatusCode.UNAVAILABLE),
        Fault(READ, AFTER, StatusCode.UNAVAILABLE),
        Fault(COMMIT, AFTER, HANG),
    ]
    pair.work(faults)
    pair.end()
    assert [fault.struck for fault in faults] == [3, 1, 1, 1]
    seen = pair.seen()
    cost = pair.cost("--json").json
    counted = total(cost)
    writes = counted["writes"] + counted["deletes"]
    assert cost["unansweredWrites"] > 0
    assert writes <= seen.writes <= writes + cost["unansweredWrites"]
    assert counted["reads"] <= seen.billed_reads <= counted["reads"] + cost["unansweredReads"]
    assert near(counted["reads"], seen.billed_reads)
    assert near(writes, seen.writes)
    assert near(counted["deletes"], seen.deletes)


def test_a_running_server_answers_for_all(pair: Pair) -> None:
    """`--url` has what this server counted until now, and what the other one stored."""
    pair.work([])
    assert pair.servers[1].terminate() == 0
    cost = pair.cost("--json", "--url", pair.servers[0].url).json
    counted = total(cost)
    seen = pair.seen()
    assert near(counted["writes"] + counted["deletes"], seen.writes)
    # Its own reads came after what it counted.
    assert counted["reads"] <= seen.billed_reads <= counted["reads"] + cost["readsForThis"] + 2 * STEP_S
    again = pair.servers[0].get("/api/cost")
    assert again.json == cost
