"""`millpond demo`: alive within two seconds, honest about what it checks, and level when it is over."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import httpx
import msgspec
import pytest

from tests.cli.shell import Shell

LINE = re.compile(
    r"([\d,]+) delivered, ([\d,]+) duplicates, ([\d,]+) out of order, ([\d,]+) poison, "
    r"(\d+) documents different from the fold \(checked live\)"
)


class Demo:
    def __init__(self, shell: Shell, *arguments: str) -> None:
        self._out = shell.folder / "demo.out"
        with self._out.open("wb") as out:
            self.process = shell.start(
                *("demo", "--port", "0", "--rate", "80", *arguments), stdout=out, stderr=subprocess.STDOUT
            )
        self.url = str(self.until(lambda: re.search(r" serves (\S+) ", self.shown), 20)[1])

    @property
    def shown(self) -> str:
        return self._out.read_text()

    @property
    def lines(self) -> list[list[int]]:
        return [[int(n.replace(",", "")) for n in found.groups()] for found in LINE.finditer(self.shown)]

    def until(self, look: Callable[[], Any], within_s: float) -> Any:
        give_up_at = time.monotonic() + within_s
        while not (found := look()):
            assert time.monotonic() < give_up_at, self.shown
            assert self.process.poll() is None, self.shown
            time.sleep(0.05)
        return found

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=10)


def collections(url: str) -> dict[str, int]:
    answer = httpx.get(f"{url}/api/collections").json()
    return {found["collection"]: found["docs"] for found in answer["collections"]}


@pytest.mark.parametrize("store", ["sqlite", "memory"])
def test_the_demo_is_alive_at_once_and_level_at_the_end(shell: Shell, store: str) -> None:
    """Every read model has documents, mishaps happen, the fold agrees while it runs, and `verify` afterwards."""
    demo = Demo(shell, *(["--store", "memory"] if store == "memory" else []))
    alive = {"ops_services", "ingest_pipelines", "market_ticks_latest", "market_bars_1m", "trade_signals"}
    # Two seconds on a machine that has nothing else to do, and here others run tests.
    demo.until(lambda: alive <= collections(demo.url).keys(), 10)
    demo.until(lambda: "flow_runs" in collections(demo.url), 10)
    outcomes = demo.until(lambda: _all_outcomes(demo.url), 30)
    assert outcomes["applied"] > 100
    demo.until(lambda: len(demo.lines) >= 2, 15)
    assert demo.end() == 0
    delivered, duplicates, out_of_order, poison, different = demo.lines[-1]
    assert delivered > 500
    assert min(duplicates, out_of_order, poison) > 0
    assert different == 0
    if store == "sqlite":
        report = shell.ok("verify", "--json").json
        assert (report["different"], report["notCheckable"]) == (0, 0)
        assert report["documents"] > 300
        assert len(shell.ok("dlq", "list", "--json").json["letters"]) > 0


def test_the_demo_has_a_store_of_its_own(shell: Shell) -> None:
    """Made-up documents are not put among real ones, and the commands it prints work as they are."""
    del shell.environment["STORE"]
    demo = Demo(shell)
    assert f"serves {demo.url} with sqlite:var/demo.db\n" in demo.shown
    demo.until(lambda: "Publish: " in demo.shown, 10)
    demo.until(lambda: "market_ticks_latest" in collections(demo.url), 10)
    printed = dict(line.split(": ", 1) for line in demo.shown.splitlines() if line.startswith(("Doc", "Pub")))
    _, *listing = shlex.split(printed["Documents"])
    assert "market_ticks_latest" in shell.ok(*listing).out
    _, *publish = shlex.split(printed["Publish"])
    assert f"through {demo.url}" in shell.ok(*publish).out
    assert demo.end() == 0
    assert not shell.store.exists()
    assert shell.ok("verify", "--store", "sqlite:var/demo.db", "--json").json["different"] == 0


def _all_outcomes(url: str) -> dict[str, int] | None:
    topics = httpx.get(f"{url}/api/stats").json()["topics"]
    counts: dict[str, int] = {}
    for outcomes in topics.values():
        for outcome, n in outcomes.items():
            counts[outcome] = counts.get(outcome, 0) + n
    wanted = {"applied", "duplicate", "stale_ignored", "poison"}
    return counts if wanted <= counts.keys() else None


def test_a_document_changed_behind_its_back_is_told(shell: Shell) -> None:
    """The check can fail: a bar that no event touches any more is changed in the file, and the line says so."""
    demo = Demo(shell)
    demo.until(lambda: collections(demo.url).get("market_bars_1m", 0) > 200, 10)
    _damage(shell.store)
    demo.until(lambda: any(line[-1] == 1 for line in demo.lines), 30)
    assert demo.end() == 1
    assert shell.run("verify").code == 1


def _damage(store: Path) -> None:
    connection = apsw.Connection(str(store))
    connection.set_busy_timeout(5_000)
    rows: list[Any] = connection.execute(
        "SELECT rowid, body FROM documents WHERE collection = 'market_bars_1m' ORDER BY id LIMIT 1"
    ).fetchall()
    ((row, body),) = rows
    changed = msgspec.msgpack.encode({**msgspec.msgpack.decode(body), "close": 1.0})
    connection.execute("UPDATE documents SET body = ? WHERE rowid = ?", (changed, row))
    connection.close()
