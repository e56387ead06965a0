"""The result of a comparison as the API and the command line return it. Pure. Called by `jobs` and the CLI."""

from __future__ import annotations

from typing import Annotated

import msgspec

from millpond.core.answers import Count
from millpond.reprocess.diff import Difference, DifferenceKind
from millpond.reprocess.report import Report


class RebuildReport(msgspec.Struct, rename="camel", kw_only=True):
    """The view's documents beside the fold of the log; up to 1,000 differences are listed."""

    entries: Count
    unfolded: Annotated[dict[str, Count], msgspec.Meta(description="Entries the view cannot fold, by why.")]
    documents: Count
    equal: Count
    different: Count
    new: Count
    changed: Count
    differences: list[Difference]
    not_checkable: Count
    not_checkable_because: dict[str, Count]
    not_checkable_docs: list[str]


def rebuild_report(report: Report) -> RebuildReport:
    different = sum(report.differences.values())
    new = report.differences[DifferenceKind.MISSING]
    return RebuildReport(
        entries=report.entries,
        unfolded=dict(report.unfolded),
        documents=report.documents,
        equal=report.equal,
        different=different,
        new=new,
        changed=different - new,
        differences=report.listed,
        not_checkable=sum(report.uncheckable.values()),
        not_checkable_because=dict(report.uncheckable),
        not_checkable_docs=report.uncheckable_docs,
    )
