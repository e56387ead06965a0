"""`make mutants`: each planted bug must be caught, by the simulation or by the tests its patch names."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from millpond.cli.output import Column, print_json, print_line, print_table, progress
from proof.mutants import by_simulation
from proof.mutants.by_simulation import SEEDS_MAX, SIMULATION
from proof.mutants.by_tests import TESTS, Suites
from proof.mutants.planted import Bug, Verdict, bugs, plant

_COLUMNS = (
    Column("planted bug"),
    Column("seeds needed", right=True),
    Column("messages left", right=True),
    Column("checker or test that caught it"),
)


def try_bug(bug: Bug, suites: Suites, *, seeds: int = SEEDS_MAX, shrink: bool = False) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="millpond-mutant-") as folder:
        try:
            source = plant(bug, Path(folder))
        except ValueError as error:
            return Verdict(bug.name, bug.text, TESTS if bug.tests else SIMULATION, caught=False, checker=str(error))
        if bug.tests:
            return suites.try_bug(bug, source)
        return by_simulation.try_bug(bug, source, seeds=seeds, shrink=shrink)


def _try_all(found: Sequence[Bug], args: argparse.Namespace) -> Iterator[Verdict]:
    suites = Suites()
    with ThreadPoolExecutor(args.jobs) as pool:
        yield from pool.map(lambda bug: try_bug(bug, suites, seeds=args.seeds, shrink=args.shrink), found)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.mutants", description=__doc__.partition(":")[2])
    parser.add_argument("bugs", nargs="*", help="names of patches (default: all)")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="seeds in which the simulation must catch one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many bugs at once")
    parser.add_argument("--shrink", action="store_true", help="also find the smallest world that shows each")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    args = parser.parse_args(argv)
    began = time.monotonic()
    # Bugs for tests first: one of them waits for half a minute, while the simulation uses the other cores.
    found = sorted(bugs(args.bugs), key=lambda bug: not bug.tests)
    verdicts: list[Verdict] = []
    with progress("Planted bugs", len(found)) as advance:
        for verdict in _try_all(found, args):
            verdicts.append(verdict)
            advance(1)
    verdicts.sort(key=lambda verdict: (verdict.by, verdict.bug))
    caught = sum(verdict.caught for verdict in verdicts)
    seconds = round(time.monotonic() - began)
    if args.json:
        print_json({"bugs": [v._asdict() for v in verdicts], "caught": caught, "seconds": seconds})
    else:
        print_table(_COLUMNS, [(v.bug, v.seeds, v.messages, v.checker) for v in verdicts])
        print_line(f"{caught} of {len(verdicts)} planted bugs caught in {seconds} s")
    return 0 if caught == len(verdicts) else 1
