"""The measured runs, straight at the emulator: the baseline, a file through `millpond ingest`, HTTP push."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks import cloud_setting, cloud_verify
from benchmarks.cloud_baseline import Report
from benchmarks.cloud_messages import Message
from benchmarks.cloud_results import INGEST_AT_ONCE, Run
from benchmarks.cloud_setting import Cloud


class _Ingested(msgspec.Struct, rename="camel"):
    """What `millpond ingest --json` says."""

    messages: int
    seconds: float


def baseline(cloud: Cloud, documents: int, count: int, limit_s: float) -> Run:
    sent = cloud.messages(documents, count)
    with cloud.project() as project:
        busy = cloud.watch_machine()
        report = run_baseline(cloud, sent, project, limit_s, cloud.firestore)
        return Run(
            kind="baseline",
            documents=documents,
            sent=count,
            done=len(report.done),
            seconds=report.seconds,
            attempts=report.attempts,
            failures=report.failures,
            machine_busy=busy(),
            faults=cloud_verify.find_faults(project, sent, set(report.done)),
        )


def run_baseline(cloud: Cloud, sent: Sequence[Message], project: str, limit_s: float, firestore: str) -> Report:
    path = cloud.folder / f"{project}.msgpack"
    path.write_bytes(msgspec.msgpack.encode(sent))
    arguments = ["benchmarks.cloud_baseline", str(path), str(limit_s), project]
    output = cloud_setting.run_python(arguments, {"FIRESTORE_EMULATOR_HOST": firestore}, len(sent))
    path.unlink()
    return msgspec.json.decode(output, type=Report)


def file(cloud: Cloud, documents: int, count: int) -> Run:
    sent = cloud.messages(documents, count)
    with cloud.project() as project:
        path = cloud.folder / f"{project}.jsonl"
        path.write_bytes(b"".join(message.push_body() + b"\n" for message in sent))
        arguments = ["millpond", "ingest", str(path), "--json", "--concurrency", str(INGEST_AT_ONCE)]
        busy = cloud.watch_machine()
        # It exits with 1, which raises, if a message was not acknowledged.
        output = cloud_setting.run_python(arguments, cloud_setting.settings_of(project, cloud.firestore), count)
        machine_busy = busy()
        path.unlink()
        ingested = msgspec.json.decode(output, type=_Ingested)
        return Run(
            kind="file",
            documents=documents,
            sent=count,
            done=ingested.messages,
            seconds=ingested.seconds,
            machine_busy=machine_busy,
            faults=cloud_verify.find_faults(project, sent, _ids(sent)),
        )


def push(cloud: Cloud, documents: int, count: int) -> Run:
    sent = cloud.messages(documents, count)
    bodies = [message.push_body() for message in sent]
    with cloud.project() as project:
        with cloud.server(project, cloud.firestore) as server:
            busy, commits = cloud.watch_machine(), server.metric("millpond_commits_total")
            tally = cloud_setting.push(server, bodies)
            machine_busy = busy()
            commits = server.metric("millpond_commits_total") - commits
        faults = cloud_setting.faults_of(tally, count)
        return Run(
            kind="push",
            documents=documents,
            sent=count,
            done=tally.ok,
            seconds=tally.seconds,
            commits=round(commits),
            p50_ms=tally.p50_ms,
            p99_ms=tally.p99_ms,
            machine_busy=machine_busy,
            faults=faults + cloud_verify.find_faults(project, sent, _ids(sent)),
        )


def _ids(messages: Sequence[Message]) -> set[str]:
    return {message.message_id for message in messages}
