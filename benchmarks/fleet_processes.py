"""A fleet of real processes: N times `millpond serve` on the Firestore emulator, behind a round trip.

A timed run goes through a relay that costs nothing; the same load is then counted by a gRPC proxy, which does.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence

import msgspec

from benchmarks import cloud_setting, cloud_verify
from benchmarks.cloud_messages import Message
from benchmarks.cloud_setting import Cloud
from benchmarks.fleet_client import Job, Report
from benchmarks.fleet_messages import Load
from benchmarks.fleet_results import FleetRun, Wire
from benchmarks.processes import Server
from tests.common.firestore_proxy import COMMIT, READ, FirestoreProxy

_FIRST_AT_ONCE = 100
_TIMEOUT_S = 60.0
_PER_SECOND_MIN = 20


def run(cloud: Cloud, firestore: str, load: Load, proxy: FirestoreProxy | None = None) -> FleetRun:
    """`firestore` is the address of the relay or, if the run is counted, of the proxy."""
    first, (lead, sent) = load.first(), load.messages()
    with cloud.project() as project, contextlib.ExitStack() as stack:
        settings = load.settings(project)
        servers = [
            stack.enter_context(cloud.server(project, firestore, settings, number=number))
            for number in range(load.instances)
        ]
        closed = msgspec.structs.replace(load, rate=None, in_flight=load.in_flight or _FIRST_AT_ONCE)
        for messages in (first, lead):
            if messages:
                _send(cloud, servers, closed, messages)
        before = None if proxy is None else proxy.total()
        cpu_s, busy = _cpu_s(servers), cloud.watch_machine()
        report = _send(cloud, servers, load, sent)
        machine_busy, cpu_s = busy(), _cpu_s(servers) - cpu_s
        wire = Wire()
        if proxy is not None and before is not None:
            counts = proxy.total().since(before)
            calls = (counts.calls.get(READ, 0), counts.calls.get(COMMIT, 0))
            wire = Wire(*calls, counts.refused, counts.reads, counts.writes)
        every = [*first, *lead, *sent]
        faults = cloud_verify.find_faults(project, every, {message.message_id for message in every})
    return FleetRun(
        load=load,
        seconds=report.seconds,
        acknowledged=report.acknowledged,
        p50_ms=report.p50_ms,
        p99_ms=report.p99_ms,
        wire=wire,
        nacked=sum(report.refused.values()),
        faults=faults,
        cpu_us=cpu_s * 1e6 / load.count,
        machine_busy=machine_busy,
    )


def _send(cloud: Cloud, servers: Sequence[Server], load: Load, messages: Sequence[Message]) -> Report:
    dice = random.Random(f"{load.seed}/routes")
    job = Job(
        ports=[server.address.port for server in servers],
        bodies=[message.push_body() for message in messages],
        instances=[load.route(message, dice) for message in messages],
        in_flight=load.in_flight,
        rate=load.rate,
        seed=load.seed,
        timeout_s=_TIMEOUT_S + len(messages) / _PER_SECOND_MIN,
    )
    path = cloud.folder / "job.msgpack"
    path.write_bytes(msgspec.msgpack.encode(job))
    output = cloud_setting.run_python(["benchmarks.fleet_client", str(path)], {}, len(messages))
    return msgspec.json.decode(output, type=Report)


def _cpu_s(servers: Sequence[Server]) -> float:
    return sum(server.cpu_s() for server in servers)
