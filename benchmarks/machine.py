"""Describes the machine and the versions of a measurement."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import os
import platform
import re
import statistics
import subprocess
import time
from pathlib import Path

import apsw

from benchmarks import wrk
from benchmarks.processes import Cores
from tests.common.process import ROOT

_PACKAGES = ("uvicorn", "uvloop", "httptools", "msgspec", "starlette", "apsw")
_SYNCS = 100


def describe(folder: Path, cores: Cores) -> dict[str, str]:
    memory = _find(r"^MemTotal:\s+(\d+) kB$", "/proc/meminfo")
    return {
        "processor": _find(r"^model name\s*: (.*)$", "/proc/cpuinfo") or platform.machine(),
        "cores": f"{os.cpu_count()} (server on {cores.server}, load generator on {cores.generator})",
        "memory": f"{int(memory or 0) / 1024 / 1024:.1f} GiB",
        "system": f"{platform.system()} {platform.release()}, {_find(r'^PRETTY_NAME=.(.*).$', '/etc/os-release')}",
        "store's file system": _file_system(folder),
        "write + fsync of 4 KiB": f"{_sync_ms(folder):.2f} ms (median of {_SYNCS})",
    }


def versions() -> dict[str, str]:
    found = {"millpond": f"{importlib.metadata.version('millpond')} ({_commit()})"}
    found["python"] = f"{platform.python_implementation()} {platform.python_version()}"
    found |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    return {**found, "sqlite": apsw.sqlite_lib_version(), "wrk": wrk.version()}


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _find(pattern: str, path: str) -> str:
    found = (
        re.search(pattern, Path(path).read_text(errors="replace"), re.MULTILINE) if Path(path).exists() else None
    )
    return found[1] if found is not None else ""


def _file_system(folder: Path) -> str:
    best, kind = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, type_of = line.split()[:3]
        inside = mount == "/" or folder.is_relative_to(mount)
        if inside and len(mount) >= len(best):
            best, kind = mount, type_of
    return f"{kind} on {best}"


def _sync_ms(folder: Path) -> float:
    """The time of a durable write on this disk, without Millpond."""
    path = folder / "sync.probe"
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            began = time.perf_counter()
            file.write(bytes(4_096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    path.unlink()
    return statistics.median(times) * 1_000


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    commit = git("rev-parse", "--short", "HEAD") or "no commit"
    return f"{commit}, with changes" if git("status", "--porcelain", "--", "src") else commit
