"""Runs many seeds on several processes, and sums up their reports. Called by `millpond simulate`."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import msgspec

from millpond.sim.rare_states import RARE
from millpond.sim.world import run_seed
from millpond.sim.world_frame import WorldReport

# Runs the world of a seed. It is sent to other processes.
RunSeed = Callable[[int], WorldReport]
# Seeds that one process runs before it reports.
_CHUNK = 8
# Faults that the world injects. All other counts are consequences.
FAULTS = (
    "crash",
    "stopped in an orderly way",
    "frozen for a while",
    "held up",
    "delivered twice",
    "delivered after its acknowledgement",
    "acknowledgement lost",
    "read failed",
    "list failed",
    "commit failed",
    "commit failed after it was applied",
    "commit reply lost",
    "write refused",
    "access denied",
    "store stalled",
    "store away",
    "document deleted by a person",
    "document from before Millpond",
    "letter replayed amid the faults",
    "letter purged amid the faults",
    "expired document removed",
    "flow event delivered twice",
    "flow event lost",
)


class Summary(msgspec.Struct, kw_only=True):
    """`failures` in the order of their seeds; only the first, unless `keep_going`."""

    start: int
    seeds: int = 0
    messages: int = 0
    simulated_seconds: float = 0.0
    seen: Counter[str] = msgspec.field(default_factory=Counter)
    failures: list[WorldReport] = msgspec.field(default_factory=list)

    def add(self, report: WorldReport) -> None:
        self.seeds += 1
        self.messages += report.messages
        self.simulated_seconds += report.seconds
        self.seen.update(report.seen)
        if report.failure is not None:
            self.failures.append(report)

    @property
    def faults(self) -> dict[str, int]:
        return {name: self.seen[name] for name in FAULTS}

    @property
    def answers(self) -> dict[str, int]:
        """By reason."""
        prefix = "answered "
        found = {name.removeprefix(prefix): n for name, n in self.seen.items() if name.startswith(prefix)}
        return {name: n for name, n in sorted(found.items()) if not name.isdigit()}

    @property
    def rare(self) -> dict[str, int]:
        return {name: self.seen[counted] for name, counted in RARE.items()}

    @property
    def unreached(self) -> list[str]:
        """Rare states that no world reached."""
        return [name for name, count in self.rare.items() if not count]


def run_seeds(
    start: int,
    count: int,
    *,
    jobs: int,
    keep_going: bool = False,
    advance: Callable[[int], None] = lambda _: None,
    run: RunSeed = run_seed,
) -> Summary:
    """Run seeds `start` to `start + count - 1`. Stops at the first failure, unless `keep_going`."""
    summary = Summary(start=start)
    for report in _reports(range(start, start + count), jobs, run):
        summary.add(report)
        advance(1)
        if report.failure is not None and not keep_going:
            break
    return summary


def _reports(seeds: Sequence[int], jobs: int, run: RunSeed) -> Iterator[WorldReport]:
    """Reports in the order of the seeds, whichever process runs them."""
    if jobs == 1:
        yield from map(run, seeds)
        return
    chunks = [seeds[at : at + _CHUNK] for at in range(0, len(seeds), _CHUNK)]
    # Spawned, not forked: the caller may have threads.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"))
    try:
        for reports in pool.map(partial(_run_chunk, run), chunks):
            yield from reports
    finally:
        pool.shutdown(cancel_futures=True)


def _run_chunk(run: RunSeed, seeds: Sequence[int]) -> list[WorldReport]:
    return list(map(run, seeds))
