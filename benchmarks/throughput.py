"""Throughput: wrk against an empty handler, a bare callable and the full durable path, in turns, on one core."""

from __future__ import annotations

import os
import sys
import time
from typing import Literal

from benchmarks import messages, wrk
from benchmarks.checks import CONNECTIONS
from benchmarks.client import PUSH_PATH
from benchmarks.processes import BenchError, Server, core_busy_s
from benchmarks.results import Round, Throughput
from benchmarks.servers import EMPTY_ANSWER, EMPTY_PATH
from benchmarks.setting import Bench, say

_SERVERS = (sys.executable, "-m", "benchmarks.servers")
_MEMORY = {"STORE": "memory"}
_PAUSE_S = 1.0


def measure(bench: Bench) -> Throughput:
    sizes = bench.sizes
    with (
        bench.server("bare", (*_SERVERS, "bare"), _MEMORY) as bare,
        bench.server("empty", (*_SERVERS, "empty"), _MEMORY) as empty,
        bench.server("full") as full,
    ):
        body = next(messages.heartbeats(bench.runs.next(), 1))
        for server in (bare, empty):
            if server.post(EMPTY_PATH, body) != EMPTY_ANSWER:
                raise BenchError("the empty handler is not what answers on the empty server")
        answer_bytes = len(full.post(PUSH_PATH, body))
        for server, path in ((bare, EMPTY_PATH), (empty, EMPTY_PATH), (full, PUSH_PATH)):
            send(bench, server, path, sizes.warm_up_s)
        rounds = []
        for number in range(1, sizes.rounds + 1):
            for found in (
                _load(bench, "bare", bare, EMPTY_PATH),
                _load(bench, "empty", empty, EMPTY_PATH),
                load_durable(bench, full),
            ):
                rounds.append(found)
                say(
                    f"  round {number} {found.server:5} {found.per_second:8,.0f}/s   server {found.server_cpu:4.0%}"
                    f"   wrk {found.generator_cpu:4.0%}   other on the server's core {found.other_cpu:4.0%}"
                )
    return Throughput(rounds, len(EMPTY_ANSWER), answer_bytes)


def load_durable(bench: Bench, server: Server) -> Round:
    entries = sum(server.log_entries().values())
    commits = server.metric("millpond_commits_total")
    found = _load(bench, "full", server, PUSH_PATH)
    found.log_entries = sum(server.log_entries().values()) - entries
    found.commits = round(server.metric("millpond_commits_total") - commits)
    return found


def _load(bench: Bench, name: Literal["bare", "empty", "full"], server: Server, path: str) -> Round:
    # Flush the previous round's dirty pages, so that they are not written during this round.
    os.sync()
    time.sleep(_PAUSE_S)
    core = bench.cores.server
    began, cpu_s, busy_s = time.perf_counter(), server.cpu_s(), core_busy_s(core)
    sent = send(bench, server, path, bench.sizes.round_s)
    elapsed, cpu_s, busy_s = time.perf_counter() - began, server.cpu_s() - cpu_s, core_busy_s(core) - busy_s
    return Round(
        server=name,
        seconds=sent.seconds,
        ok=sent.ok,
        not_ok=sent.bad_status + sent.lost,
        per_second=sent.ok / sent.seconds,
        p50_ms=sent.p50_us / 1_000,
        p99_ms=sent.p99_us / 1_000,
        generator_cpu=sent.cpu,
        server_cpu=cpu_s / elapsed,
        server_us_per_message=cpu_s * 1e6 / max(1, sent.ok),
        other_cpu=max(0.0, busy_s - cpu_s) / elapsed,
    )


def send(bench: Bench, server: Server, path: str, seconds: int) -> wrk.Sent:
    return wrk.run(server.address, bench.runs.next(), seconds=seconds, connections=CONNECTIONS, path=path)
