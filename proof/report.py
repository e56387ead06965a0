"""Formats the results of the proof: as sentences, and as the figures in `docs/guarantees.md`.

The page holds measured figures only: `python -m proof --write` writes those of its run. Called by `__main__.py`.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from millpond._version import __version__
from proof.mutants.by_simulation import SIMULATION
from proof.mutants.by_tests import TESTS

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "docs" / "proof.json"
PAGE = ROOT / "docs" / "guarantees.md"
BEGIN, END = "<!-- figures -->", "<!-- /figures -->"
_PARTS = "| part | what it came to | took |\n|---|---|---|\n"
_SIMULATED = (
    "| planted bug | what is wrong | seeds | messages left | checker that caught it |\n|---|---|---|---|---|\n"
)
_TESTED = "| planted bug | what is wrong | test that caught it |\n|---|---|---|\n"


class Held(NamedTuple):
    """One part, and whether everything held in it; `found` is its JSON result."""

    part: str
    text: str
    seconds: int
    held: bool
    found: dict[str, Any]


def summarise_worlds(found: dict[str, Any]) -> str:
    rare = found["rare"]
    broken = [f"seed {failure['seed']}: {failure['checker']}" for failure in found["failures"]]
    return ", ".join(
        [
            f"{found['seeds']:,} worlds",
            f"{found['messages']:,} messages",
            f"{sum(found['faults'].values()):,} faults",
            f"{found['conflicts']:,} conflicts",
            f"{found['simulatedSeconds'] / 3_600:,.0f} simulated hours",
            f"{len(rare) - len(found['unreached'])} of {len(rare)} rare states",
            *(broken or ["no promise broken"]),
        ]
    )


def summarise_bugs(found: dict[str, Any]) -> str:
    caught = Counter(bug["by"] for bug in found["bugs"] if bug["caught"])
    most = max((bug["seeds"] or 0 for bug in found["bugs"]), default=0)
    return ", ".join(
        [
            f"{found['caught']} of {len(found['bugs'])} planted bugs caught",
            f"{caught[SIMULATION]} by the simulation (the hardest within {most:,} seeds)",
            f"{caught[TESTS]} by tests",
        ]
    )


def summarise_kills(found: dict[str, Any]) -> str:
    return ", ".join(
        [
            f"{found['kills']:,} kills",
            f"{found['in_flight']:,} with requests in flight",
            f"{found['answered']:,} messages answered 200",
            f"{found['lost']} lost",
            f"{found['wrong']} wrong",
            f"{found['changed']} changed by re-sending everything",
        ]
    )


def summarise_requests(found: dict[str, Any]) -> str:
    return ", ".join(
        [
            f"{found['requests']:,} mutated requests",
            f"{found['rejected']:,} rejected",
            f"{sum(map(len, found['answers'].values()))} documented answers met",
            f"{found['state changes by rejected ones']} changes by rejected ones",
            f"{len(found['faults'])} faults",
        ]
    )


def summarise_memory(found: dict[str, Any]) -> str:
    attacks = found["attacks"]
    failed = [attack["attack"] for attack in attacks if not attack["held"]]
    return ", ".join(
        [
            f"{len(attacks)} attacks",
            f"{sum(attack['times'] for attack in attacks):,} uploads and messages of 10 to 14 MB",
            f"at most {found['peak_mib']:.0f} MiB resident",
            f"{found['growth_mib']:+.0f} MiB afterwards",
            *(f"NOT HELD: {name}" for name in failed),
        ]
    )


def write(results: Sequence[Held], times: int) -> None:
    command = "make proof" if times == 1 else f".venv/bin/python -m proof --times {times}"
    machine = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    )
    date = time.strftime("%Y-%m-%d")
    parts = {held.part: {"seconds": held.seconds, "held": held.held, **held.found} for held in results}
    figures = {"version": __version__, "date": date, "machine": machine, "command": command, "parts": parts}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    tables = [f"`{command}` on {date} ({machine}):", _parts(results), *_bugs(results)]
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    text = "\n\n".join(tables)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def _parts(results: Sequence[Held]) -> str:
    return _PARTS + "\n".join(f"| {held.part} | {held.text} | {held.seconds} s |" for held in results)


def _bugs(results: Sequence[Held]) -> list[str]:
    """One table for each way to catch them."""
    bugs = [bug for held in results for bug in held.found.get("bugs", ())]
    simulated = [
        f"| `{bug['bug']}` | {bug['text']} | {bug['seeds']} | {bug['messages']} | {bug['checker']} |"
        for bug in bugs
        if bug["by"] == SIMULATION
    ]
    tested = [
        f"| `{bug['bug']}` | {bug['text']} | {_linked(bug['checker'])} |" for bug in bugs if bug["by"] == TESTS
    ]
    return [_SIMULATED + "\n".join(simulated), _TESTED + "\n".join(tested)]


def _linked(test: str) -> str:
    """The name of a test as a link to its file, without characters that a table cannot hold."""
    path, _, name = test.partition("::")
    return f"[{name.partition('[')[0]}](../{path})"
