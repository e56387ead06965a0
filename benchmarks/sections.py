"""Writes docs/benchmarks.{md,json}: `make bench` and `make bench-cloud` each rewrite their own part.

The page is the local part, an HTML comment, and the part on Firestore. The figures of the local part are the keys
of the JSON file, beside `cloud`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tests.common.process import ROOT

DOCS = ROOT / "docs"
_MARK = "<!-- Above: make bench. Below: make bench-cloud. -->\n"
_CLOUD = "cloud"


def write_local(page: str, figures: dict[str, Any], folder: Path = DOCS) -> None:
    _, cloud, kept = _read(folder)
    if _CLOUD in kept:
        figures = {**figures, _CLOUD: kept[_CLOUD]}
    _write(folder, page, cloud, figures)


def write_cloud(section: str, figures: dict[str, Any], folder: Path = DOCS) -> None:
    local, _, kept = _read(folder)
    _write(folder, local, section, {**kept, _CLOUD: figures})


def _read(folder: Path) -> tuple[str, str, dict[str, Any]]:
    page, figures = folder / "benchmarks.md", folder / "benchmarks.json"
    local, _, cloud = page.read_text().partition(_MARK) if page.exists() else ("", "", "")
    kept = msgspec.json.decode(figures.read_bytes(), type=dict[str, Any]) if figures.exists() else {}
    return local.rstrip("\n"), cloud.strip("\n"), kept


def _write(folder: Path, local: str, cloud: str, figures: dict[str, Any]) -> None:
    page = local.rstrip("\n") + "\n"
    if cloud:
        page += f"\n{_MARK}\n" + cloud.strip("\n") + "\n"
    folder.joinpath("benchmarks.md").write_text(page)
    folder.joinpath("benchmarks.json").write_bytes(
        msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n"
    )
