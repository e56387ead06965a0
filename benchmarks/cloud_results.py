"""What a run of the cloud benchmark finds: figures, counts, and whether each target was met. Pure data."""

from __future__ import annotations

import statistics
from typing import Literal

import msgspec

from benchmarks.checks import Check
from tests.common.firestore_proxy import Counts

DOCUMENTS = 50
HOT_DOCUMENTS = 2
CONNECTIONS = 100
MANY_CONNECTIONS = 300
# Messages under way at once in `millpond ingest`: two full batches, one being committed and one waiting.
INGEST_AT_ONCE = 1_000
# Messages outstanding in `millpond pull`: the default of Pub/Sub's client library.
PULL_AT_ONCE = 1_000
# Room for all messages in flight, so that none is answered 429.
QUEUE_SIZE = 512
FILE_RATIO_MIN = 20
PUSH_RATIO_MIN = 10
HOT_RATIO_MIN = 300
RPCS_PER_MESSAGE_MAX = 0.1
LOG_WRITES_PER_MESSAGE_MAX = 0.05
TALLIES_WRITES_PER_MESSAGE_MAX = 0.5
TICKS = 1_000
TICK_WRITES_MAX = 50
MILLION = 1_000_000

Kind = Literal["baseline", "file", "pull", "push"]


class Sizes(msgspec.Struct, frozen=True):
    """How many messages, how often, and how long the baseline may try."""

    rounds: int
    baseline: int
    baseline_s: float
    hot_baseline_s: float
    file: int
    pull: int
    push: int
    hot_push: int
    counted_baseline: int
    counted_push: int
    warm_up: int


FULL = Sizes(3, 2_000, 30.0, 25.0, 20_000, 20_000, 10_000, 10_000, 500, 5_000, 10_000)
QUICK = Sizes(1, 60, 10.0, 5.0, 600, 600, 400, 400, 40, 400, 200)


class Run(msgspec.Struct, kw_only=True):
    """One measured run on a project of its own, read back afterwards."""

    kind: Kind
    documents: int
    sent: int
    # Acknowledged messages; for a baseline that was cut off, those done by then.
    done: int
    seconds: float
    # What was lost or wrong afterwards.
    faults: list[str]
    # Transactions begun, and the client's final errors; each such message was tried again.
    attempts: int = 0
    failures: dict[str, int] = msgspec.field(default_factory=dict)
    # Millpond's own count, and how long a message waited for its answer.
    commits: int | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    # The busy share of all cores, whatever ran on them.
    machine_busy: float = 0.0

    @property
    def per_second(self) -> float:
        return self.done / self.seconds

    @property
    def gave_up(self) -> int:
        return sum(self.failures.values())


class Counted(msgspec.Struct, kw_only=True):
    """A run through the proxy."""

    what: str
    messages: int
    counts: Counts
    faults: list[str]
    # Documents of the event log among the writes.
    log_writes: int = 0

    def per_thousand(self, count: int) -> float:
        return count * 1_000 / self.messages

    def per_million(self, count: int) -> int:
        return round(count * MILLION / self.messages)


class CloudResults(msgspec.Struct):
    date: str
    command: str
    machine: dict[str, str]
    versions: dict[str, str]
    sizes: Sizes
    runs: list[Run]
    baseline_counted: Counted
    push_counted: Counted
    ticks_counted: list[Counted]
    # At MANY_CONNECTIONS, with RECEIPTS=all and with RECEIPTS=tallies.
    receipts_counted: list[Counted]

    def of(self, kind: Kind, documents: int) -> list[Run]:
        return [run for run in self.runs if run.kind == kind and run.documents == documents]

    def median(self, kind: Kind, documents: int) -> float:
        return statistics.median(run.per_second for run in self.of(kind, documents))

    def ratio(self, kind: Kind, documents: int) -> float:
        """The speed relative to the baseline's. A baseline without a message counts as one message."""
        none_done = 1 / max(run.seconds for run in self.of("baseline", documents))
        return self.median(kind, documents) / max(none_done, self.median("baseline", documents))

    def ratios(self, kind: Kind, documents: int) -> list[float]:
        """Round by round."""
        pairs = zip(self.of(kind, documents), self.of("baseline", documents), strict=True)
        return [run.per_second / max(1 / base.seconds, base.per_second) for run, base in pairs]

    @property
    def counted(self) -> list[Counted]:
        return [self.baseline_counted, self.push_counted, *self.receipts_counted, *self.ticks_counted]

    def checks(self) -> list[Check]:
        rpcs = self.push_counted.counts.rpcs / self.push_counted.messages
        logged = self.push_counted.log_writes / self.push_counted.messages
        tallies = self.receipts_counted[-1]
        written = tallies.counts.writes / tallies.messages
        writes = max(found.counts.writes for found in self.ticks_counted)
        reads = max(found.counts.reads for found in self.ticks_counted)
        faults = [f"{run.kind}, {run.documents} documents: {fault}" for run in self.runs for fault in run.faults]
        faults += [f"{found.what}: {fault}" for found in self.counted for fault in found.faults]
        return [
            *self._ratio_checks(),
            Check(
                f"RPCs per message, {CONNECTIONS} in flight over {DOCUMENTS} documents",
                f"≤ {RPCS_PER_MESSAGE_MAX}",
                f"{rpcs:.4f}",
                rpcs <= RPCS_PER_MESSAGE_MAX,
            ),
            Check(
                f"writes of the event log per message, {CONNECTIONS} in flight over {DOCUMENTS} documents",
                f"≤ {LOG_WRITES_PER_MESSAGE_MAX}",
                f"{logged:.4f}",
                0 < logged <= LOG_WRITES_PER_MESSAGE_MAX,
            ),
            Check(
                f"writes per message, RECEIPTS=tallies, {MANY_CONNECTIONS} in flight over {DOCUMENTS} documents",
                f"< {TALLIES_WRITES_PER_MESSAGE_MAX}",
                f"{written:.4f}",
                written < TALLIES_WRITES_PER_MESSAGE_MAX,
            ),
            Check(
                f"document writes for {TICKS:,} ticks of one symbol, once warm",
                f"≤ {TICK_WRITES_MAX}",
                f"at most {writes}",
                writes <= TICK_WRITES_MAX,
            ),
            Check("document reads for those ticks", "0", f"{reads}", reads == 0),
            Check(
                "lost or wrong afterwards, over every run",
                "nothing",
                "; ".join(faults) if faults else "nothing",
                not faults,
            ),
        ]

    def _ratio_checks(self) -> list[Check]:
        # The target is for the faster of the two ways without HTTP; the table shows both.
        wanted: list[tuple[str, tuple[Kind, ...], int, int]] = [
            (f"fed from a file or by pull, {DOCUMENTS} documents", ("file", "pull"), DOCUMENTS, FILE_RATIO_MIN),
            (f"HTTP push, {DOCUMENTS} documents", ("push",), DOCUMENTS, PUSH_RATIO_MIN),
            (f"HTTP push, {HOT_DOCUMENTS} hot documents", ("push",), HOT_DOCUMENTS, HOT_RATIO_MIN),
        ]
        checks = []
        for name, kinds, documents, least in wanted:
            ratios = [self.ratio(kind, documents) for kind in kinds if self.of(kind, documents)]
            if ratios:
                target = f"≥ {least} times the baseline"
                checks.append(Check(name, target, f"{max(ratios):,.1f} times", max(ratios) >= least))
        return checks
