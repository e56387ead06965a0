"""One run of everything: measure, print, and (a complete run only) write docs/benchmarks.{md,json}.

Exit codes: 0 every target met, 1 a target missed, 2 it could not be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import counted, dashboard, machine, overload, report, sections, throughput, wrk
from benchmarks.messages import Runs
from benchmarks.processes import BenchError, choose_cores
from benchmarks.results import FULL, QUICK, Results
from benchmarks.setting import Bench, say
from tests.common.process import ROOT

# Event times begin this long ago, so that none lies in the future after any number of runs.
_EVENTS_AGO_S = 12 * 3_600


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.py", description="Measure Millpond; docs in benchmarks/README.md.")
    parser.add_argument("--quick", action="store_true", help="a short run; prints only")
    parser.add_argument("--skip-memory", action="store_true", help="without the million messages; prints only")
    options = parser.parse_args(arguments)
    # SIGTERM raises here, so that every started process is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        wrk.find()
        dashboard.find_browser()
        results = _measure(quick=options.quick, skip_memory=options.skip_memory)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    say(report.terminal(results))
    if options.quick or options.skip_memory:
        say("A shortened run: docs/benchmarks.md is left as it is.")
    else:
        sections.write_local(report.page(results), _figures(results))
        say("Written: docs/benchmarks.md, docs/benchmarks.json")
    return 0 if all(check.passed for check in results.checks()) else 1


def _measure(*, quick: bool, skip_memory: bool) -> Results:
    sizes = QUICK if quick else FULL
    cores = choose_cores()
    os.sched_setaffinity(0, {cores.generator})
    with _folder() as folder:
        bench = Bench(folder, cores, sizes, Runs(int(time.time()) - _EVENTS_AGO_S))
        described = machine.describe(folder, cores)
        say(f"Throughput: {sizes.rounds} rounds of {sizes.round_s} s for each of the three servers")
        speed = throughput.measure(bench)
        say(f"Dashboard: {sizes.rounds} rounds of {sizes.round_s} s with it closed, and as many with it open")
        watched = dashboard.measure(bench)
        say(f"Overload: {sizes.crowded_rounds} rounds with more connections than there is room")
        crowded = overload.measure(bench)
        say(f"Exactness: {sizes.exact:,} messages, then the same again")
        exact = counted.exact(bench)
        say("Coalescing: ticks of one symbol")
        coalescing = counted.coalescing(bench)
        memory = None
        if not skip_memory:
            say(f"Memory: {sizes.memory_to:,} messages")
            memory = counted.memory(bench)
    return Results(
        date=machine.now(),
        commands=["make bench"],
        machine=described,
        versions=machine.versions(),
        sizes=sizes,
        throughput=speed,
        watched=watched,
        overload=crowded,
        exact=exact,
        coalescing=coalescing,
        memory=memory,
    )


def _figures(results: Results) -> dict[str, Any]:
    figures: dict[str, Any] = msgspec.to_builtins(results)
    figures["ratio"] = results.throughput.ratio()
    figures["ratio_to_bare"] = results.throughput.ratio("bare")
    figures["watched_ratio"] = results.watched.ratio
    figures["messages_per_commit"] = results.throughput.messages_per_commit
    figures["memory_growth"] = results.memory.growth if results.memory is not None else None
    figures["checks"] = msgspec.to_builtins(results.checks())
    return figures


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Stores live on the disk of the checkout, not in /tmp, which may be memory and make fsync free."""
    folder = ROOT / "var" / f"bench-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
