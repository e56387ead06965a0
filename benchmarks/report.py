"""Formats the results: one table for the terminal, one page of Markdown. Every figure comes from the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.checks import CONNECTIONS, Check
from benchmarks.overload_results import GREEDY, POLITE
from benchmarks.results import Results, Round, Throughput

Rows = list[Sequence[str]]
CHECK_HEAD = ("", "check", "target", "measured")
_ABOUT = """\
Written by `make bench`; do not edit. What is measured, and why so: [benchmarks/README.md](../benchmarks/README.md).
Raw figures and samples: [benchmarks.json](benchmarks.json)."""
_ABOUT_ROUNDS = """\
wrk with {connections} connections, {sizes.round_s} s a round after a warm-up of {sizes.warm_up_s} s, in the order
they ran. The last three columns are shares of one core; *other* is what ran on the server's core beside it: the
kernel's network and disk work, and other programs."""
_ABOUT_OVERLOAD = """\
wrk with more connections than `CONSUMER_QUEUE_SIZE`, none of which backs off. *Room for all* is a queue longer than
there are connections: what that store allows."""
_ABOUT_COALESCING = """\
Distinct ticks of one symbol at concurrency {connections}; the writes of its `market_ticks_latest` document were
counted by a wrapper at the store port."""


def terminal(results: Results) -> str:
    figures = "\n".join(f"{name:<50}{value}" for name, value in _figures(results))
    return f"\n{figures}\n\n{columns(CHECK_HEAD, check_rows(results.checks(), 'ok', 'MISSED'))}\n"


def page(results: Results) -> str:
    return "\n".join(
        [
            "# Benchmarks",
            "",
            _ABOUT,
            "",
            f"{verdict(results.checks())} Measured {results.date}.",
            "",
            *table(CHECK_HEAD, check_rows(results.checks(), "✓", "✗")),
            "## Figures",
            "",
            *table(("figure", "value"), _figures(results)),
            "## Rounds",
            "",
            _ABOUT_ROUNDS.format(connections=CONNECTIONS, sizes=results.sizes),
            "",
            *table(
                ("server", "messages/s", "p50", "p99", "200s", "log entries", "commits", "server", "wrk", "other"),
                _round_rows(results),
            ),
            *_overload(results),
            *_coalescing(results),
            *_memory(results),
            "## Where and with what",
            "",
            *table(("", ""), [*results.machine.items(), *results.versions.items()]),
            "Run with:",
            "",
            "```",
            *results.commands,
            "```",
            "",
        ]
    )


def _figures(results: Results) -> Rows:
    found, exact = results.throughput, results.exact
    rows: Rows = [
        ("full durable path, median", f"{found.median('full', 'per_second'):,.0f} messages/s"),
        ("empty handler, a Starlette route, median", f"{found.median('empty', 'per_second'):,.0f} messages/s"),
        ("bare ASGI callable, no framework, median", f"{found.median('bare', 'per_second'):,.0f} messages/s"),
        ("durable path / empty handler, round by round", _ratios(found.ratios())),
        ("durable path / bare callable, round by round", _ratios(found.ratios("bare"))),
        ("durable path / bare callable, median", f"{found.ratio('bare'):.3f}"),
        ("latency of the durable path, p50 / p99", f"{_medians(found, 'full', 'p50_ms', 'p99_ms')} ms"),
        ("latency of the empty handler, p50 / p99", f"{_medians(found, 'empty', 'p50_ms', 'p99_ms')} ms"),
        ("processor time per message, durable path", f"{_medians(found, 'full', 'server_us_per_message')} µs"),
        ("processor time per message, empty handler", f"{_medians(found, 'empty', 'server_us_per_message')} µs"),
        ("processor time per message, bare callable", f"{_medians(found, 'bare', 'server_us_per_message')} µs"),
        ("commits, all full rounds", f"{sum(r.commits or 0 for r in found.of('full')):,}"),
        ("messages per commit", f"{found.messages_per_commit:.1f}"),
        ("durable path, dashboard closed, round by round", _speeds(results.watched.closed)),
        ("durable path, dashboard open, round by round", _speeds(results.watched.open)),
        (f"bounded generator, {exact.sent:,} messages", f"{exact.per_second:,.0f} messages/s"),
        ("the same again, all duplicates", f"{exact.again_per_second:,.0f} messages/s"),
    ]
    if results.memory is not None:
        first, last = results.memory.samples[0], results.memory.samples[-1]
        rows.append(
            (
                "resident memory, first / last sample",
                f"{first.resident_kib / 1024:.1f} / {last.resident_kib / 1024:.1f} MiB",
            )
        )
    return rows


def _ratios(ratios: Iterable[float]) -> str:
    return ", ".join(f"{ratio:.3f}" for ratio in ratios)


def _speeds(rounds: Iterable[Round]) -> str:
    return ", ".join(f"{found.per_second:,.0f}" for found in rounds) + " messages/s"


def _medians(found: Throughput, server: str, *fields: str) -> str:
    return " / ".join(f"{found.median(server, field):.1f}" for field in fields)


def verdict(checks: Iterable[Check]) -> str:
    missed = [check.name for check in checks if not check.passed]
    return f"**Missed: {'; '.join(missed)}.**" if missed else "Every target was met."


def check_rows(checks: Iterable[Check], met: str, missed: str) -> Rows:
    return [(met if check.passed else missed, check.name, check.target, check.measured) for check in checks]


def _round_rows(results: Results) -> Rows:
    return [
        (
            *(r.server, f"{r.per_second:,.0f}", f"{r.p50_ms:.2f} ms", f"{r.p99_ms:.2f} ms", f"{r.ok:,}"),
            *("" if r.log_entries is None else f"{r.log_entries:,}", "" if r.commits is None else f"{r.commits:,}"),
            *(f"{r.server_cpu:.0%}", f"{r.generator_cpu:.0%}", f"{r.other_cpu:.0%}"),
        )
        for r in results.throughput.rounds
    ]


def _overload(results: Results) -> list[str]:
    found = results.overload
    rows: Rows = [
        (f"{one.connections:,}", store, f"{one.per_second:,.0f}", f"{one.refused:,}", f"{one.p99_ms:.0f} ms")
        for store, rounds in (
            ("as it is", found.rounds),
            ("50 ms a commit", found.slow),
            ("50 ms a commit, room for all", found.slow_with_room),
        )
        for one in rounds
    ]
    shares = ", ".join(f"{one.share:.2f}" for one in found.sharing)
    return [
        "## Overload",
        "",
        _ABOUT_OVERLOAD,
        "",
        *table(("connections", "store", "acknowledged/s", "refused", "p99"), rows),
        f"{POLITE} polite clients beside {GREEDY} greedy ones, of their fair share, round by round: {shares}.",
        "",
    ]


def _coalescing(results: Results) -> list[str]:
    rows: Rows = [
        (run.symbol, run.order, f"{run.ok:,}", f"{run.writes}", f"{run.per_second:,.0f}")
        for run in results.coalescing.runs
    ]
    return [
        "## Coalescing",
        "",
        _ABOUT_COALESCING.format(connections=CONNECTIONS),
        "",
        *table(("symbol", "ticks arrive", "200s", "writes", "ticks/s"), rows),
    ]


def _memory(results: Results) -> list[str]:
    if results.memory is None:
        return []
    rows: Rows = [
        (f"{s.messages:,}", f"{s.resident_kib / 1024:.1f} MiB", f"{s.at_s:.1f} s") for s in results.memory.samples
    ]
    return ["## Memory", "", *table(("messages", "resident", "after"), rows)]


def columns(head: Sequence[str], rows: Rows) -> str:
    """A table for the terminal."""
    cells = [head, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)


def table(head: Sequence[str], rows: Rows) -> list[str]:
    cells = [head, ["---"] * len(head), *rows]
    return [*("| " + " | ".join(row) + " |" for row in cells), ""]
