"""Runs the demo beside a service: the feed, a flow run every 45 seconds, the check, and its status line.

Changes documents only through the service. Called by `demo`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Container
from pathlib import Path
from typing import Any

import click

from millpond.cli.demo_feed import Feed
from millpond.cli.push_bodies import now_us
from millpond.core.errors import MillpondError
from millpond.demo.scene import symbols
from millpond.reprocess.fold import open_scratch
from millpond.reprocess.verify import Verifier
from millpond.service.service import Service

_CHECK_EVERY_S = 1.0
_ALL_EVERY_S = 10.0
# On a terminal the line is rewritten; elsewhere each is a line of its own.
_LINE_EVERY_S = 5.0
_RUN_EVERY_S = 45.0
_FIRST_RUN_S = 3.0


class Show:
    def __init__(self, *, seed: int, rate: float) -> None:
        self._seed = seed
        self._rate = rate
        self._different: set[str] = set()
        self._line = ""

    @property
    def different(self) -> int:
        """How many documents differ from the fold of the log."""
        return len(self._different)

    async def run(self, service: Service, url: str) -> None:
        """Run until cancelled. The last status line stays as the result."""
        for line in commands_to_try(url):
            click.echo(line)
        feed = Feed(url, self._seed, self._rate)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(feed.run())
                group.create_task(self._submit_runs(service))
                group.create_task(self._check(service, feed))
        finally:
            await feed.close()
            if self._line:
                click.echo(self._line if not sys.stdout.isatty() else "")

    async def _check(self, service: Service, feed: Feed) -> None:
        """Fold the log: compare the documents of new entries every second, and all documents from time to time."""
        loop = asyncio.get_running_loop()
        all_at = line_at = 0.0
        async with _begun(service) as verifier:
            while True:
                began = loop.time()
                if began >= all_at:
                    self._different = {found.doc for found in (await verifier.check()).listed}
                    # Comparing all documents takes at most a twentieth of the time, however many there are.
                    all_at = loop.time() + max(_ALL_EVERY_S, 20 * (loop.time() - began))
                else:
                    self._different |= {found.doc for found in (await verifier.check_touched()).listed}
                self._print(feed, new_line=began >= line_at)
                if began >= line_at:
                    line_at = began + _LINE_EVERY_S
                await asyncio.sleep(_CHECK_EVERY_S)

    def _print(self, feed: Feed, *, new_line: bool) -> None:
        self._line = (
            f"{feed.delivered:,} delivered, {feed.duplicates:,} duplicates, {feed.out_of_order:,} out of order, "
            f"{feed.outcomes['poison']:,} poison, {self.different} documents different from the fold (checked live)"
        )
        if sys.stdout.isatty():
            click.echo(f"\r\x1b[K{self._line}", nl=False)
        elif new_line:
            click.echo(self._line)

    async def _submit_runs(self, service: Service) -> None:
        await asyncio.sleep(_FIRST_RUN_S)
        for number in range(1, 1_000_000):
            with contextlib.suppress(MillpondError):
                # A run that could not be stored is skipped: the next one follows.
                await service.flow.submit(_flow_run(number, now_us(), service.flow.steps))
            await asyncio.sleep(_RUN_EVERY_S)


def commands_to_try(url: str) -> list[str]:
    """Lines with commands to paste into another shell. They name the server: its store is the demo's own."""
    command = own_command()
    tick = """--topic market-ticks --data '{"symbol": "SPY", "price": 512.3}'"""
    return [
        f"Dashboard: {url}/",
        f"Documents: {command} ls --url {url}",
        f"Publish:   {command} publish --url {url} {tick}",
    ]


def own_command() -> str:
    """How a shell in this folder starts the command that is running: its environment may not be active there."""
    if shutil.which("millpond"):
        return "millpond"
    started = Path(sys.argv[0])
    return shlex.quote(str(started)) if started.name == "millpond" else f"{shlex.quote(sys.executable)} -m millpond"


@contextlib.asynccontextmanager
async def _begun(service: Service) -> AsyncIterator[Verifier]:
    engine = service.engine
    async with open_scratch() as scratch:
        yield await Verifier.begin(service.store, engine.router, engine.rules.receipts, scratch, engine.wall_clock)


def _flow_run(number: int, now: int, types: Container[str]) -> dict[str, Any]:
    """A run with an import, two parallel checks, and charts of one symbol if the chart step is loaded."""
    symbol = symbols()[number % len(symbols())]
    steps = {
        "1-import": _step("DEMO_IMPORT", {"seconds": 2.5}),
        "2-check-prices": _step("DEMO_CHECK", {"seconds": 4}, "1-import"),
        "2-check-volume": _step("DEMO_CHECK", {"seconds": 6}, "1-import"),
    }
    if "CHART_EXPORT" in types:
        charts = {"minImages": 1, "requests": [{"timeframe": "1m"}, {"timeframe": "5m"}]}
        steps["3-charts"] = _step("CHART_EXPORT", charts, "2-check-prices", "2-check-volume")
    run_id = f"demo-{now // 1_000_000}-{number}"
    return {"runId": run_id, "flowKey": "demo-charts", "scope": {"symbol": symbol}, "steps": steps}


def _step(step_type: str, inputs: dict[str, Any], *after: str) -> dict[str, Any]:
    return {"stepType": step_type, "status": "READY", "dependsOn": list(after), "inputs": inputs}
