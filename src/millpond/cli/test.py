"""`millpond test`: checks each view of a user's module with the events of a file (`millpond.testing`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from millpond.cli import exit_codes
from millpond.cli.escape import clean
from millpond.cli.exit_codes import WrongUsage
from millpond.cli.options import example, json_option, load_settings
from millpond.cli.output import print_json, print_line
from millpond.core.view import View
from millpond.service.views import load_modules
from millpond.settings import Settings
from millpond.testing.check import check
from millpond.testing.faults import CheckReport, NoEvents, ViewFault


@click.command(
    epilog=example(
        "millpond test orders --events orders.jsonl", "millpond test orders --events orders.jsonl --worlds 5000"
    )
)
@click.argument("module")
@click.option(
    "--events",
    metavar="FILE",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Messages, one JSON object a line, as `millpond ingest` takes them; publishTime may be missing.",
)
@click.option(
    "--worlds",
    type=click.IntRange(1, 10_000_000),
    default=200,
    show_default=True,
    help="Simulated worlds for each view.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the worlds.")
@json_option
@click.pass_context
def test(ctx: click.Context, module: str, events: Path, worlds: int, seed: int, *, as_json: bool) -> None:
    """Check your own views with your own events.

    Puts the events of FILE that each view of MODULE takes through shuffles, duplicates, republished copies,
    batches, crashes, lost replies, replays and deleted receipts, and compares the documents with an independent
    fold. Exits with 1 if a view has a fault; then it shows the smallest history, the cause, and what to do.
    """
    settings = load_settings()
    results = [_check(view, events, worlds, seed, settings) for view in load_modules([module], settings)]
    if all(isinstance(result, NoEvents) for _, result in results):
        raise WrongUsage(f"no view of {module} was checked: {results[0][1]}")
    if as_json:
        print_json({"views": [_as_json(view, result) for view, result in results]})
    else:
        for view, result in results:
            _show(view, result)
    faulty = any(isinstance(result, ViewFault) for _, result in results)
    ctx.exit(exit_codes.NEGATIVE if faulty else exit_codes.OK)


_Checked = tuple[View, CheckReport | ViewFault | NoEvents]


def _check(view: View, events: Path, worlds: int, seed: int, settings: Settings) -> _Checked:
    try:
        return view, check(view, events, worlds=worlds, seed=seed, settings=settings)
    except (ViewFault, NoEvents) as problem:
        return view, problem


def _show(view: View, result: CheckReport | ViewFault | NoEvents) -> None:
    if isinstance(result, CheckReport):
        print_line(clean(f"{view.name}: no fault in {result.worlds} worlds; {_counts(result)}"))
        for number, text in result.poison.items():
            print_line(clean(f"  line {number} is poison: {text}"))
    elif isinstance(result, NoEvents):
        print_line(clean(f"{view.name}: not checked, because no event of the file is for {', '.join(view.topics)}"))
    else:
        print_line(clean(f"{view.name}: {result.cause}"))
        for line in str(result).splitlines():
            print_line(clean(f"  {line}".rstrip()))


def _counts(report: CheckReport) -> str:
    counts = {
        "applied": report.applied,
        "filtered": report.filtered,
        "too old": report.too_old,
        "poison": len(report.poison),
    }
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    documents = "1 document" if report.documents == 1 else f"{report.documents} documents"
    events = "1 event" if report.events == 1 else f"{report.events} events"
    return f"{events}: {said}; {documents}"


def _as_json(view: View, result: CheckReport | ViewFault | NoEvents) -> dict[str, Any]:
    if isinstance(result, CheckReport):
        return {
            "view": view.name,
            "cause": None,
            "events": result.events,
            "applied": result.applied,
            "filtered": result.filtered,
            "tooOld": result.too_old,
            "poison": {str(number): text for number, text in result.poison.items()},
            "documents": result.documents,
            "worlds": result.worlds,
        }
    if isinstance(result, NoEvents):
        return {"view": view.name, "cause": "no_events", "text": str(result)}
    return {"view": view.name, "cause": result.cause, "text": str(result), "shrunk": result.events}
