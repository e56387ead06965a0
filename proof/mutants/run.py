"""`make mutants`: tests the tester. Each planted bug must be caught by the simulation, and within SEEDS_MAX seeds.

A bug is a small patch of the product's source in `patches/`, whose first line says what is wrong with it. It is
applied to a copy of `src/`, never to the tree itself. One that no longer applies fails: whoever moved the code
moves the bug along.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from millpond.cli.output import Column, print_json, print_line, print_table, progress

ROOT = Path(__file__).resolve().parents[2]
PATCHES = Path(__file__).resolve().parent / "patches"
SEEDS_MAX = 2_000
_TIMEOUT_S = 600
_COLUMNS = (
    Column("planted bug"),
    Column("seeds needed", right=True),
    Column("messages left", right=True),
    Column("checker that caught it"),
)


class Verdict(NamedTuple):
    """`seeds` is None where it was not caught; `messages` where nobody asked for a smaller world."""

    bug: str
    text: str
    seeds: int | None
    checker: str
    messages: int | None
    command: str | None

    @property
    def caught(self) -> bool:
        return self.seeds is not None


def patches(names: Sequence[str] = ()) -> list[Path]:
    found = sorted(PATCHES.glob("*.patch"))
    unknown = set(names) - {path.stem for path in found}
    if unknown:
        sys.exit(f"there is no planted bug {', '.join(sorted(unknown))}: see {PATCHES.relative_to(ROOT)}")
    return [path for path in found if not names or path.stem in names]


def planted(patch: Path, folder: Path) -> Path:
    """A copy of the source with the bug in it; what to put in front of PYTHONPATH."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    applied = subprocess.run(
        ["git", "apply", "-p1", str(patch)], cwd=folder, capture_output=True, text=True, check=False
    )
    if applied.returncode:
        raise ValueError(f"{patch.name} no longer applies: {applied.stderr.strip()}")
    return folder / "src"


def try_bug(patch: Path, *, seeds: int, shrink: bool) -> Verdict:
    text = patch.read_text().partition("\n")[0]
    with tempfile.TemporaryDirectory(prefix="millpond-mutant-") as folder:
        try:
            source = planted(patch, Path(folder))
        except ValueError as error:
            return Verdict(patch.stem, text, None, str(error), None, None)
        command = [sys.executable, "-m", "millpond", "simulate", "--json", "--jobs", "1", "--seeds", str(seeds)]
        try:
            done = subprocess.run(
                command if shrink else [*command, "--no-shrink"],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                check=False,
                timeout=_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            return Verdict(patch.stem, text, None, f"no result after {_TIMEOUT_S} s", None, None)
    return _verdict(patch.stem, text, done)


def _verdict(bug: str, text: str, done: subprocess.CompletedProcess[str]) -> Verdict:
    try:
        summary: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        return Verdict(
            bug, text, None, f"the simulation ended with {done.returncode}: {done.stderr[-300:]}", None, None
        )
    if not summary["failures"]:
        return Verdict(bug, text, None, f"NOT CAUGHT in {summary['seeds']} seeds", None, None)
    (failure,) = summary["failures"]
    shrunk = summary["shrunk"] or {}
    return Verdict(bug, text, summary["seeds"], failure["checker"], shrunk.get("messages"), shrunk.get("command"))


def _try_all(found: Sequence[Path], args: argparse.Namespace) -> Iterator[Verdict]:
    with ThreadPoolExecutor(args.jobs) as pool:
        yield from pool.map(lambda patch: try_bug(patch, seeds=args.seeds, shrink=args.shrink), found)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.mutants", description=__doc__.partition(":")[2])
    parser.add_argument("bugs", nargs="*", help="names of patches (default: all)")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="seeds in which a bug must be caught")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many bugs at once")
    parser.add_argument("--shrink", action="store_true", help="also find the smallest world that shows each")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    args = parser.parse_args(argv)
    began = time.monotonic()
    found = patches(args.bugs)
    verdicts: list[Verdict] = []
    with progress("Planted bugs", len(found)) as advance:
        for verdict in _try_all(found, args):
            verdicts.append(verdict)
            advance(1)
    caught = sum(verdict.caught for verdict in verdicts)
    seconds = round(time.monotonic() - began)
    if args.json:
        print_json({"bugs": [v._asdict() for v in verdicts], "caught": caught, "seconds": seconds})
    else:
        print_table(_COLUMNS, [(v.bug, v.seeds, v.messages, v.checker) for v in verdicts])
        print_line(f"{caught} of {len(verdicts)} planted bugs caught in {seconds} s")
    return 0 if caught == len(verdicts) else 1
