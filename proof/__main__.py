"""`make proof`: runs the simulated worlds, planted bugs, killed servers, mutated requests and memory attacks.

Each part is a separate command that prints its result as JSON; `report.py` turns it into sentences and figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from millpond.cli.output import Column, print_line, print_table
from proof import report
from proof.report import ROOT, Held

_COLUMNS = (Column("part"), Column("what it came to"), Column("seconds", right=True), Column("held"))


class Part(NamedTuple):
    """One command; `times` multiplies its size, and `summarise` turns its result into a sentence."""

    name: str
    command: Callable[[int], list[str]]
    summarise: Callable[[dict[str, Any]], str]


def _module(name: str, *words: str) -> list[str]:
    return [sys.executable, "-m", name, *words, "--json"]


PARTS = (
    Part(
        "worlds",
        lambda times: _module("millpond", "simulate", "--seeds", str(2_000 * times), "--require-rare"),
        report.summarise_worlds,
    ),
    Part("planted bugs", lambda _: _module("proof.mutants", "--shrink"), report.summarise_bugs),
    Part(
        "killed servers", lambda times: _module("proof.kills", "--kills", str(100 * times)), report.summarise_kills
    ),
    Part(
        "mutated requests",
        lambda times: _module("proof.fuzz", "--requests", str(20_000 * times)),
        report.summarise_requests,
    ),
    Part("memory", lambda times: _module("proof.memory", "--scale", str(times)), report.summarise_memory),
)


def run(part: Part, times: int) -> Held:
    print_line(f"{part.name} …")
    began = time.monotonic()
    done = subprocess.run(part.command(times), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    seconds = round(time.monotonic() - began)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return Held(part.name, f"ended with {done.returncode}, and no result", seconds, held=False, found={})
    held = Held(part.name, part.summarise(found), seconds, held=done.returncode == 0, found=found)
    print_line(f"  {held.text} ({seconds} s)")
    if not held.held:
        print_line(done.stdout)
    return held


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof", description="Everything that proves it, in one run.")
    parser.add_argument("--times", type=int, default=1, help="so many times as much as CI does (make prove: 10)")
    parser.add_argument("--write", action="store_true", help="write the figures into docs/guarantees.md")
    given = parser.parse_args(argv)
    began = time.monotonic()
    results = [run(part, given.times) for part in PARTS]
    print_line()
    print_table(_COLUMNS, [(held.part, held.text, held.seconds, held.held) for held in results])
    print_line(f"{round(time.monotonic() - began)} s in all")
    failed = [held.part for held in results if not held.held]
    if failed:
        print_line(f"FAILED: {', '.join(failed)}")
        return 1
    if given.write:
        report.write(results, given.times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
