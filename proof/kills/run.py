"""Kills servers under load, many times, and checks that nothing acknowledged is lost.

    .venv/bin/python -m proof.kills --kills 100 --seed 1

A real `millpond serve` in a process group of its own gets requests on many connections, and SIGKILL at a random
moment; a few get it while they start and recover. The store is checked as the kill left it (`check.py`), and the
next server starts on it. After some kills everything is sent once more, and must change nothing; then a fresh store
begins. Exit status 0 if every promise was kept and nine of ten kills met requests in flight.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import uvloop

from millpond.cli.output import Column, print_json, print_table
from proof.kills.check import CHANGED, LOST, WRONG, Fault, StoreCheck, changes, content_of, surprises
from proof.kills.client import Deliveries, Load
from proof.kills.traffic import Message, Traffic
from proof.progress import show_progress
from tests.common.process import Process
from tests.common.server import SERVE, Server

KILLS_PER_STORE = 25
IN_FLIGHT_SHARE_MIN = 0.9
# The longest load before a kill, and the longest time before a kill during the start.
LOAD_S = 0.5
START_S = 0.4
# The first request must be in flight by then.
BEGIN_S = 30.0
_FAULTS_SHOWN = 20


class Summary(msgspec.Struct):
    """What a run found. `lost`, `wrong` and `changed` count broken promises."""

    kills: int = 0
    in_flight: int = 0
    while_starting: int = 0
    stores: int = 0
    sent: int = 0
    answered: int = 0
    unanswered: int = 0
    resent: int = 0
    lost: int = 0
    wrong: int = 0
    changed: int = 0
    seconds: float = 0.0
    passed: bool = False
    # The path of the store with the faults.
    kept: str | None = None
    faults: list[str] = []


class Run:
    """One run: `kills` kills over as many stores as it takes."""

    def __init__(self, folder: Path, seed: int, kills_per_store: int, in_flight_share_min: float) -> None:
        self._folder = folder
        self._seed = seed
        self._kills_per_store = kills_per_store
        self._in_flight_share_min = in_flight_share_min
        self._random = random.Random(seed)
        self.summary = Summary()

    async def run(self, kills: int, advance: Callable[[int], None]) -> Summary:
        began = time.monotonic()
        summary = self.summary
        while summary.kills < kills and not summary.faults:
            folder = self._folder / f"store-{summary.stores:03d}"
            folder.mkdir()
            store = _Store(folder, Traffic(self._seed, f"k{summary.stores}", _now()), self._random, summary)
            for number in range(min(self._kills_per_store, kills - summary.kills)):
                # While starting: once in the middle of every store's life, and every other store's first server.
                starting = number == self._kills_per_store // 2 or (number == 0 and summary.stores % 2 == 1)
                await (store.kill_while_starting() if starting else store.kill_under_load())
                advance(1)
                if summary.faults:
                    break
            await store.resend()
            summary.stores += 1
            if not summary.faults:
                shutil.rmtree(folder)
        summary.seconds = round(time.monotonic() - began, 1)
        if summary.in_flight < self._in_flight_share_min * summary.kills:
            summary.faults.append(f"only {summary.in_flight} of {summary.kills} kills met requests in flight")
        summary.passed = not summary.faults
        return summary


class _Store:
    """One store and the servers that run on it, one after the other."""

    def __init__(self, folder: Path, traffic: Traffic, chance: random.Random, summary: Summary) -> None:
        self._folder = folder
        self._file = folder / "millpond.db"
        self._traffic = traffic
        self._random = chance
        self._summary = summary
        self._deliveries = Deliveries()
        self._check = StoreCheck(self._deliveries)
        # Faults that were reported already, and that later checks would find again.
        self._known: set[Fault] = set()

    async def kill_under_load(self) -> None:
        with Server(self._folder) as server:
            load = Load(server.port, self._broker(), self._deliveries)
            running = asyncio.create_task(load.run())
            async with asyncio.timeout(BEGIN_S):
                await load.begun.wait()
            await asyncio.sleep(self._random.uniform(0, LOAD_S))
            unanswered = self._deliveries.unanswered
            _kill(server)
            await running
        # In flight and never answered: an answer that was still in the socket's buffer does not count.
        self._note_kill(in_flight=self._deliveries.unanswered > unanswered)

    async def kill_while_starting(self) -> None:
        environment = {"PORT": "0", "STORE": f"sqlite:{self._file}"}
        with Process(SERVE, self._folder, environment) as server:
            await asyncio.sleep(self._random.uniform(0, START_S))
            _kill(server)
        self._summary.while_starting += 1
        self._note_kill(in_flight=False)

    async def resend(self) -> None:
        """Deliver the unacknowledged messages, then all again in random order, which must change nothing."""
        with Server(self._folder) as server:
            await Load(server.port, iter(self._deliveries.unacknowledged), self._deliveries).run()
            self._note(self._check.check(self._file, whole=True))
            before = content_of(self._file)
            again = Deliveries()
            everything = list(self._deliveries.messages.values())
            self._random.shuffle(everything)
            await Load(server.port, iter(everything), again).run()
            self._note(surprises(everything, again))
            self._note(changes(before, content_of(self._file)))
            _kill(server)
        self._note(self._check.check(self._file, whole=True))
        summary = self._summary
        summary.resent += again.sent
        summary.sent += self._deliveries.sent
        summary.answered += self._deliveries.answered
        summary.unanswered += self._deliveries.unanswered

    def _broker(self) -> Iterator[Message]:
        """The next messages: mostly new ones, and redeliveries of acknowledged and unacknowledged ones."""
        waiting = self._deliveries.unacknowledged
        self._random.shuffle(waiting)
        recent: list[Message] = []
        while True:
            kind = self._random.random()
            if kind < 0.2 and waiting:
                message = waiting.pop()
            elif kind < 0.3 and recent:
                message = self._random.choice(recent)
            else:
                message = self._traffic.next_message()
            recent = [*recent[-30:], message]
            yield message

    def _note_kill(self, *, in_flight: bool) -> None:
        self._summary.kills += 1
        self._summary.in_flight += in_flight
        if self._file.exists():
            self._note(self._check.check(self._file))

    def _note(self, faults: list[Fault]) -> None:
        summary = self._summary
        for fault in faults:
            if fault in self._known:
                continue
            self._known.add(fault)
            summary.lost += fault.kind == LOST
            summary.wrong += fault.kind == WRONG
            summary.changed += fault.kind == CHANGED
            summary.faults.append(f"after kill {summary.kills}: {fault.kind}: {fault.text:.300}")


def _kill(server: Process) -> None:
    """End the whole group at once. A server that has already ended by itself is a failure."""
    if server.process.poll() is not None:
        raise RuntimeError("the server ended by itself:\n" + "\n".join(server.output[-20:]))
    server.kill()


def run_kills(
    kills: int,
    seed: int,
    advance: Callable[[int], None] = lambda _: None,
    kills_per_store: int = KILLS_PER_STORE,
    in_flight_share_min: float = IN_FLIGHT_SHARE_MIN,
) -> Summary:
    """Kill this many servers in a new folder. The first faults end the run, and their store is kept."""
    folder = Path(tempfile.mkdtemp(prefix="millpond-kills-"))
    run = Run(folder, seed, kills_per_store, in_flight_share_min)
    summary = uvloop.run(run.run(kills, advance))
    if any(folder.iterdir()):
        summary.kept = str(folder)
    else:
        folder.rmdir()
    return summary


def _now() -> int:
    """Microseconds, at a whole second."""
    return int(time.time()) * 1_000_000


def _print_summary(summary: Summary) -> None:
    rows = [
        ("kills", summary.kills),
        ("with requests in flight", summary.in_flight),
        ("while starting", summary.while_starting),
        ("stores", summary.stores),
        ("messages sent", summary.sent),
        ("answered 200", summary.answered),
        ("unanswered", summary.unanswered),
        ("sent again at the end", summary.resent),
        ("lost", summary.lost),
        ("otherwise wrong", summary.wrong),
        ("changed by re-sending", summary.changed),
        ("seconds", summary.seconds),
    ]
    print_table((Column("what"), Column("number", right=True)), rows)
    for fault in summary.faults[:_FAULTS_SHOWN]:
        print(fault)
    if len(summary.faults) > _FAULTS_SHOWN:
        print(f"and {len(summary.faults) - _FAULTS_SHOWN} more")
    if summary.kept is not None:
        print(f"the store is kept in {summary.kept}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="proof.kills", description="Kill servers under load; nothing may be lost."
    )
    parser.add_argument("--kills", type=int, default=100, help="how many (default 100; thousands are fine)")
    parser.add_argument("--seed", type=int, default=1, help="of messages and moments (default 1)")
    parser.add_argument("--json", action="store_true", help="print the summary as one JSON object")
    options = parser.parse_args()
    with show_progress("kills", options.kills) as advance:
        summary = run_kills(options.kills, options.seed, advance)
    if options.json:
        print_json(summary)
    else:
        _print_summary(summary)
    return 0 if summary.passed else 1
