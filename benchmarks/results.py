"""What a run of the benchmark finds: figures, samples, and whether each target was met. Pure data."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from benchmarks.checks import CONNECTIONS, Check
from benchmarks.overload_results import Overload

RATIO_MIN = 0.5
TICKS = 1_000
TICK_WRITES_MAX = 50
MEMORY_GROWTH_MAX = 0.20
# The least share of the throughput while the dashboard is open.
WATCHED_RATIO_MIN = 0.90
# Above this share of its core the generator may be the bottleneck.
GENERATOR_CPU_MAX = 0.90
# Below this share of its core something else limited the empty handler, which would improve the ratio falsely.
EMPTY_SERVER_CPU_MIN = 0.90


class Sizes(msgspec.Struct, frozen=True):
    """How long a run takes."""

    rounds: int
    round_s: int
    warm_up_s: int
    exact: int
    memory_from: int
    memory_to: int
    memory_step: int
    # Rounds with more connections than there is room.
    crowded_rounds: int


FULL = Sizes(9, 6, 3, 20_000, 100_000, 1_000_000, 50_000, 5)
QUICK = Sizes(3, 3, 2, 5_000, 10_000, 60_000, 5_000, 3)


class Round(msgspec.Struct, kw_only=True):
    """One round of wrk against one of the servers. CPU figures are shares of one core."""

    server: Literal["bare", "empty", "full"]
    seconds: float
    ok: int
    not_ok: int
    per_second: float
    p50_ms: float
    p99_ms: float
    generator_cpu: float
    server_cpu: float
    server_us_per_message: float
    # On the server's core but not in the server: the kernel's share of the network, and other programs.
    other_cpu: float
    log_entries: int | None = None
    commits: int | None = None


class Throughput(msgspec.Struct):
    rounds: list[Round]
    # Bytes of the two servers' answers, which must be similar for a fair comparison.
    answer_bytes_empty: int
    answer_bytes_full: int

    def of(self, server: str) -> list[Round]:
        return [found for found in self.rounds if found.server == server]

    def median(self, server: str, field: str) -> float:
        return float(statistics.median(getattr(found, field) for found in self.of(server)))

    def ratios(self, other: str = "empty") -> list[float]:
        """The durable path against another server, round by round: each pair is measured seconds apart."""
        pairs = zip(self.of("full"), self.of(other), strict=True)
        return [full.per_second / empty.per_second for full, empty in pairs]

    def ratio(self, other: str = "empty") -> float:
        return float(statistics.median(self.ratios(other)))

    @property
    def messages_per_commit(self) -> float:
        full = self.of("full")
        return sum(r.log_entries or 0 for r in full) / max(1, sum(r.commits or 0 for r in full))

    def checks(self) -> list[Check]:
        full, ratio = self.of("full"), self.ratio()
        busiest = max(r.generator_cpu for r in self.rounds)
        bad = sum(r.not_ok for r in self.rounds)
        busy = self.median("empty", "server_cpu")
        agree = all(r.ok <= (r.log_entries or 0) <= r.ok + CONNECTIONS for r in full)
        surplus = ", ".join(f"+{(r.log_entries or 0) - r.ok}" for r in full)
        near = abs(self.answer_bytes_full - self.answer_bytes_empty) <= self.answer_bytes_full * 0.1
        return [
            Check("durable path / empty handler", f"≥ {RATIO_MIN}", f"{ratio:.3f}", ratio >= RATIO_MIN),
            Check(
                "load generator's share of its core",
                f"< {GENERATOR_CPU_MAX:.0%}",
                f"at most {busiest:.0%}",
                busiest < GENERATOR_CPU_MAX,
            ),
            Check(
                "server's share of its core, empty handler",
                f"≥ {EMPTY_SERVER_CPU_MIN:.0%}",
                f"{busy:.0%}",
                busy >= EMPTY_SERVER_CPU_MIN,
            ),
            Check("answers other than 200, lost connections", "0", f"{bad}", bad == 0),
            Check(
                "log entries against 200s, per round",
                f"+0 to +{CONNECTIONS} (in flight at the end)",
                surplus,
                agree,
            ),
            Check(
                "size of the empty answer",
                f"{self.answer_bytes_full} B ± 10 %",
                f"{self.answer_bytes_empty} B",
                near,
            ),
        ]


class Watched(msgspec.Struct):
    """The durable path with the dashboard closed, and open in a browser, in turns on one server."""

    closed: list[Round]
    open: list[Round]
    # The pages' requests in the open rounds, and the samples they received.
    requests: int
    samples: int

    @property
    def ratio(self) -> float:
        return _median(self.open) / _median(self.closed)

    def checks(self) -> list[Check]:
        bad = sum(found.not_ok for found in (*self.closed, *self.open))
        return [
            Check(
                "durable path with the dashboard open / closed",
                f"≥ {WATCHED_RATIO_MIN}",
                f"{self.ratio:.3f}",
                self.ratio >= WATCHED_RATIO_MIN,
            ),
            Check(
                "while it was open: steps received by the page, answers other than 200",
                "> 0, 0",
                f"{self.samples}, {bad}",
                self.samples > 0 and bad == 0,
            ),
        ]


def _median(rounds: Sequence[Round]) -> float:
    return float(statistics.median(found.per_second for found in rounds))


class Exact(msgspec.Struct):
    """An exact number of messages from the bounded generator, then the same ones again."""

    sent: int
    ok: int
    log_entries: int
    per_second: float
    p50_ms: float
    p99_ms: float
    outcomes: dict[str, int]
    generator_cpu: float
    again_ok: int
    again_log_entries: int
    again_per_second: float
    again_outcomes: dict[str, int]

    def checks(self) -> list[Check]:
        return [
            Check(
                "200s, and entries of the event log",
                f"{self.sent:,} each",
                f"{self.ok:,} and {self.log_entries:,}",
                self.sent == self.ok == self.log_entries,
            ),
            Check(
                "the same messages again",
                f"{self.sent:,} duplicates, log unchanged",
                f"{self.again_outcomes.get('duplicate', 0):,}, log {self.again_log_entries:,}",
                self.again_outcomes == {"duplicate": self.sent}
                and self.again_ok == self.sent
                and self.again_log_entries == self.sent,
            ),
        ]


class Ticks(msgspec.Struct):
    symbol: str
    order: str
    ok: int
    writes: int
    price: float
    per_second: float


class Coalescing(msgspec.Struct):
    """Writes counted by a wrapper at the store port, not by Millpond's own metric."""

    runs: list[Ticks]
    history_documents: int

    def checks(self) -> list[Check]:
        worst = max(run.writes for run in self.runs)
        right = all(run.ok == TICKS and run.price == TICKS for run in self.runs)
        right = right and self.history_documents == TICKS * len(self.runs)
        return [
            Check(
                f"writes of a symbol's document for {TICKS:,} ticks",
                f"≤ {TICK_WRITES_MAX}",
                f"at most {worst}",
                worst <= TICK_WRITES_MAX,
            ),
            Check("newest tick in the document, every tick in the history", "yes", "yes" if right else "no", right),
        ]


class Sample(msgspec.Struct):
    messages: int
    resident_kib: int
    at_s: float


class Memory(msgspec.Struct):
    samples: list[Sample]
    ok: int
    log_entries: int
    per_second: float

    @property
    def growth(self) -> float:
        """From the first sample to the highest one after it."""
        first, *later = (sample.resident_kib for sample in self.samples)
        return max(later) / first - 1

    def checks(self) -> list[Check]:
        sent = self.samples[-1].messages
        counted = Check(
            "200s, and entries of the event log, then",
            f"{sent:,} each",
            f"{self.ok:,} and {self.log_entries:,}",
            sent == self.ok == self.log_entries,
        )
        if sent < FULL.memory_to:
            # Too short to judge: the store's page cache is still filling.
            return [counted]
        grown = Check(
            f"resident memory from message {self.samples[0].messages:,} to {sent:,}",
            f"< +{MEMORY_GROWTH_MAX:.0%}",
            f"{self.growth:+.1%}",
            self.growth < MEMORY_GROWTH_MAX,
        )
        return [grown, counted]


class Results(msgspec.Struct):
    date: str
    commands: list[str]
    machine: dict[str, str]
    versions: dict[str, str]
    sizes: Sizes
    throughput: Throughput
    watched: Watched
    overload: Overload
    exact: Exact
    coalescing: Coalescing
    memory: Memory | None

    def checks(self) -> list[Check]:
        parts = (self.throughput, self.watched, self.overload, self.exact, self.coalescing, self.memory)
        return [check for part in parts if part is not None for check in part.checks()]
