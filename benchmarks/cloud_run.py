"""One run of the cloud benchmark: measure, print, and (a complete run only) write its part of docs/benchmarks.*.

Exit codes: 0 every target met, 1 a target missed, 2 it could not be measured.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks import cloud_counted, cloud_pull, cloud_report, cloud_runs, machine, sections
from benchmarks.cloud_results import DOCUMENTS, FULL, HOT_DOCUMENTS, QUICK, CloudResults, Run
from benchmarks.cloud_setting import Cloud
from benchmarks.processes import BenchError, Cores
from benchmarks.setting import say
from tests.common.emulators import emulator
from tests.common.firestore_proxy import running_proxy
from tests.common.process import ROOT

_PACKAGES = (
    "google-cloud-firestore",
    "google-cloud-pubsub",
    "google-api-core",
    "grpcio",
    "protobuf",
    "uvloop",
    "msgspec",
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="cloud.py", description="Measure Millpond on Firestore's emulator against the textbook consumer."
    )
    parser.add_argument(
        "--quick", action="store_true", help="a short run that shows the harness works; prints only"
    )
    options = parser.parse_args(arguments)
    # SIGTERM raises here, so that every started process is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = _measure(quick=options.quick)
    except BenchError as error:
        print(f"bench-cloud: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    say(cloud_report.terminal(results))
    if options.quick:
        say("A shortened run: docs/benchmarks.md is left as it is.")
    else:
        sections.write_cloud(cloud_report.section(results), cloud_report.figures(results))
        say("Written: docs/benchmarks.md, docs/benchmarks.json (their parts on Firestore)")
    return 0 if all(check.passed for check in results.checks()) else 1


def _measure(*, quick: bool) -> CloudResults:
    sizes = QUICK if quick else FULL
    with (
        run_folder("cloud") as folder,
        emulated("firestore", folder) as firestore,
        emulated("pubsub", folder) as pubsub,
    ):
        cloud = Cloud(folder, firestore, pubsub, sizes)
        say(f"Emulators: Firestore on {firestore}, Pub/Sub on {pubsub}; warming up")
        _warm_up(cloud)
        runs = []
        for number in range(1, sizes.rounds + 1):
            for run in _round(cloud):
                runs.append(run)
                say(f"  round {number}  " + cloud_report.line(run))
        say("Counting at the proxy")
        with running_proxy(firestore) as proxied:
            baseline = cloud_counted.baseline(cloud, proxied)
            push = cloud_counted.push(cloud, proxied)
            receipts = [cloud_counted.receipts(cloud, proxied, which) for which in ("all", "tallies")]
            ticks = [cloud_counted.ticks(cloud, proxied, shuffled=shuffled) for shuffled in (False, True)]
        return CloudResults(
            date=machine.now(),
            command="make bench-cloud",
            machine=describe(folder),
            versions=versions(),
            sizes=sizes,
            runs=runs,
            baseline_counted=baseline,
            push_counted=push,
            ticks_counted=ticks,
            receipts_counted=receipts,
        )


def _round(cloud: Cloud) -> Iterator[Run]:
    """Both sides in turns, so that a slow phase of the machine affects both."""
    sizes = cloud.sizes
    yield cloud_runs.baseline(cloud, DOCUMENTS, sizes.baseline, sizes.baseline_s)
    yield cloud_runs.file(cloud, DOCUMENTS, sizes.file)
    yield cloud_pull.pull(cloud, DOCUMENTS, sizes.pull)
    yield cloud_runs.push(cloud, DOCUMENTS, sizes.push)
    yield cloud_runs.baseline(cloud, HOT_DOCUMENTS, sizes.baseline, sizes.hot_baseline_s)
    yield cloud_runs.push(cloud, HOT_DOCUMENTS, sizes.hot_push)


def _warm_up(cloud: Cloud) -> None:
    """Warm up the emulator's just-in-time compiler with each kind of load.

    Small commits come first: a cold emulator takes seconds for a commit of 500 messages, longer than a call may.
    """
    sizes = cloud.sizes
    cloud_runs.baseline(cloud, DOCUMENTS, sizes.baseline, sizes.baseline_s)
    cloud_runs.push(cloud, DOCUMENTS, sizes.warm_up)
    cloud_runs.file(cloud, DOCUMENTS, sizes.warm_up)
    cloud_pull.pull(cloud, DOCUMENTS, sizes.warm_up)


@contextlib.contextmanager
def emulated(kind: str, folder: Path) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(emulator(kind, folder))
        except (pytest.skip.Exception, pytest.fail.Exception, AssertionError) as error:
            # The tests' helper skips without an emulator; here that is an error.
            raise BenchError(str(error)) from None
        # The benchmark's own clients, which publish before a run and read back after it, find it here.
        os.environ[f"{kind.upper()}_EMULATOR_HOST"] = address
        yield address


@contextlib.contextmanager
def run_folder(name: str) -> Iterator[Path]:
    """A new folder for logs and files of messages; removed at the end."""
    folder = ROOT / "var" / f"bench-{name}-{os.getpid()}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def describe(folder: Path) -> dict[str, str]:
    described = machine.describe(folder, Cores(0, 0))
    cores = f"{os.cpu_count()}, shared by the emulator, Millpond or the baseline, and the load generator"
    return {name: described[name] for name in ("processor", "memory", "system")} | {"cores": cores}


def versions() -> dict[str, str]:
    commit = _output_of("git", "describe", "--always", "--dirty")
    found = {
        "millpond": f"{importlib.metadata.version('millpond')} ({commit})",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    found |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {**found, **_emulator_versions()}


def _emulator_versions() -> dict[str, str]:
    names = {"Firestore emulator": "cloud-firestore-emulator", "Pub/Sub emulator": "pubsub-emulator"}
    components = dict(line.rpartition(" ")[::2] for line in _output_of("gcloud", "version").splitlines())
    found = {name: components.get(component, "unknown") for name, component in names.items()}
    return {**found, "java": _output_of("java", "-version").partition("\n")[0]}


def _output_of(*command: str) -> str:
    # Java prints its version on standard error.
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout.strip()
