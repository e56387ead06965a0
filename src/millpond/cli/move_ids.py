"""`millpond move-ids`: moves documents to the current form of their ids, through `backend`.

The documents under old ids are found first, beside the server, with the views of this command's settings.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

import click
import msgspec

from millpond.cli import exit_codes
from millpond.cli.backend import Answer, no_such_view, open_backend
from millpond.cli.escape import clean
from millpond.cli.options import example, json_option, load_settings, store_option, views_option
from millpond.cli.output import Column, print_json, print_line, print_note, print_table, progress
from millpond.cli.store import open_for_reading, refuse_memory, refuse_missing
from millpond.core.model import Ref
from millpond.core.view import View
from millpond.reprocess.move_ids import Mover, OldDocument, find_old_documents
from millpond.reprocess.plan_move import Moved
from millpond.service.views import load_views
from millpond.settings import Settings

_AT_ONCE = 100
_SHOWN_MAX = 20
_DOCUMENTS = (Column("document"), Column("new id"), Column("outcome"))
_MEANING = {
    Moved.MOVED: "the new id was free",
    Moved.REPLACED: "both ids held a document, the one under the old id was newer",
    Moved.SUPERSEDED: "both ids held a document, the one under the new id was newer",
    Moved.MERGED: "both ids held a document, each field is the newer one's",
    Moved.LEFT: "still under the old id; standard error has the reason",
    Moved.GONE: "deleted from the old id before it could be moved",
}


@click.command(
    name="move-ids", epilog=example("millpond move-ids --dry-run", "millpond move-ids --view orders --yes")
)
@click.option("--view", "view_name", metavar="NAME", help="Only this view's documents.")
@click.option("--dry-run", is_flag=True, help="Show what would become of each document, and write nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
@views_option
@json_option
@click.pass_context
def move_ids(ctx: click.Context, view_name: str | None, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Move documents to the current form of their ids, after an upgrade.

    Earlier builds escaped ids that Firestore allows: strat_%5FSPY_%5F1 is now strat__SPY__1. New events go to the
    new id. The command moves the documents under the old one, each by one commit, while traffic goes on. If both
    ids hold a document, the newer one stays; in a merge view each field is the newer one's; a tally's two counts
    are left as they are. Asks for confirmation on a terminal; elsewhere it needs --yes. Exits with 1 if a document
    was left.
    """
    settings = load_settings()
    refuse_memory(settings)
    refuse_missing(settings.store_path)
    views = _chosen(load_views(settings), view_name)
    found = asyncio.run(_find(settings, views))
    through: str | None = None
    if dry_run:
        answers = asyncio.run(_preview(settings, views, found))
    else:
        if found and not yes:
            _confirm(len(found))
        through, answers = asyncio.run(_move(settings, found)) if found else (None, [])
    if as_json:
        counts = Counter(str(answer["outcome"]) for answer in answers)
        print_json({"dryRun": dry_run, "through": through, "documents": answers, "summary": dict(counts)})
    else:
        _show(answers, dry_run=dry_run)
        if through is not None:
            print_note(f"Through {through}.")
    left = any(answer["outcome"] == Moved.LEFT for answer in answers)
    ctx.exit(exit_codes.NEGATIVE if left else exit_codes.OK)


def _chosen(views: Sequence[View], name: str | None) -> list[View]:
    chosen = [view for view in views if name in {None, view.name}]
    if not chosen:
        raise no_such_view(name, views)
    return chosen


async def _find(settings: Settings, views: Sequence[View]) -> list[OldDocument]:
    async with open_for_reading(settings) as store:
        return [found async for found in find_old_documents(store, views)]


async def _preview(settings: Settings, views: Sequence[View], found: Sequence[OldDocument]) -> list[Answer]:
    answers: list[Answer] = []
    async with open_for_reading(settings) as store:
        mover = Mover(store, views, lambda _: None)
        with progress("Previewing", len(found)) as advance:
            for collection, ids in _chunks(found):
                refs = [Ref(collection, document_id) for document_id in ids]
                answers += [
                    {"collection": collection, **msgspec.to_builtins(report.answer())}
                    for report in await mover.move_all(refs, dry_run=True)
                ]
                advance(len(ids))
    return answers


async def _move(settings: Settings, found: Sequence[OldDocument]) -> tuple[str, list[Answer]]:
    """The server's URL, or the store; and the answer for each document."""
    answers: list[Answer] = []
    async with open_backend(settings) as backend:
        with progress("Moving", len(found), backend.pace) as advance:
            for collection, ids in _chunks(found):
                answers += [{"collection": collection, **answer} for answer in await backend.move(collection, ids)]
                advance(len(ids))
        return backend.name, answers


def _chunks(found: Sequence[OldDocument]) -> Iterator[tuple[str, list[str]]]:
    for collection, documents in groupby(found, lambda one: one.old.collection):
        ids = [one.old.id for one in documents]
        for at in range(0, len(ids), _AT_ONCE):
            yield collection, ids[at : at + _AT_ONCE]


def _confirm(count: int) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"{_documents(count)} to move, and no terminal to ask on: give --yes, or preview with --dry-run",
            click.get_current_context(),
        )
    if not click.confirm(f"Move {_documents(count)}?", err=True):
        raise exit_codes.NegativeAnswer("nothing was moved")


def _show(answers: Sequence[Answer], *, dry_run: bool) -> None:
    if not answers:
        print_line("No document has an id that an earlier build escaped.")
        return
    # Documents that an operator must decide on come first, so that a long list does not cut them off.
    first = sorted(answers, key=lambda answer: answer["outcome"] != Moved.LEFT)
    rows = [(f"{one['collection']}/{one['id']}", one["newId"], one["outcome"]) for one in first[:_SHOWN_MAX]]
    print_table(_DOCUMENTS, rows)
    if len(first) > _SHOWN_MAX:
        print_line(f"… and {len(first) - _SHOWN_MAX} more (--json lists all of them)")
    for why, count in Counter(str(one["error"]) for one in answers if one["error"]).items():
        print_note(f"{_documents(count)} left: {why}")
    counts = Counter(Moved(one["outcome"]) for one in answers)
    for outcome in Moved:
        if counts[outcome]:
            print_line(clean(f"{counts[outcome]} {outcome}: {_MEANING[outcome]}"))
    if dry_run:
        print_note("Nothing was written.")


def _documents(count: int) -> str:
    return "1 document" if count == 1 else f"{count} documents"
