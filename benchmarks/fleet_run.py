"""One run of the fleet benchmark: measure, print, and (a complete run only) write its part of docs/scaling.md.

Exit codes: 0 every target met, 1 a target missed, 2 it could not be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import fleet_processes, fleet_report, machine
from benchmarks.cloud_results import QUICK
from benchmarks.cloud_run import describe, emulated, run_folder, versions
from benchmarks.cloud_setting import Cloud
from benchmarks.delay_relay import delaying
from benchmarks.fleet_messages import Keys, Load
from benchmarks.fleet_results import FleetResults, FleetRun, cases
from benchmarks.fleet_virtual import VirtualFleet
from benchmarks.processes import BenchError
from benchmarks.setting import say
from tests.common.firestore_proxy import running_proxy

_ROUND_TRIP_S = 0.04
_VIRTUAL_INSTANCES = (1, 2, 3, 5, 10, 30, 100)
_VIRTUAL_COUNT = 10_000
_OPEN_RATE_VIRTUAL = 1_500.0


class _Sizes(NamedTuple):
    rounds: int
    messages: int
    lead: int
    warm_up: int
    # The share of the virtual runs' messages.
    virtual: float


_FULL = _Sizes(3, 8_000, 3_000, 2_000, 0.6)
_QUICK = _Sizes(1, 600, 200, 200, 0.05)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="fleet.py", description="Measure several instances on one Firestore.")
    parser.add_argument(
        "--quick", action="store_true", help="a short run that shows the harness works; prints only"
    )
    parser.add_argument("--virtual", action="store_true", help="only the part in virtual time; prints only")
    options = parser.parse_args(arguments)
    # SIGTERM raises here, so that every started process is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sizes = _QUICK if options.quick else _FULL
    try:
        if options.virtual:
            say(fleet_report.virtual_table(list(_virtual(sizes))))
            return 0
        results = _measure(sizes)
    except BenchError as error:
        print(f"bench-fleet: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    say(fleet_report.terminal(results))
    if options.quick:
        say("A shortened run: docs/scaling.md is left as it is.")
    else:
        fleet_report.write(results)
        say("Written: the measured part of docs/scaling.md, and its chart")
    return 0 if all(check.passed for check in results.checks()) else 1


def _measure(sizes: _Sizes) -> FleetResults:
    load_average = os.getloadavg()[0]
    with run_folder("fleet") as folder:
        timed = _time(folder, sizes)
        counted = _count(folder, sizes)
        described = describe(folder)
    say("In virtual time")
    return FleetResults(
        date=machine.now(),
        machine=described,
        versions=versions(),
        load_average=load_average,
        timed=timed,
        counted=counted,
        virtual=list(_virtual(sizes)),
    )


def _time(folder: Path, sizes: _Sizes) -> dict[str, list[FleetRun]]:
    timed: dict[str, list[FleetRun]] = {}
    with _warm_emulator(folder, sizes) as (cloud, firestore), delaying(firestore, _ROUND_TRIP_S) as relay:
        for number in range(1, sizes.rounds + 1):
            for name, load in cases(sizes.messages, sizes.lead).items():
                run = fleet_processes.run(cloud, relay, load)
                timed.setdefault(name, []).append(run)
                say(f"  round {number}  {name:18} " + fleet_report.line(run))
    return timed


def _count(folder: Path, sizes: _Sizes) -> dict[str, FleetRun]:
    """On another emulator: one that has held the documents of forty runs stops for seconds to collect garbage."""
    counted: dict[str, FleetRun] = {}
    with (
        _warm_emulator(folder, sizes) as (cloud, firestore),
        running_proxy(firestore, _ROUND_TRIP_S) as proxy,
    ):
        say("The same loads, counted at a proxy")
        for name, load in cases(sizes.messages, sizes.lead).items():
            counted[name] = fleet_processes.run(cloud, proxy.address, load, proxy)
            say(f"  {name:18} " + fleet_report.line(counted[name]))
    return counted


@contextlib.contextmanager
def _warm_emulator(folder: Path, sizes: _Sizes) -> Iterator[tuple[Cloud, str]]:
    with emulated("firestore", folder) as firestore:
        # It has no use for Pub/Sub and for the sizes of the cloud benchmark.
        cloud = Cloud(folder, firestore, "", QUICK)
        say("Warming up the emulator with each kind of load")
        for load in cases(sizes.warm_up, 0).values():
            fleet_processes.run(cloud, firestore, load)
        yield cloud, firestore


def _virtual(sizes: _Sizes) -> Iterator[FleetRun]:
    count = round(_VIRTUAL_COUNT * sizes.virtual)
    lead = round(3_000 * sizes.virtual)
    kinds: list[tuple[int, Keys]] = [(2_000, "in turn"), (2_000, "Zipf"), (50, "in turn"), (50, "Zipf")]
    for documents, keys in kinds:
        for instances in _VIRTUAL_INSTANCES:
            load = Load(instances=instances, documents=documents, keys=keys, in_flight=300, lead=lead, count=count)
            yield VirtualFleet(load).run()
    yield VirtualFleet(Load(instances=4, documents=50, rate=_OPEN_RATE_VIRTUAL, count=count)).run()
