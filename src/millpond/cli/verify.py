"""`millpond verify`: compares every document with the fold of the event log. Never writes to the store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from millpond.cli import exit_codes
from millpond.cli.options import example, json_option, load_settings, store_option, views_option
from millpond.cli.output import (
    Column,
    print_facts,
    print_json,
    print_line,
    print_note,
    print_table,
    progress,
    stamp_cell,
)
from millpond.cli.store import open_for_reading
from millpond.core.errors import Unavailable
from millpond.core.ports import StoreWithCatalog
from millpond.core.route import Router
from millpond.reprocess.describe import rebuild_report
from millpond.reprocess.diff import MEANING, DifferenceKind
from millpond.reprocess.fold import open_scratch
from millpond.reprocess.report import Report
from millpond.reprocess.verify import Verifier
from millpond.service.rules import engine_rules, route_rules
from millpond.service.views import load_views
from millpond.settings import Settings

_SHOWN_MAX = 20
_DIFFERENCES = (
    Column("document"),
    Column("difference"),
    Column("stamp stored"),
    Column("stamp by the log"),
    Column("fields", clip=True),
)
_FIGURES = (
    ("log entries read", "entries"),
    ("documents", "documents"),
    ("equal to the fold", "equal"),
    ("different", "different"),
    ("not checkable", "notCheckable"),
)


@click.command(epilog=example("millpond verify", "millpond verify --store sqlite:backup.db --json"))
@store_option
@views_option
@json_option
@click.pass_context
def verify(ctx: click.Context, *, as_json: bool) -> None:
    """Recompute every document from the event log and compare.

    Reads beside a running server and changes nothing. Documents that were decided by events the log does not hold
    are not checkable, and counted as such. Exits with 1 if a document differs, with 2 if there is no event log.
    """
    settings = load_settings()
    refuse_without_log(settings)
    report = msgspec.to_builtins(rebuild_report(asyncio.run(_verify(settings))))
    if as_json:
        print_json(report)
    else:
        tell_report(report, _FIGURES)
    ctx.exit(exit_codes.NEGATIVE if report["different"] else exit_codes.OK)


def refuse_without_log(settings: Settings) -> None:
    if not settings.event_log:
        raise exit_codes.WrongUsage(
            "there is no event log to fold: EVENT_LOG is off; set EVENT_LOG=on, and what arrives from then on "
            "can be checked"
        )


def tell_report(report: dict[str, Any], figures: Sequence[tuple[str, str]]) -> None:
    """Print the report of `verify` or `rebuild` as text. `figures`: titles, and names of fields of the report."""
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


async def _count(store: StoreWithCatalog) -> int | None:
    """How many messages the log has, for the bar; None if that cannot be counted in time."""
    try:
        return sum(n for counts in (await store.count_events()).values() for n in counts.values())
    except Unavailable:
        return None


async def _verify(settings: Settings) -> Report:
    async with open_for_reading(settings) as store, open_scratch() as scratch:
        router = Router(load_views(settings), route_rules(settings))
        receipts = engine_rules(settings).receipts
        verifier = await Verifier.begin(store, router, receipts, scratch, lambda: time.time_ns() // 1_000)
        with progress("Folding", await _count(store)) as advance:
            return await verifier.check(advance)
