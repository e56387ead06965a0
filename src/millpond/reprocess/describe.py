"""What a comparison found, as the API and the command line tell it."""

from __future__ import annotations

from typing import Any

import msgspec

from millpond.reprocess.diff import DifferenceKind
from millpond.reprocess.report import Report


def report_json(report: Report) -> dict[str, Any]:
    different = sum(report.differences.values())
    new = report.differences[DifferenceKind.MISSING]
    return {
        "entries": report.entries,
        "unfolded": dict(report.unfolded),
        "documents": report.documents,
        "equal": report.equal,
        "different": different,
        "new": new,
        "changed": different - new,
        "differences": [msgspec.to_builtins(found) for found in report.listed],
        "notCheckable": sum(report.uncheckable.values()),
        "notCheckableBecause": dict(report.uncheckable),
        "notCheckableDocs": report.uncheckable_docs,
    }
