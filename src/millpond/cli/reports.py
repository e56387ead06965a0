"""What `verify` and `rebuild` found, for people: the differences, the figures, and what nobody can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millpond.cli.output import Column, print_facts, print_line, print_note, print_table
from millpond.cli.stamps import stamp_cell
from millpond.reprocess.diff import MEANING, DifferenceKind

_SHOWN_MAX = 20
_DIFFERENCES = (
    Column("document"),
    Column("difference"),
    Column("stamp stored"),
    Column("stamp by the log"),
    Column("fields", clip=True),
)


def tell_report(report: dict[str, Any], figures: Sequence[tuple[str, str]]) -> None:
    """`figures` are titles and the names of what stands under them in the report."""
    listed = report["differences"][:_SHOWN_MAX]
    if listed:
        print_table(_DIFFERENCES, [_row(found) for found in listed])
        if report["different"] > len(listed):
            print_line(f"… and {report['different'] - len(listed)} more (--json lists up to 1,000)")
        for kind in sorted({found["kind"] for found in listed}):
            print_note(f"{kind}: {MEANING[DifferenceKind(kind)]}")
    print_facts([(title, report[name]) for title, name in figures])
    for why, n in report["notCheckableBecause"].items():
        print_note(f"{n} not checkable: {why}")
    if report["notCheckableDocs"]:
        print_note(f"for example {', '.join(report['notCheckableDocs'][:3])}")
    for why, n in report["unfolded"].items():
        print_note(f"{n} log entries could not be folded by the views loaded now: {why}")


def _row(found: dict[str, Any]) -> tuple[Any, ...]:
    fields = ", ".join(found["fields"]) or None
    return found["doc"], found["kind"], stamp_cell(found["stored"]), stamp_cell(found["folded"]), fields
