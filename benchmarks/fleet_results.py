"""What a run of a fleet finds, the cases of the benchmark, and whether each target was met. Pure data."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import msgspec

from benchmarks.checks import Check
from benchmarks.fleet_messages import Load


class Wire(msgspec.Struct):
    """Counted between the fleet and the store."""

    read_calls: int = 0
    # Commits that were sent, and those of them that a precondition refused.
    commit_calls: int = 0
    refused: int = 0
    # Documents that were read and written, as they are billed.
    reads: int = 0
    writes: int = 0

    def since(self, earlier: Wire) -> Wire:
        return Wire(*(getattr(self, name) - getattr(earlier, name) for name in self.__struct_fields__))


class FleetRun(msgspec.Struct, kw_only=True):
    load: Load
    seconds: float
    acknowledged: int
    p50_ms: float
    p99_ms: float
    wire: Wire
    # Answers that asked for a redelivery.
    nacked: int
    faults: list[str]
    # Of all instances together, for each message; and the busy share of all cores.
    cpu_us: float = 0.0
    machine_busy: float = 0.0

    @property
    def per_second(self) -> float:
        return self.acknowledged / self.seconds

    def per_thousand(self, count: int) -> float:
        return count * 1_000 / self.load.count


IN_FLIGHT = 300
OPEN_RATE = 1_000.0
LEAD = 3_000


def cases(count: int, lead: int = LEAD) -> dict[str, Load]:
    """By name. One instance comes before those that are compared with it."""

    def load(instances: int, documents: int, **more: object) -> Load:
        shared = {"in_flight": IN_FLIGHT, "lead": lead, "count": count}
        return Load(instances=instances, documents=documents, **{**shared, **more})  # type: ignore[arg-type]

    return {
        "2000 one": load(1, 2_000),
        "2000 three": load(3, 2_000),
        "2000 three by key": load(3, 2_000, routing="by key"),
        "random one": load(1, 2_000, keys="at random"),
        "random three": load(3, 2_000, keys="at random"),
        "50 one": load(1, 50),
        "50 three": load(3, 50),
        "50 three by key": load(3, 50, routing="by key"),
        "2 one": load(1, 2),
        "2 three": load(3, 2),
        # Documents are created and others noticed within the run: it begins cold.
        "open": load(4, 50, in_flight=None, rate=OPEN_RATE, lead=0),
    }


class FleetResults(msgspec.Struct):
    date: str
    machine: dict[str, str]
    versions: dict[str, str]
    # The load average when the run began.
    load_average: float
    # By name of the case, round by round; and one counted run of each.
    timed: dict[str, list[FleetRun]]
    counted: dict[str, FleetRun]
    virtual: list[FleetRun]

    def speed(self, name: str) -> float:
        return statistics.median(run.per_second for run in self.timed[name])

    def p99_ms(self, name: str) -> float:
        return statistics.median(run.p99_ms for run in self.timed[name])

    def ratios(self, name: str) -> list[float]:
        """Against one instance on as many documents, round by round."""
        one = name.split(" ", maxsplit=1)[0] + " one"
        pairs = zip(self.timed[name], self.timed[one], strict=True)
        return [run.per_second / base.per_second for run, base in pairs]

    def ratio(self, name: str) -> float:
        return statistics.median(self.ratios(name))

    def checks(self) -> list[Check]:
        def least(text: str, name: str, target: float) -> Check:
            found = self.ratio(name)
            return Check(f"{text}, three instances / one", f"≥ {target}", f"{found:.2f}", found >= target)

        def most(text: str, name: str, target: float, counted: Callable[[FleetRun], int]) -> Check:
            run = self.counted[name]
            found = run.per_thousand(counted(run))
            return Check(f"{text}, per 1,000 messages", f"≤ {target:g}", f"{found:.1f}", found <= target)

        hot, stream = "50 documents", f"open loop, {OPEN_RATE:,.0f} messages/s, 50 documents, 4 instances"
        every = [*(run for runs in self.timed.values() for run in runs), *self.counted.values(), *self.virtual]
        faults = [fault for run in every for fault in run.faults]
        slow = self.p99_ms("50 three")
        behind = self.p99_ms("open")
        return [
            least("2,000 documents in turn", "2000 three", 0.6),
            most("refused commits, 2,000 documents in turn", "2000 three", 5, lambda run: run.wire.refused),
            most("refused commits, 2,000 documents at random", "random three", 40, lambda run: run.wire.refused),
            least(hot, "50 three", 0.3),
            most(f"commits, {hot}", "50 three", 40, lambda run: run.wire.commit_calls),
            most(f"refused commits, {hot}", "50 three", 15, lambda run: run.wire.refused),
            most(f"documents read, {hot}", "50 three", 700, lambda run: run.wire.reads),
            Check(f"p99, {hot}, three instances", "≤ 1,500 ms", f"{slow:,.0f} ms", slow <= 1_500),
            least("2 documents", "2 three", 0.5),
            least(f"{hot}, routed by key", "50 three by key", 0.85),
            most("refused commits, routed by key", "50 three by key", 1, lambda run: run.wire.refused),
            Check(f"p99, {stream}", "< 2,000 ms", f"{behind:,.0f} ms", behind < 2_000),
            Check(
                "lost or wrong afterwards, over every run", "nothing", "; ".join(faults) or "nothing", not faults
            ),
        ]
