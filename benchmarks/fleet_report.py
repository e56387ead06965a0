"""Formats the results of the fleet benchmark: the terminal, the measured part of docs/scaling.md, and a chart."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.fleet_chart import chart
from benchmarks.fleet_results import FleetResults, FleetRun
from benchmarks.report import CHECK_HEAD, Rows, check_rows, columns, table, verdict
from benchmarks.sections import DOCS

_MARK = "<!-- Below: written by make bench-fleet; do not edit. -->\n"
_CHART = "images/scaling.svg"
_SPEED = (
    *("documents", "keys", "instances", "routed", "messages/s", "of one instance", "p50", "p99"),
    *("commits", "refused", "documents read", "RPCs", "documents written"),
)
_VIRTUAL = (
    *("documents", "keys", "instances", "messages/s", "of one instance", "p50", "p99"),
    *("commits", "refused", "documents read"),
)
_RUNS = (
    "",
    "messages/s, round by round",
    "of one instance, round by round",
    "µs of processor time each",
    "cores busy",
)


_ABOUT = """\
{verdict} Measured {date} with `make bench-fleet`; the load average of the machine was {load:.2f} when it began. Raw
figures: [scaling.json](scaling.json)."""
_ABOUT_PROCESSES = """\
300 messages in flight in a closed loop, 40 ms round trip. Speeds and latencies are medians of {rounds} rounds,
taken in turns through a relay that only delays. Counts are per 1,000 messages, of one more run through a gRPC proxy
that delays and counts every call; commits include the refused ones. The last row is an open loop, which begins
cold."""
_ABOUT_VIRTUAL = """\
The real engines on the simulation's event loop, with the same round trip and no processor time: closed loop, 300 in
flight, routed at random. It shows the policy alone, on a machine that is never too small."""
_ABOUT_COLD = """\
Open loop at {load.rate:,.0f} messages/s over {load.documents} documents and {load.instances} instances, from a cold
start: {run.acknowledged:,} of {load.count:,} acknowledged, p99 {run.p99_ms:,.0f} ms, {run.nacked} redelivered."""


def terminal(results: FleetResults) -> str:
    return "\n\n".join(
        [
            "",
            columns(_SPEED, _speed_rows(results)),
            virtual_table(results.virtual),
            columns(CHECK_HEAD, check_rows(results.checks(), "ok", "MISSED")),
            "",
        ]
    )


def virtual_table(runs: Sequence[FleetRun]) -> str:
    return columns(_VIRTUAL, _virtual_rows(runs))


def line(run: FleetRun) -> str:
    """One run as it ends."""
    wire = run.wire
    counts = (
        f"  commits {run.per_thousand(wire.commit_calls):6.1f} refused {run.per_thousand(wire.refused):5.1f}"
        f" read {run.per_thousand(wire.reads):6.0f}"
        if wire.commit_calls
        else ""
    )
    faults = "".join(f"\n    WRONG: {fault}" for fault in run.faults)
    return (
        f"{run.per_second:7,.0f}/s  p99 {run.p99_ms:6,.0f} ms{counts}  {run.cpu_us:5.0f} µs each"
        f"  cores busy {run.machine_busy:4.0%}{f'  redelivered {run.nacked}' if run.nacked else ''}{faults}"
    )


def write(results: FleetResults) -> None:
    page = DOCS / "scaling.md"
    ours, mark, _ = page.read_text().partition(_MARK)
    if not mark:
        raise ValueError(f"{page} has no line {_MARK.strip()!r}")
    page.write_text(f"{ours}{_MARK}\n{_section(results)}\n")
    (DOCS / _CHART).write_text(chart(results.virtual))
    figures = msgspec.to_builtins(results) | {"checks": msgspec.to_builtins(results.checks())}
    (DOCS / "scaling.json").write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")


def _section(results: FleetResults) -> str:
    rounds, cold = len(results.timed["50 one"]), results.virtual[-1]
    return "\n".join(
        [
            "## Measured",
            "",
            _ABOUT.format(verdict=verdict(results.checks()), date=results.date, load=results.load_average),
            "",
            *table(CHECK_HEAD, check_rows(results.checks(), "✓", "✗")),
            "### On the emulator, as processes",
            "",
            _ABOUT_PROCESSES.format(rounds=rounds),
            "",
            *table(_SPEED, _speed_rows(results)),
            *table(_RUNS, _run_rows(results)),
            "### In virtual time, 1 to 100 instances",
            "",
            _ABOUT_VIRTUAL,
            "",
            f"![Messages per second by number of instances]({_CHART})",
            "",
            *table(_VIRTUAL, _virtual_rows(results.virtual[:-1])),
            _ABOUT_COLD.format(run=cold, load=cold.load),
            "",
            "### Where and with what",
            "",
            *table(("", ""), [*results.machine.items(), *results.versions.items()]),
        ]
    ).rstrip("\n")


def _speed_rows(results: FleetResults) -> Rows:
    rows: Rows = []
    for name, runs in results.timed.items():
        load, counted = runs[0].load, results.counted[name]
        wire = counted.wire
        ratio = f"{results.ratio(name):.2f}" if load.instances > 1 and load.rate is None else ""
        p50 = sorted(run.p50_ms for run in runs)[len(runs) // 2]
        numbers = (wire.commit_calls, wire.refused, wire.reads, wire.commit_calls + wire.read_calls, wire.writes)
        rows.append(
            (
                *(
                    f"{load.documents:,}",
                    load.keys,
                    f"{load.instances}",
                    load.routing if load.instances > 1 else "",
                ),
                *(f"{results.speed(name):,.0f}", ratio, f"{p50:,.0f} ms", f"{results.p99_ms(name):,.0f} ms"),
                *(f"{counted.per_thousand(n):,.1f}" for n in numbers),
            )
        )
    return rows


def _run_rows(results: FleetResults) -> Rows:
    def row(name: str, runs: Sequence[FleetRun]) -> tuple[str, ...]:
        alone = runs[0].load.instances == 1 or runs[0].load.rate is not None
        ratios = "" if alone else ", ".join(f"{ratio:.2f}" for ratio in results.ratios(name))
        speeds = ", ".join(f"{run.per_second:,.0f}" for run in runs)
        cpu = ", ".join(f"{run.cpu_us:.0f}" for run in runs)
        return name, speeds, ratios, cpu, ", ".join(f"{run.machine_busy:.0%}" for run in runs)

    return [row(name, runs) for name, runs in results.timed.items()]


def _virtual_rows(runs: Sequence[FleetRun]) -> Rows:
    alone = {(run.load.documents, run.load.keys): run.per_second for run in runs if run.load.instances == 1}
    rows: Rows = []
    for run in runs:
        load, wire = run.load, run.wire
        one = alone.get((load.documents, load.keys))
        ratio = f"{run.per_second / one:.2f}" if one and load.rate is None and load.instances > 1 else ""
        rows.append(
            (
                *(f"{load.documents:,}", load.keys, f"{load.instances}", f"{run.per_second:,.0f}", ratio),
                *(f"{run.p50_ms:,.0f} ms", f"{run.p99_ms:,.0f} ms"),
                *(f"{run.per_thousand(n):,.1f}" for n in (wire.commit_calls, wire.refused, wire.reads)),
            )
        )
    return rows
