"""Formats the cloud results: tables for the terminal, a section of Markdown."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmarks.cloud_baseline import THREADS
from benchmarks.cloud_results import (
    CONNECTIONS,
    DOCUMENTS,
    HOT_DOCUMENTS,
    INGEST_AT_ONCE,
    PULL_AT_ONCE,
    QUEUE_SIZE,
    CloudResults,
    Counted,
    Kind,
    Run,
)
from benchmarks.report import CHECK_HEAD, Rows, check_rows, columns, table, verdict

_NAMES: dict[Kind, str] = {
    "baseline": "textbook baseline",
    "file": "Millpond, from a file",
    "pull": "Millpond, by pull",
    "push": "Millpond, HTTP push",
}
_SPEED = ("", "documents", "messages/s, median", "times the baseline", "round by round")
_COUNTS = ("per 1,000 messages", "RPCs", "documents read", "documents written", "of them the event log")
_BILL = ("a million events", "reads", "writes", "together")
_RUNS = (
    "",
    "documents",
    "messages",
    "done",
    "seconds",
    "messages/s",
    "p50",
    "p99",
    "commits",
    "retries",
    "gave up",
    "cores busy",
)
_ABOUT = """\
Written by `make bench-cloud`; do not edit. Raw figures: [benchmarks.json](benchmarks.json), under `cloud`."""
_ABOUT_SIDES = f"""\
- **Textbook baseline** ([cloud_baseline.py](../benchmarks/cloud_baseline.py)): one Firestore transaction per
  message with Google's high-level client, {THREADS} threads. It reads the receipt and the document, then writes
  both. It is called directly: no HTTP, nothing decoded, nothing logged. Where the client gives up after five
  aborted attempts, the message is tried again.
- **Millpond** as it comes on Firestore (receipts and event log on), each message acknowledged only when it is
  stored: `millpond ingest` with `--concurrency {INGEST_AT_ONCE}`; `millpond pull` with
  `CONSUMER_QUEUE_SIZE={PULL_AT_ONCE}` on four subscriptions that are full already (the emulator gives a
  stream 2,000 messages a second at most, and takes its share of the cores); `millpond serve` with
  `CONSUMER_QUEUE_SIZE={QUEUE_SIZE}` under {CONNECTIONS} keep-alive connections.
- **The same messages on the same emulator**: unique system events, each of which leaves a receipt, and a document
  for each service. The services take turns, so that over {DOCUMENTS} documents the baseline's threads hardly ever
  meet: its best case. Within a service events overtake each other, and some arrive stale. The sides run in turns,
  each run on an empty project, after a warm-up of each kind. Speeds are medians over the rounds.
- **Nothing lost or wrong**: after every run all receipts and documents are read back. Each acknowledged message
  must have its receipt, and each document must be the newest of its events. On {HOT_DOCUMENTS} documents the
  baseline is cut off by time, and what it had done by then counts."""
_ABOUT_EMULATOR = """\
**What an emulator shows**: that both sides do the same work and end with the same documents, what each asks of
Firestore, and how they compare where a call is cheap and contention is real. **What it cannot show**: messages per
second on the service. There every call crosses a network, which costs the baseline four times per message and
Millpond once per batch; batches grow with the time a commit takes; contention is resolved in other ways, quotas
exist, and a document should not be written much more than once a second. And the emulator shares this machine's
cores with what it serves. The ratios are ratios on this machine."""
_ABOUT_COUNTS = """\
Counted by a gRPC proxy in front of the emulator, alike for both. *Read* is every document asked for, also one that
does not exist yet; *written* is every write of a commit that succeeded. Ticks leave no receipts; their history and
the event log are off. A proxy makes calls slower and so batches bigger: without it Millpond itself counted
{full_speed} commits per 1,000 messages over {documents} documents."""
_ABOUT_BILL = """\
Operations as Firestore bills them, from the counts above; no prices, which differ by region. The expiry of a
receipt is one delete more, on either side."""
_ABOUT_RUNS = """\
In the order they ran. *Retries* are transactions begun again, *gave up* is how often the client did; *cores busy*
counts everything that ran on the machine."""


def terminal(results: CloudResults) -> str:
    return "\n\n".join(
        [
            "",
            columns(_SPEED, _speed_rows(results)),
            columns(_COUNTS, _count_rows(results)),
            columns(_BILL, _bill_rows(results)),
            columns(CHECK_HEAD, check_rows(results.checks(), "ok", "MISSED")),
            "",
        ]
    )


def line(run: Run) -> str:
    """One run as it ends."""
    failed = f"  gave up {run.gave_up} times" if run.failures else ""
    faults = "".join(f"\n    WRONG: {fault}" for fault in run.faults)
    return (
        f"{_NAMES[run.kind]:22} {run.documents:3} documents {run.done:7,} of {run.sent:6,} {run.per_second:9,.1f}/s"
        f"  cores busy {run.machine_busy:4.0%}{failed}{faults}"
    )


def section(results: CloudResults) -> str:
    return "\n".join(
        [
            "# Benchmarks on Firestore",
            "",
            _ABOUT,
            "",
            f"{verdict(results.checks())} Measured {results.date}.",
            "",
            *table(CHECK_HEAD, check_rows(results.checks(), "✓", "✗")),
            *table(_SPEED, _speed_rows(results)),
            "## What is compared",
            "",
            _ABOUT_SIDES,
            "",
            _ABOUT_EMULATOR,
            "",
            "## What Firestore is asked for",
            "",
            *table(_COUNTS, _count_rows(results)),
            _ABOUT_COUNTS.format(full_speed=_commits_at_full_speed(results), documents=DOCUMENTS),
            "",
            *table(_BILL, _bill_rows(results)),
            _ABOUT_BILL,
            "",
            "## Every cloud run",
            "",
            _ABOUT_RUNS,
            "",
            *table(_RUNS, _run_rows(results)),
            "## Where and with what, on Firestore",
            "",
            *table(("", ""), [*results.machine.items(), *results.versions.items()]),
            "Run with:",
            "",
            "```",
            results.command,
            "```",
        ]
    )


def figures(results: CloudResults) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(results)
    found["ratios"] = {
        f"{kind}_{documents}": round(results.ratio(kind, documents), 2)
        for kind, documents in _measured(results)
        if kind != "baseline"
    }
    found["checks"] = msgspec.to_builtins(results.checks())
    return found


def _measured(results: CloudResults) -> list[tuple[Kind, int]]:
    return [(kind, n) for n in (DOCUMENTS, HOT_DOCUMENTS) for kind in _NAMES if results.of(kind, n)]


def _speed_rows(results: CloudResults) -> Rows:
    rows: Rows = []
    for kind, documents in _measured(results):
        row = (_NAMES[kind], f"{documents}", f"{results.median(kind, documents):,.1f}")
        if kind == "baseline":
            rows.append((*row, "", ""))
            continue
        ratios = ", ".join(f"{ratio:,.1f}" for ratio in results.ratios(kind, documents))
        rows.append((*row, f"{results.ratio(kind, documents):,.1f}", ratios))
    return rows


def _count_rows(results: CloudResults) -> Rows:
    def row(found: Counted) -> tuple[str, ...]:
        counts = found.counts
        numbers = (counts.rpcs, counts.reads, counts.writes, found.log_writes)
        return found.what, *(f"{found.per_thousand(n):,.1f}" for n in numbers)

    return [row(found) for found in results.counted]


def _bill_rows(results: CloudResults) -> Rows:
    def row(found: Counted) -> tuple[str, ...]:
        reads, writes = found.per_million(found.counts.reads), found.per_million(found.counts.writes)
        return found.what, f"{reads:,}", f"{writes:,}", f"{reads + writes:,}"

    return [row(found) for found in results.counted]


def _run_rows(results: CloudResults) -> Rows:
    def row(run: Run) -> tuple[str, ...]:
        return (
            *(_NAMES[run.kind], f"{run.documents}", f"{run.sent:,}", f"{run.done:,}", f"{run.seconds:.2f}"),
            *(f"{run.per_second:,.1f}", _ms(run.p50_ms), _ms(run.p99_ms)),
            "" if run.commits is None else f"{run.commits:,}",
            *((f"{run.attempts - run.done:,}", f"{run.gave_up:,}") if run.kind == "baseline" else ("", "")),
            f"{run.machine_busy:.0%}",
        )

    return [row(run) for run in results.runs]


def _commits_at_full_speed(results: CloudResults) -> str:
    pushed = results.of("push", DOCUMENTS)
    return f"{sum(run.commits or 0 for run in pushed) * 1_000 / sum(run.done for run in pushed):.1f}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} ms"
