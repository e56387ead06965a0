"""Checks free space and permissions of the folders that the server writes to. Never writes to find out.

Called by `examination`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from millpond.doctor.findings import Finding, fine, problem, warning
from millpond.settings import Settings
from millpond.stores.sqlite.file import amount

CHECK = "disk"
FREE_BYTES_PROBLEM = 100 * 1000 * 1000
FREE_BYTES_WARNING = 1000 * 1000 * 1000


def check_disk(settings: Settings) -> list[Finding]:
    found: list[Finding] = []
    path = settings.store_path
    if path is not None:
        size = sum(file.stat().st_size for file in _files_of(path))
        found += [_writable("STORE", path.parent), *_room(path.parent, size)]
        if path.exists() and not os.access(path, os.W_OK):
            advice = "give it to the user the server runs as"
            found.append(problem(CHECK, f"{path} cannot be written by this user", advice))
    return [*found, _writable("ARTIFACTS_DIR", Path(settings.artifacts_dir))]


def judge_room(folder: Path, free: int, store_bytes: int) -> Finding:
    found = f"{amount(free)} are free at {folder}, where the store has {amount(store_bytes)}"
    if free < FREE_BYTES_PROBLEM:
        advice = "make room now: a full disk stops every message (503) until there is some"
        return problem(CHECK, f"only {amount(free)} are free at {folder}", advice)
    if free < FREE_BYTES_WARNING or free < store_bytes:
        advice = "make room, or keep less: EVENT_LOG_TTL_DAYS, TICK_HISTORY_TTL_DAYS; a backup needs as much again"
        return warning(CHECK, found, advice)
    return fine(CHECK, found)


def _room(folder: Path, store_bytes: int) -> list[Finding]:
    there = _nearest(folder)
    return [] if there is None else [judge_room(folder, shutil.disk_usage(there).free, store_bytes)]


def _writable(setting: str, folder: Path) -> Finding:
    there = _nearest(folder)
    if there is None or not there.is_dir():
        return problem(CHECK, f"{folder} ({setting}) is no folder, and cannot be made", f"set {setting} to another")
    if not os.access(there, os.W_OK | os.X_OK):
        advice = f"give {there} to the user the server runs as, or set {setting} to another place"
        return problem(CHECK, f"{folder} ({setting}) cannot be written by this user", advice)
    made = "" if there == folder else "; it is made when it is needed"
    return fine(CHECK, f"{folder} ({setting}) can be written{made}")


def _nearest(folder: Path) -> Path | None:
    """The folder, or the nearest above it that exists."""
    for there in (folder, *folder.absolute().parents):
        if there.exists():
            return there
    return None


def _files_of(path: Path) -> list[Path]:
    return [file for file in (path, path.with_name(path.name + "-wal")) if file.is_file()]
