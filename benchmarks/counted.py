"""Exact measurements: the event log against the 200s, writes per tick, and memory over a million messages."""

from __future__ import annotations

import sys
import time

import msgspec

from benchmarks import client, messages
from benchmarks.checks import CONNECTIONS
from benchmarks.client import Tally
from benchmarks.processes import Server
from benchmarks.results import TICKS, Coalescing, Exact, Memory, Sample, Ticks
from benchmarks.servers import COUNTS_VARIABLE
from benchmarks.setting import Bench, say

_COUNTING = (sys.executable, "-m", "benchmarks.servers", "counting")
_ORDERS = ("in order", "shuffled", "in order", "shuffled")
# A slower bounded run is aborted.
_PER_SECOND_MIN = 500
_START_S = 30


def exact(bench: Bench) -> Exact:
    """Send so many messages, once and then again."""
    count, run = bench.sizes.exact, bench.runs.next()
    with bench.server("exact") as server:
        first = _send(server, list(messages.heartbeats(run, count)))
        entries = server.log_entries()
        again = _send(server, list(messages.heartbeats(run, count)))
        entries_again = server.log_entries()
    say(
        f"  {first.per_second:,.0f}/s once, {again.per_second:,.0f}/s again, {sum(entries_again.values()):,} logged"
    )
    return Exact(
        sent=count,
        ok=first.ok,
        log_entries=sum(entries.values()),
        per_second=first.per_second,
        p50_ms=first.p50_ms,
        p99_ms=first.p99_ms,
        outcomes=first.outcomes,
        generator_cpu=first.generator_cpu,
        again_ok=again.ok,
        again_log_entries=sum(entries_again.values()),
        again_per_second=again.per_second,
        again_outcomes=again.outcomes,
    )


def coalescing(bench: Bench) -> Coalescing:
    """A thousand distinct ticks of one symbol, in order and not, over a store that counts the writes."""
    counts = bench.folder / "writes.json"
    found: list[tuple[str, Tally, float]] = []
    with bench.server("counting", _COUNTING, {COUNTS_VARIABLE: str(counts)}) as server:
        for number, order in enumerate(_ORDERS):
            symbol = f"TICK{number}"
            bodies = messages.ticks(symbol, bench.runs.next(), TICKS, shuffled=order == "shuffled")
            tally = _send(server, bodies)
            document = server.get_json(f"/api/docs/market_ticks_latest/{symbol}")
            found.append((symbol, tally, document["data"]["price"]))
    # Complete once the server has stopped.
    written = msgspec.json.decode(counts.read_bytes(), type=dict[str, int])
    history = sum(path.startswith("market_ticks/") for path in written)
    runs = [
        Ticks(
            symbol=symbol,
            order=order,
            ok=tally.ok,
            writes=written[f"market_ticks_latest/{symbol}"],
            price=price,
            per_second=tally.per_second,
        )
        for order, (symbol, tally, price) in zip(_ORDERS, found, strict=True)
    ]
    say("  " + ", ".join(f"{run.writes} writes ({run.order})" for run in runs))
    return Coalescing(runs, history)


def memory(bench: Bench) -> Memory:
    """Resident memory of a fresh server under load."""
    sizes = bench.sizes
    samples: list[Sample] = []
    with bench.server("memory") as server:
        began = time.perf_counter()

        def sample(answered: int) -> None:
            if answered >= sizes.memory_from and answered % sizes.memory_step == 0:
                samples.append(Sample(answered, server.resident_kib(), round(time.perf_counter() - began, 1)))
                say(f"  {answered:9,} messages  {samples[-1].resident_kib / 1024:7.1f} MiB")

        bodies = messages.heartbeats(bench.runs.next(), sizes.memory_to)
        timeout_s = _START_S + sizes.memory_to / _PER_SECOND_MIN
        tally = client.send(server.address, bodies, connections=CONNECTIONS, timeout_s=timeout_s, on_answer=sample)
        entries = sum(server.log_entries().values())
    return Memory(samples, tally.ok, entries, tally.per_second)


def _send(server: Server, bodies: list[bytes]) -> Tally:
    timeout_s = _START_S + len(bodies) / _PER_SECOND_MIN
    return client.send(server.address, bodies, connections=CONNECTIONS, timeout_s=timeout_s)
