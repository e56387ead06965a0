"""The files of a chart step: their names, atomic writing, and the manifest. Called by `step.py`.

A reader never sees a partly written file. A name depends on the request alone, so a repeated step replaces its
files.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from millpond import StepFailed
from millpond.charts.request import ChartFailure, Request

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1

_NAME_CHARS_MAX = 40
_TEMPORARY = ".tmp"


def file_name(request: Request, symbol: str) -> str:
    """`01-SPY-5m.png`: safe on every file system. The number keeps names distinct."""
    parts = [f"{request.index:02d}", _safe(symbol), request.timeframe]
    if request.template:
        parts.append(_safe(request.template))
    return "-".join(parts) + ".png"


def make_folder(folder: Path) -> None:
    """Create the step's folder, and remove partly written files of a crashed attempt."""
    with _writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f".*{_TEMPORARY}"):
            leftover.unlink(missing_ok=True)


def publish(folder: Path, name: str, content: bytes) -> None:
    """Write the file atomically and durably: it survives a power cut."""
    # A temporary name of its own: a worker that lost its claim may still be writing.
    temporary = folder / f".{name}.{secrets.token_hex(4)}{_TEMPORARY}"
    with _writable(folder):
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(folder / name)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _sync_folder(folder)


def manifest(head: Mapping[str, Any], items: list[dict[str, Any]], failures: list[ChartFailure]) -> bytes:
    """The request, the charts drawn and the failures, as JSON."""
    content = {"schemaVersion": SCHEMA_VERSION, **head, "items": items, "failures": [_failure(f) for f in failures]}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _failure(failure: ChartFailure) -> dict[str, Any]:
    return {
        "index": failure.index,
        "timeframe": failure.timeframe,
        "chartTemplateId": failure.template,
        "code": failure.code,
        "message": failure.message,
    }


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "_", text)[:_NAME_CHARS_MAX]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot sync folders, and do not need it.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StepFailed(
            "ARTIFACTS_NOT_WRITABLE",
            f"cannot write to {folder} ({error.strerror or error}): make room there, or set ARTIFACTS_DIR to "
            "a folder that this process may write to",
        ) from error
