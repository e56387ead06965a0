"""Bugs in code that the simulation runs: a check must fail within a given number of seeds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from proof.mutants.planted import Bug, Verdict, environment

SIMULATION = "simulation"
SEEDS_MAX = 2_000
_TIMEOUT_S = 600


def try_bug(bug: Bug, source: Path, *, seeds: int, shrink: bool) -> Verdict:
    command = [sys.executable, "-m", "millpond", "simulate", "--json", "--jobs", "1", "--seeds", str(seeds)]
    try:
        done = subprocess.run(
            command if shrink else [*command, "--no-shrink"],
            cwd=source.parent,
            env=environment(source),
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return _missed(bug, f"no result after {_TIMEOUT_S} s")
    try:
        summary: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return _missed(bug, f"the simulation ended with {done.returncode}: {done.stderr[-300:]}")
    if not summary["failures"]:
        return _missed(bug, f"NOT CAUGHT in {summary['seeds']} seeds")
    (failure,) = summary["failures"]
    shrunk = summary["shrunk"] or {}
    return Verdict(
        bug.name,
        bug.text,
        SIMULATION,
        caught=True,
        checker=failure["checker"],
        seeds=summary["seeds"],
        messages=shrunk.get("messages"),
        command=shrunk.get("command"),
    )


def _missed(bug: Bug, why: str) -> Verdict:
    return Verdict(bug.name, bug.text, SIMULATION, caught=False, checker=why)
